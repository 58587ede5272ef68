"""Commands that reproduce each number of a report, ready to paste into a shell."""

from __future__ import annotations

import shlex
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, Final

from hasten.core.codec import record, to_data
from hasten.core.cores import cores_text
from hasten.core.plan import Plan
from hasten.practices.registry import GUIDE
from hasten.report.figures import accuracy_text, at, items, latency_text, text
from hasten.report.timing import FINAL, comparison_words
from hasten.show.blocks import Cell, Prose, Section, Table, columns

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from hasten.core.session import Line
    from hasten.report.figures import TrialRow
    from hasten.report.timing import ComparedPair

ORIGINAL: Final = "original"
_MOST_TRIALS: Final = 12
_OTHERWISE: Final = ("app", "choose", "quantize")
# The commands that put themselves into their sessions.
_WHOLE: Final = (("hasten", "tune"), ("hasten", "choose"))


@record
class Reproduction:
    """A number, and the command that gives it again."""

    what: str
    value: str
    command: str


def candidate(model: str, plan: object) -> str:
    """A model with its plan as a command takes it (only what differs from the default), quoted for a shell."""
    told = _plan_text(plan)
    return shlex.quote(f"{model}@{told}" if told else model)


def _plan_text(plan: object) -> str:
    if not isinstance(plan, dict):
        return ""
    parts = []
    for item in fields(Plan):
        value = plan.get(item.name, item.default)
        if item.name == "options":
            parts += [f"{pair[0]}={pair[1]}" for pair in items(plan, "options") if len(pair) == 2]
        elif item.name == "cores":
            parts += [f"cores={cores_text(tuple(value))}"] if value else []
        elif item.name == "kernels":
            parts += [f"kernels={'+'.join(value)}"] if value else []
        elif value != item.default:
            parts.append(f"{item.name}={value}")
    return ",".join(parts)


def variant_paths(lines: Iterable[Line], result: dict[str, Any] | None, model: str) -> dict[str, str]:
    """Where the files of the variants are, as far as the session tells."""
    paths = {ORIGINAL: model} if model else {}
    for line in lines:
        if line.kind == "variant" and text(line.data, "path"):
            paths[line.label] = text(line.data, "path")
    best, path = text(result, "best", "variant"), text(result, "best", "model")
    return {**paths, best: path} if best and path else paths


def command_of(line: Line, paths: Mapping[str, str]) -> str:
    """The command that times again what this line is about; empty if the file is not known."""
    data = line.data
    if line.kind == "measurement":
        return f"hasten bench {candidate(text(data, 'model', 'path'), at(data, 'plan'))}"
    path = text(data, "path") or paths.get(text(data, "variant"), "")
    return f"hasten bench {candidate(path, at(data, 'plan'))}" if line.kind in ("trial", "variant") and path else ""


def on_target(command: str, target: str) -> str:
    """A command on the device that a session is about."""
    return f"{command} --target {shlex.quote(target)}" if command and target not in ("", "local") else command


def reproductions(
    lines: Sequence[Line],
    trials: Sequence[TrialRow],
    comparisons: Sequence[ComparedPair],
    settings: dict[str, Any],
    model: str,
    target: str = "",
) -> tuple[Reproduction, ...]:
    """The commands behind the report's numbers, the whole first. That one, and those of trials, name the device."""
    whole = _whole_command(text(settings, "command"))
    first = (Reproduction("everything in this report", "", whole),) if whole else ()
    timed = [
        Reproduction(f"latency of {row.name}", latency_text(row.latency), row.command)
        for row in _telling(trials)
        if row.command
    ]
    compared = [each for pair in comparisons for each in _comparison(pair)]
    others = [*_practices(lines, model), *_diffs(lines), *_accuracy(settings, trials, model)]
    before, after = (
        [replace(each, command=on_target(each.command, target)) for each in found] for found in (compared, others)
    )
    return (*first, *before, *timed, *after)


def _whole_command(given: str) -> str:
    """The command behind a session, fit to be pasted. A session may have been made by anybody: what is no such command,
    and all that a shell would run besides, is not shown."""
    try:
        words = shlex.split(given)
    except ValueError:
        return ""
    return shlex.join(words) if tuple(words[:2]) in _WHOLE else ""


