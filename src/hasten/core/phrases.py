"""Phrases: how codes become sentences. A phrase is a template whose places name facts and how they are written.

    "Use {threads:count thread}: {ratio:speedup}."   →   "Use 2 threads: 1.6× faster (95 % CI 1.5–1.7)."

Each room keeps its own table of phrases; a `Phrasebook` reads several. What a template cannot say (a choice of words, a
list of parts) is a function of the facts.
"""

from __future__ import annotations

import shlex
import string
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from hasten.core import units
from hasten.core.remark import LEGACY, LEGACY_HINT, Remark

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from hasten.core.finding import Finding

    Template = str | Callable[[Mapping[str, Any]], str]


@dataclass(frozen=True, slots=True)
class Phrase:
    """The sentence for a code, and what to do about it, if anything."""

    text: Template
    hint: Template = ""


class Phrasebook:
    """The phrases of several rooms; the earlier table wins."""

    def __init__(self, *tables: Mapping[str, Phrase]) -> None:
        self._phrases: dict[str, Phrase] = {}
        for table in reversed(tables):
            self._phrases.update(table)

    def text(self, remark: Remark) -> str:
        """The remark as a sentence. One of an older session is shown as it was written then."""
        if LEGACY in remark.facts:
            return str(remark.facts[LEGACY])
        phrase = self._phrases.get(remark.code)
        return filled(phrase.text, remark.facts) if phrase else _unknown(remark) if remark.code else ""

    def hint(self, remark: Remark) -> str:
        """What to do about it; empty where there is nothing to do."""
        if told := remark.facts.get(LEGACY_HINT):
            return str(told)
        phrase = self._phrases.get(remark.code)
        try:
            return filled(phrase.hint, remark.facts) if phrase else ""
        except KeyError:
            if LEGACY in remark.facts:  # advice that needs facts, where only a sentence is known
                return ""
            raise

    def sentences(self, remarks: Sequence[Remark]) -> list[str]:
        """A sentence for each remark."""
        return [self.text(remark) for remark in remarks]

    def remark_data(self, remark: Remark) -> dict[str, Any]:
        """A remark for `--json`: code, facts and words side by side. Reason and evidence are its older names."""
        text = self.text(remark)
        return {
            "code": remark.code,
            "facts": dict(remark.facts),
            "text": text,
            "hint": self.hint(remark),
            "reason": remark.code,
            "evidence": text,
        }

    def finding_data(self, finding: Finding) -> dict[str, Any]:
        """A finding for `--json`: verdict, code, facts and words side by side."""
        return {
            "practice": finding.practice,
            "verdict": finding.standing.value,
            "code": finding.remark.code,
            "facts": dict(finding.remark.facts),
            "evidence": self.text(finding.remark),
            "what_to_do": self.hint(finding.remark),
        }


def filled(template: Template, facts: Mapping[str, Any]) -> str:
    """A template with its places filled."""
    return _FORMATTER.vformat(template, (), facts) if isinstance(template, str) else template(facts)


def as_sentence(text: str) -> str:
    """What an engine or an older session said, with a full stop, and a capital unless it begins with a name."""
    capital = text[:1].upper() + text[1:] if text.partition(" ")[0].isalpha() else text
    return capital if not text or text.endswith((".", "!", "?", "…")) else f"{capital}."


class _Formatter(string.Formatter):
    """`{fact:how}`: `how` is one of the ways below, or else what Python's own format takes."""

    def format_field(self, value: Any, format_spec: str) -> Any:
        way, _, argument = format_spec.partition(" ")
        if way in _WAYS:
            return _WAYS[way](value, argument)
        return super().format_field(value, format_spec)


def _list(values: Sequence[Any], argument: str) -> str:
    """`a, b and c`; with an argument, that in the place of `and`."""
    words = [str(value) for value in values]
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} {argument or 'and'} {words[-1]}"


_WAYS: Final[dict[str, Callable[[Any, str], str]]] = {
    "ms": lambda value, _: units.milliseconds(value),
    "us": lambda value, _: units.milliseconds(value / 1e3),
    "percent": lambda value, _: units.percent(value),
    "points": lambda value, _: units.percentage_points(value),
    "size": lambda value, _: units.size(value),
    "large": lambda value, _: units.count(value),
    "times": lambda value, _: units.times(value),
    "count": units.several,
    "speedup": lambda ratio, _: units.speedup(ratio["ratio"], ratio.get("ci95")),
    "interval": lambda pair, _: units.interval_ms(*pair),
    "range": lambda pair, _: units.ratio_interval(pair),
    "list": _list,
    "shell": lambda value, _: shlex.quote(str(value)),
    "seconds": lambda value, _: units.duration(value),
}
_FORMATTER: Final = _Formatter()


def _unknown(remark: Remark) -> str:
    """A remark of a newer release, or of a practice that is not installed: the bare facts."""
    facts = ", ".join(f"{name} {value}" for name, value in remark.facts.items())
    return f"{remark.code}: {facts}" if facts else remark.code
