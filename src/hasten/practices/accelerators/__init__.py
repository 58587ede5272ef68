"""The guide's "Evaluate whether your model benefits from hardware accelerators"."""

from hasten.practices.accelerators.rules import verdict
from hasten.practices.accelerators.view import sections
from hasten.practices.accelerators.words import PHRASES

__all__ = ["PHRASES", "sections", "verdict"]
