"""A finding: what one practice of the guide came to for one model, in words that a report can print."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any


class Standing(enum.Enum):
    """How a model stands with a practice; the value is its name in JSON."""

    GOOD = "good"
    IMPROVED = "improved"
    TO_DO = "to do"
    NOT_EXAMINED = "not examined"


@dataclass(frozen=True, slots=True)
class Finding:
    """One practice, how the model stands with it, the measurement that says so, and what to do."""

    practice: str
    standing: Standing
    evidence: str
    what_to_do: str = ""

    def __post_init__(self) -> None:
        if not self.practice or not self.evidence:
            raise ValueError("a finding names its practice and its evidence")
        if self.standing is Standing.TO_DO and not self.what_to_do:
            raise ValueError("a finding that asks for something says what to do")

    def as_data(self) -> dict[str, Any]:
        """The finding as JSON can hold it."""
        return {
            "practice": self.practice,
            "verdict": self.standing.value,
            "evidence": self.evidence,
            "what_to_do": self.what_to_do,
        }


def finding_from_data(data: dict[str, Any]) -> Finding:
    """The finding back from JSON."""
    return Finding(data["practice"], Standing(data["verdict"]), data["evidence"], data["what_to_do"])
