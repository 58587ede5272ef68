"""A finding: what one practice of the guide came to for one model."""

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


@dataclass(frozen=True, slots=True)
class Finding:
    """One practice, how the model stands with it, and the remark that says why and what to do."""

    practice: str
    standing: Standing
    remark: Remark

    def __post_init__(self) -> None:
        if not self.practice or not (self.remark.code or self.remark.facts.get(LEGACY)):
            raise ValueError("a finding names its practice and its evidence")

    @property
    def evidence(self) -> str:
        """The sentence, where only that is known."""
        return str(self.remark.facts.get(LEGACY, self.remark.code))

    @property
    def what_to_do(self) -> str:
        """What to do, where only the sentences are known."""
        return str(self.remark.facts.get(LEGACY_HINT, ""))

    def as_data(self) -> dict[str, Any]:
        """The finding as JSON can hold it."""
        return {
            "practice": self.practice,
            "verdict": self.standing.value,
            "code": self.remark.code,
            "facts": dict(self.remark.facts),
            "evidence": self.evidence,
            "what_to_do": self.what_to_do,
        }


def finding_from_data(data: Mapping[str, Any]) -> Finding:
    """The finding from a session file of any age."""
    if "facts" in data:
        return Finding(data["practice"], Standing(data["verdict"]), Remark(data["code"], data["facts"]))
    told = said(data.get("evidence") or "?", hint=data.get(LEGACY_HINT) or data.get("what_to_do") or "")
    return Finding(data["practice"], Standing(data["verdict"]), told)


def told_finding(practice: str, standing: Standing, evidence: str, what_to_do: str = "") -> Finding:
    """A finding of which only the sentences are known."""
    return Finding(practice, standing, said(evidence, hint=what_to_do))
