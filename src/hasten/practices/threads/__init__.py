"""The guide's "Tweak the number of threads": measured on an idle device and under other load."""

from hasten.practices.threads.rules import verdict
from hasten.practices.threads.view import sections
from hasten.practices.threads.words import PHRASES

__all__ = ["PHRASES", "sections", "verdict"]
