"""A remark: what is said about a result, as a code and the facts behind it. Words are made from it when it is shown.

Doubts, notes, reasons and evidence are all remarks. A remark is compared, counted and decided upon by its code; the
sentence for it stands in the `words` of the room that makes it (`hasten.core.phrases`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

# Sessions of earlier releases hold finished sentences in the place of facts; they are shown as they are.
LEGACY: Final = "text"
LEGACY_HINT: Final = "hint"


@dataclass(frozen=True, slots=True)
class Remark:
    """A code, and numbers and names that belong to it. Facts are plain data, as JSON can hold it."""

    code: str
    facts: Mapping[str, Any] = field(default_factory=dict)

    def __hash__(self) -> int:
        return hash((self.code, *sorted(self.facts)))


def remark(code: str, /, **facts: Any) -> Remark:
    """A remark with its facts as keywords."""
    return Remark(code, facts)


def said(text: str, code: str = "", hint: str = "") -> Remark:
    """A remark of which only the sentence is known: from an older session, or from outside of hasten (an engine)."""
    return Remark(code, {LEGACY: text, **({LEGACY_HINT: hint} if hint else {})})


def each_once(remarks: Iterable[Remark]) -> tuple[Remark, ...]:
    """The remarks in their order, without repeats."""
    return tuple(dict.fromkeys(remarks))


def remark_from_data(data: Mapping[str, Any] | str) -> Remark:
    """A remark from a session file of any age: a sentence, a doubt with its reason and evidence, or code and facts."""
    if isinstance(data, str):
        return said(data)
    if "facts" in data:
        return Remark(data["code"], data["facts"])
    text = data.get("evidence", data.get("text", ""))
    return said(text, data.get("code", data.get("reason", "")), data.get("hint", ""))
