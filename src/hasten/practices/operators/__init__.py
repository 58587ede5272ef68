"""The guide's "Profile and optimize operators in the graph"."""

from hasten.practices.operators.rules import verdict
from hasten.practices.operators.words import PHRASES
from hasten.practices.practice import no_sections as sections

__all__ = ["PHRASES", "sections", "verdict"]
