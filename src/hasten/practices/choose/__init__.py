"""The guide's "Choose the best model for the task": candidates timed on the device, with what is known of accuracy."""

from hasten.practices.choose.rules import verdict
from hasten.practices.choose.view import sections
from hasten.practices.choose.words import PHRASES

__all__ = ["PHRASES", "sections", "verdict"]
