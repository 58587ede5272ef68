"""Words for messages about data."""

from __future__ import annotations


def several(count: int, what: str) -> str:
    """A count with its noun: 1 sample, 2 samples."""
    return f"{count} {what}" if count == 1 else f"{count} {what}s"
