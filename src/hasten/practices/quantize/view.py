"""What this practice shows."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hasten.core.session import Line
    from hasten.show.blocks import Section


def sections(lines: Sequence[Line]) -> list[Section]:
    """What a report shows of it."""
    return []
