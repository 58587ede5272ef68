"""The guide's "Choose the best model for the task"."""

from hasten.practices.choose.rules import verdict
from hasten.practices.choose.view import sections
from hasten.practices.choose.words import PHRASES

__all__ = ["PHRASES", "sections", "verdict"]
