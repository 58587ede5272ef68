"""The guide's "Need more help": this machine, the tools on it, and the devices within reach."""

from hasten.practices.help.rules import verdict
from hasten.practices.help.view import sections
from hasten.practices.help.words import PHRASES

__all__ = ["PHRASES", "sections", "verdict"]
