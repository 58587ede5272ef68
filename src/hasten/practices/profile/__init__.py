"""The guide's "Profile your model": each operator's time, cost and headroom."""

from hasten.practices.profile.rules import verdict
from hasten.practices.profile.view import sections
from hasten.practices.profile.words import PHRASES

__all__ = ["PHRASES", "sections", "verdict"]
