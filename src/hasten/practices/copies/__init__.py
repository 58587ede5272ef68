"""The guide's "Eliminate redundant copies": the cost of feeding and reading a model."""

from hasten.practices.copies.rules import verdict
from hasten.practices.copies.view import sections
from hasten.practices.copies.words import PHRASES

__all__ = ["PHRASES", "sections", "verdict"]
