"""Why a changed model is faster, slower or wrong: two models side by side, node by node."""

from hasten.explanation.view import sections
from hasten.explanation.words import PHRASES

__all__ = ["PHRASES", "sections"]
