"""The guide's "Profile and optimize operators in the graph"."""

from hasten.practices.operators.rules import verdict
from hasten.practices.operators.view import sections
from hasten.practices.operators.words import PHRASES

__all__ = ["PHRASES", "sections", "verdict"]
