"""A finding: the verdict of one practice of the guide for one model."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hasten.core.remark import LEGACY, LEGACY_HINT, Remark, said

if TYPE_CHECKING:
    from collections.abc import Mapping


class Standing(enum.Enum):
    """How a model stands with a practice; the value is its name in JSON."""

    GOOD = "good"
    IMPROVED = "improved"
    TO_DO = "to do"
    NOT_EXAMINED = "not examined"
    UNDECIDED = "undecided"
    """Examined, and the machine or the data could not tell."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One practice, how the model stands with it, and the remark that says why and what to do."""

    practice: str
    standing: Standing
    remark: Remark

    def __post_init__(self) -> None:
        if not self.practice or not (self.remark.code or self.remark.facts.get(LEGACY)):
            raise ValueError("a finding names its practice and its evidence")


def finding_from_data(data: Mapping[str, Any]) -> Finding:
    """The finding from a session file of any age."""
    if "facts" in data:
        return Finding(data["practice"], Standing(data["verdict"]), Remark(data["code"], data["facts"]))
    told = said(data.get("evidence") or "?", hint=data.get(LEGACY_HINT) or data.get("what_to_do") or "")
    return Finding(data["practice"], Standing(data["verdict"]), told)
