"""Where two models, or two plans of one model, diverge: what each node adds, proven by running it alone."""

from hasten.explanation.diff.view import sections
from hasten.explanation.diff.words import PHRASES

__all__ = ["PHRASES", "sections"]
