"""A toy practice: is the model file light?"""

from hasten.practices.weight.rules import verdict
from hasten.practices.weight.view import sections
from hasten.practices.weight.words import PHRASES

__all__ = ["PHRASES", "sections", "verdict"]
