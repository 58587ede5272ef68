"""How to get each number again: the commands behind the report's figures."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

from hasten.core.codec import to_data
from hasten.report.summary.commands import ORIGINAL, candidate
from hasten.report.summary.reading import text
from hasten.report.summary.records import Reproduction
from hasten.report.summary.words import accuracy_text, latency_text
from hasten.report.timing import FINAL, comparison_words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hasten.core.measurement import Measurement
    from hasten.core.session import Line
    from hasten.report.summary.records import TrialRow
    from hasten.report.timing import ComparedPair


def reproductions(
    lines: Sequence[Line],
    trials: Sequence[TrialRow],
    comparisons: Sequence[ComparedPair],
    settings: dict[str, Any],
    model: str,
) -> tuple[Reproduction, ...]:
    """The commands behind the report's numbers, the whole first."""
    found = []
    if command := text(settings, "command"):
        found.append(Reproduction("everything in this report", "", command))
    found += [_comparison(pair, pair.first, pair.second) for pair in comparisons if pair.first and pair.second]
    found += [
        Reproduction(f"latency of {row.name}", latency_text(row.latency), row.command)
        for row in _telling(trials)
        if row.command
    ]
    found += _practices(lines, model)
    if data := text(settings, "data"):
        drop = f" --max-drop {settings['max_drop']}" if isinstance(settings.get("max_drop"), float) else ""
        best = next((row for row in trials if row.status == "chosen" and row.accuracy), None)
        value = accuracy_text(best.accuracy, best.metric) if best else ""
        command = f"hasten quantize {shlex.quote(model)} --data {shlex.quote(data)}{drop} -o NEW_FOLDER"
        found.append(Reproduction("accuracy of the variants", value, command))
    return tuple(found)


def _comparison(pair: ComparedPair, first: Measurement, second: Measurement) -> Reproduction:
    sides = [candidate(side.model.path, to_data(side.plan)) for side in (first, second)]
    what = "the result against the original" if pair.label == FINAL else f"{pair.names[1]} against {pair.names[0]}"
    return Reproduction(what, comparison_words(pair.comparison), f"hasten compare {' '.join(sides)}")


def _telling(trials: Sequence[TrialRow]) -> list[TrialRow]:
    """The rows worth a line here; every row's own command stands in the table of trials."""
    original = next((row for row in trials if row.variant == ORIGINAL), None)
    marked = [row for row in trials if row.on_front or row.status == "chosen" or row is original]
    return (marked or [row for row in trials if row.kind != "comparison"])[:12]


def _practices(lines: Sequence[Line], model: str) -> list[Reproduction]:
    kinds = {line.kind: line for line in lines}
    quoted = shlex.quote(model) if model else ""
    found = []
    for kind in ("profile", "threads", "accelerators", "copies", "sustained"):
        if kind in kinds:
            label = kinds[kind].label
            subject = quoted or shlex.quote(label)
            command = f"bench {subject} --sustained 10" if kind == "sustained" else f"{kind} {subject}"
            found.append(Reproduction(f"the section on {kind}", "", f"hasten {command}"))
    if "threads" not in kinds and any("load" in line.data for line in lines if line.kind == "measurement"):
        path = next(text(line.data, "model", "path") for line in lines if "load" in line.data)
        found.append(Reproduction("the section on threads", "", f"hasten threads {shlex.quote(path)}"))
    return found
