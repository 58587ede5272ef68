"""A gate for CI: limits and a baseline, decided by measurement."""

from hasten.gate.view import sections
from hasten.gate.words import PHRASES

__all__ = ["PHRASES", "sections"]
