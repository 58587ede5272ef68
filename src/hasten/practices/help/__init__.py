"""The guide's "Need more help": this machine and the tools on it."""

from hasten.practices.help.rules import verdict
from hasten.practices.help.view import sections
from hasten.practices.help.words import PHRASES

__all__ = ["PHRASES", "sections", "verdict"]
