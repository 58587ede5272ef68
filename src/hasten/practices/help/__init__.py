"""The guide's "Need more help": this machine, the tools on it, and the available devices."""

from hasten.practices.help.rules import verdict
from hasten.practices.help.words import PHRASES
from hasten.practices.practice import no_sections as sections

__all__ = ["PHRASES", "sections", "verdict"]
