"""Why a changed model is faster, slower or wrong: two models side by side, node by node."""

from hasten.explain.view import sections
from hasten.explain.words import PHRASES

__all__ = ["PHRASES", "sections"]
