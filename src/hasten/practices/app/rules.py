"""Decisions of this practice."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hasten.core.finding import Finding, Standing
from hasten.core.remark import remark

if TYPE_CHECKING:
    from hasten.practices.practice import Evidence


def verdict(known: Evidence) -> Finding:
    """How a tuned model stands with this practice: a tuning alone says nothing about it."""
    return Finding("app", Standing.NOT_EXAMINED, remark("app.not-examined"))
