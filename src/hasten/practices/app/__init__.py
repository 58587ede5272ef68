"""The guide's "Profile your application": a program that is watched, or a recorded trace."""

from hasten.practices.app.rules import verdict
from hasten.practices.app.view import sections
from hasten.practices.app.words import PHRASES

__all__ = ["PHRASES", "sections", "verdict"]
