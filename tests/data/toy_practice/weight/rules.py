"""Light or heavy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hasten.core.finding import Finding, Standing
from hasten.core.remark import remark

if TYPE_CHECKING:
    from hasten.practices.weight.facts import WeightFound

    from hasten.practices.practice import Evidence

NAME = "weight"


def finding_of(found: WeightFound) -> Finding:
    """Whether the file is light."""
    heavy = found.model.size_bytes > found.limit
    facts = {"bytes": found.model.size_bytes, "limit": found.limit}
    return Finding(
        NAME, Standing.TO_DO if heavy else Standing.GOOD, remark(f"weight.{'heavy' if heavy else 'light'}", **facts)
    )


def verdict(known: Evidence) -> Finding:
    """As far as a tuning shows it."""
    return Finding(NAME, Standing.GOOD, remark("weight.known", bytes=known.best.size_bytes))