def _accuracy(settings: dict[str, Any], trials: Sequence[TrialRow], model: str) -> list[Reproduction]:
    if data := text(settings, "data"):
        drop = f" --max-drop {settings['max_drop']}" if isinstance(settings.get("max_drop"), float) else ""
        best = next((row for row in trials if row.status == "chosen" and row.accuracy), None)
        value = accuracy_text(best.accuracy, best.metric) if best else ""
        command = f"hasten quantize {shlex.quote(model)} --data {shlex.quote(data)}{drop} -o NEW_FOLDER"
        return [Reproduction("accuracy of the variants", value, command)]
    return []


def _comparison(pair: ComparedPair) -> list[Reproduction]:
    sides = [candidate(side.model.path, to_data(side.plan)) for side in (pair.first, pair.second) if side]
    if len(sides) < 2:
        return []
    what = "the result against the original" if pair.label == FINAL else f"{pair.names[1]} against {pair.names[0]}"
    return [Reproduction(what, comparison_words(pair.comparison), f"hasten compare {' '.join(sides)}")]


def _diffs(lines: Sequence[Line]) -> list[Reproduction]:
    """The commands that look again where two models diverge."""
    commands: dict[str, None] = {}
    for line in (line for line in lines if line.kind == "diff"):
        sides = [(text(line.data, side, "model", "path"), at(line.data, side, "plan")) for side in ("before", "after")]
        given = [("--data", "source"), ("--preprocess", "preprocess")]
        told = [(option, text(line.data, "inputs", "facts", fact)) for option, fact in given]
        options = [f" {option} {shlex.quote(value)}" for option, value in told if value]
        if all(path for path, _ in sides):
            commands[f"hasten diff {' '.join(candidate(*side) for side in sides)}{''.join(options)}"] = None
    return [Reproduction("where the models diverge", "", command) for command in commands]


def _telling(trials: Sequence[TrialRow]) -> list[TrialRow]:
    """The rows worth a line here; every row's own command stands in the table of trials."""
    original = next((row for row in trials if row.variant == ORIGINAL), None)
    marked = [row for row in trials if row.on_front or row.status == "chosen" or row is original]
    return (marked or [row for row in trials if row.kind != "comparison"])[:_MOST_TRIALS]


def _practices(lines: Sequence[Line], model: str) -> list[Reproduction]:
    """The commands of practices whose sections are in the report, and of a sustained run."""
    labels = {line.kind: line.label for line in lines}
    threads = [text(line.data, "model", "path") for line in lines if "load" in line.data]
    if threads:
        labels.setdefault("threads", threads[0])
    # `app` takes a program and `choose` a task, not a model; the command for `quantize` stands with the accuracy.
    named = {entry.name: f"{entry.name} MODEL" for entry in GUIDE if entry.help and entry.name not in _OTHERWISE}
    named["sustained"] = "bench MODEL --sustained 10"
    return [
        Reproduction(
            f"the section on {kind}", "", f"hasten {command}".replace("MODEL", shlex.quote(model or labels[kind]))
        )
        for kind, command in named.items()
        if kind in labels
    ] + [_retraining(line) for line in lines if line.kind == "retraining"]


def _retraining(line: Line) -> Reproduction:
    model, data = (shlex.quote(part) for part in (text(line.data, "source", "path"), text(line.data, "data")))
    return Reproduction("the section on retraining", "", f"hasten retrain {model} --data {data} -o NEW.tflite")


def reproduce_section(found: Sequence[Reproduction]) -> list[Section]:
    """The command for each number."""
    rows = tuple((Cell(row.what), Cell(row.value), Cell(row.command, code=True)) for row in found)
    sheet = Table("reproduce-table", "The command for each number", columns("number", "#here", "command"), rows)
    lead = "Run these commands to measure the numbers again. The table of trials has a command for each of them."
    return [Section("reproduce", "How to reproduce these numbers", (Prose(lead), sheet))] if rows else []
