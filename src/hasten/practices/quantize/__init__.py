"""The guide's "Optimize your model": variants with measured accuracy, size and speed. `hasten.search` finds them."""

from hasten.practices.quantize.rules import verdict
from hasten.practices.quantize.view import sections
from hasten.practices.quantize.words import PHRASES

__all__ = ["PHRASES", "sections", "verdict"]
