"""Measurements, comparisons and long runs as text for a terminal of 80 columns."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Final

from hasten.core.doubts import DOUBTS
from hasten.show.terminal import printable as printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hasten.core.remark import Remark

WIDTH: Final = 80
_BAR: Final = 30


def doubts_text(doubts: Sequence[Remark]) -> list[str]:
    """Doubts as lines, after an empty one; nothing where there are none."""
    if not doubts:
        return []
    lines = [""]
    for doubt in doubts:
        lines += wrapped(DOUBTS.text(doubt), "! ", "  ")
        lines += wrapped(DOUBTS.hint(doubt), "  ", "  ")
    return lines


def wrapped(text: str, first: str = "", other: str = "  ") -> list[str]:
    """The text in lines that fit the width, each after its indent."""
    return textwrap.wrap(printable(text), WIDTH, initial_indent=first, subsequent_indent=other)
