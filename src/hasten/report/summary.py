"""Session → Summary: a session in short, the one record that every form of the report is made from.

Pure, and content with whatever a session holds: what cannot be read is named, and hides nothing else.
"""

from __future__ import annotations

import contextlib
import datetime
import importlib
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from hasten.core.codec import record, to_data
from hasten.core.finding import Finding, Standing, finding_from_data
from hasten.core.goal import Goal
from hasten.core.phrases import as_sentence
from hasten.core.remark import said
from hasten.core.session import TARGET, UNREADABLE, merged_rounds
from hasten.core.units import percent, several
from hasten.fleet.facts import KINDS as FLEET_KINDS
from hasten.practices.registry import NAMES, TITLES, phrasebook, practice_named
from hasten.report import timing
from hasten.report.commands import Reproduction, on_target, reproduce_section, reproductions, variant_paths
from hasten.report.doubts import BUSY, all_doubts, contradiction, doubts_section
from hasten.report.figures import (
    BestRow,
    DoubtRow,
    Event,
    TrialRow,
    at,
    best_rows,
    goal_of,
    items,
    latency_figure,
    latency_text,
    number,
    records,
    short,
    text,
)
from hasten.report.headline import Fact, headline, measured_facts, tune_facts
from hasten.report.steps import StepRow, steps_of, steps_section
from hasten.report.timing import FINAL, comparisons_in
from hasten.report.trials import (
    KINDS,
    front_names,
    front_section,
    timeline_section,
    trial_rows,
    trials_section,
    untried_in,
    untried_section,
    with_chosen,
    with_front,
)
from hasten.show.blocks import Facts, Prose, Section, VerdictRow, Verdicts, verdict_row

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hasten.core.session import Line, Session
    from hasten.report.timing import ComparedPair
    from hasten.show.blocks import Block

_KNOWN: Final = {
    *KINDS,
    *NAMES,
    *("settings", "environment", "result", "step", "finding", "chosen", "floor", "note", "accuracy", "sensitivity"),
    *("check", "diff", "explanation", "retraining", "sustained", "best"),
    *FLEET_KINDS,
}
# Rooms that are no section of the guide, and offer sections like one.
_OTHER_ROOMS: Final = {
    "fleet": "The fleet",
    "gate": "Limits",
    "report.timing": "Timing",
    "explanation.diff": "Where the models diverge",
    "explanation": "Why",
    "retraining": "Retraining",
}
_FIRST: Final = ("checks", "fleet")
"""What a reader came for, where a session holds it."""
_NOTHING: Final = "This session holds nothing yet."


@record
class Summary:
    """A whole session in short, without raw samples."""

    title: str
    headline: str
    state: str
    """`complete`, `interrupted`, `unfinished` or `empty`."""
    facts: tuple[Fact, ...] = ()
    verdicts: tuple[VerdictRow, ...] = ()
    trials: tuple[TrialRow, ...] = ()
    steps: tuple[StepRow, ...] = ()
    found: tuple[Section, ...] = ()
    """What practices and other rooms show, in the guide's order."""
    events: tuple[Event, ...] = ()
    doubts: tuple[DoubtRow, ...] = ()
    reproductions: tuple[Reproduction, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()
    other_kinds: tuple[tuple[str, int], ...] = ()
    """Kinds of lines that this report knows nothing about, and how many of each there are."""
    unreadable: tuple[str, ...] = ()
    """Lines whose data are not as they should be."""
    warnings: tuple[str, ...] = ()
    """What a reader must know beside the headline."""
    notes: tuple[str, ...] = ()
    """What the command itself remarked."""
    lost_lines: int = 0
    source: str = ""
    allowed_drop: float | None = None
    """What the accuracy floor allows to lose, in the metric's unit."""
    goal: Goal = Goal.LATENCY
    """What a search was to gain."""
    best: tuple[BestRow, ...] = ()
    """What the best was over time."""
    untried: tuple[tuple[str, str], ...] = ()
    """What a search has left untried, and how to go on."""

    def as_data(self) -> dict[str, Any]:
        """The summary as JSON can hold it. Charts are left out: their tables have the same numbers."""
        data: dict[str, Any] = _without_specs(to_data(self))
        return data

    @property
    def sections(self) -> list[Section]:
        """The sections of a report, in the order in which a reader wants them."""
        return [
            *_verdicts_section(self.verdicts, self.notes),
            *(section for section in self.found if section.name in _FIRST),
            *front_section(self.trials, self.allowed_drop, self.goal),
            *steps_section(self.steps, self.goal),
            *(section for section in self.found if section.name not in _FIRST),
            *timeline_section(self.events, self.trials, self.best, self.goal),
            *untried_section(self.untried),
            doubts_section(self.doubts, self.unreadable, self.lost_lines),
            *trials_section(self.trials),
            *reproduce_section(self.reproductions),
            _environment_section(self.environment, self.other_kinds),
        ]


def _without_specs(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_specs(entry) for key, entry in value.items() if key != "spec"}
    return [_without_specs(entry) for entry in value] if isinstance(value, list) else value


def _verdicts_section(verdicts: Sequence[VerdictRow], notes: Sequence[str]) -> list[Section]:
    title = "The practices of the guide" if len(verdicts) == len(NAMES) else "Verdicts"
    return (
        [Section("verdicts", title, (Verdicts(tuple(verdicts)), *(Prose(as_sentence(note)) for note in notes)))]
        if verdicts
        else []
    )


def _environment_section(environment: Sequence[tuple[str, str]], other_kinds: Sequence[tuple[str, int]]) -> Section:
    blocks: list[Block] = [Facts(tuple(environment))] if environment else []
    if other_kinds:
        named = ", ".join(f"{kind or 'without a name'} ({count})" for kind, count in other_kinds)
        blocks.append(Prose(f"The session also holds lines that this report has no section for: {named}."))
    if not blocks:
        blocks.append(Prose("The session does not record where it was measured."))
    return Section("environment", "Where this was measured", tuple(blocks))


def summarize(session: Session, source: str = "") -> Summary:
    """The session in short."""
    lines = [line for line in session.lines if isinstance(line.data, dict)]
    merged = merged_rounds(lines)
    result, settings = _last(lines, "result"), _last(lines, "settings") or {}
    model = text(settings, "model") if "command" in settings else _first_model(lines)
    tried, unreadable = trial_rows(merged, variant_paths(lines, result, model))
    tried = with_front(with_chosen(tried, lines), front_names(result))
    target = text(settings, TARGET) or text(session.header, TARGET)
    tried = [replace(row, command=on_target(row.command, target)) for row in tried]
    compared = timing.named_by_result(_comparisons(lines), lines)
    verdicts = _verdicts(lines, result, whole_guide=result is not None or "budget_s" in settings)
    odd = [f"{line.kind} {line.label}: not a record" for line in session.lines if not isinstance(line.data, dict)]
    final = next((view for view in reversed(compared) if view.label == FINAL), None)
    return Summary(
        title=short(text(result, "model") or model) or "session",
        headline=_room_answer(lines) or headline(result, tried, compared, verdicts) or _fallback(lines),
        state=_state(lines, result, settings),
        facts=_facts(result, settings, tried, final),
        verdicts=verdicts,
        trials=tuple(tried),
        steps=steps_of(lines, result),
        found=tuple(_found(merged)),
        events=_events(lines, tried),
        doubts=all_doubts(lines, tried, compared),
        reproductions=reproductions(lines, tried, compared, settings, model, target),
        environment=_environment(session, lines),
        other_kinds=tuple(sorted(Counter(line.kind for line in lines if line.kind not in _KNOWN).items())),
        unreadable=(*unreadable, *odd),
        warnings=tuple(
            f"The headline is in doubt. {doubt.evidence} {BUSY}" for doubt in (contradiction(final) if final else ())
        ),
        notes=tuple(str(note) for key in ("unreachable", "notes") for note in items(result, key)),
        lost_lines=session.lost_lines,
        source=source,
        allowed_drop=number(_last(lines, "floor"), "allowed"),
        goal=goal_of(result, settings),
        best=best_rows(lines),
        untried=untried_in(result),
    )


def _last(lines: Iterable[Line], kind: str) -> dict[str, Any] | None:
    found = [line.data for line in lines if line.kind == kind]
    return found[-1] if found else None


def _first_model(lines: Iterable[Line]) -> str:
    for line in lines:
        for side in ((), ("first",), ("before",)):
            if path := text(line.data, *side, "model", "path"):
                return path
        if line.kind in ("profile", "accelerators", "sustained", "failure"):
            return line.label
        if line.kind == "variant" and line.label == "original":
            return text(line.data, "path")
    return ""


def _state(lines: Sequence[Line], result: dict[str, Any] | None, settings: dict[str, Any]) -> str:
    if not lines:
        return "empty"
    if result is not None and result.get("interrupted"):
        return "interrupted"
    if result is not None:
        # A result is written whenever there is a better one; what comes after it tells that more was to follow.
        last = max(place for place, line in enumerate(lines) if line.kind == "result")
        return "unfinished" if any(line.kind in KINDS for line in lines[last:]) else "complete"
    fleet = _last(lines, "fleet")
    if "budget_s" in settings or ("cluster" in settings and fleet is None):
        return "unfinished"
    if fleet is not None:
        return "interrupted" if fleet.get("interrupted") else "complete"
    return "interrupted" if lines[-1].data.get("interrupted") else "complete"


def _room_answer(lines: Sequence[Line]) -> str:
    """What a gate or a fleet came to, where the session is one of `check` or of a fleet."""
    from hasten.fleet.view import answer as fleet_answer
    from hasten.gate.view import answer as gate_answer

    with contextlib.suppress(*UNREADABLE):
        return gate_answer(lines) or fleet_answer(lines)
    return ""


def _fallback(lines: Sequence[Line]) -> str:
    profiles = [line.data for line in lines if line.kind == "profile"]
    if profiles and (ops := [op for op in records(profiles[-1], "ops") if number(op, "ms") is not None]):
        kinds: Counter[str] = Counter()
        for op in ops:
            kinds[text(op, "op")] += number(op, "ms") or 0.0  # type: ignore[assignment]  # milliseconds, not counts
        kind, spent = kinds.most_common(1)[0]
        whole = number(profiles[-1], "invoke_ms") or sum(kinds.values())
        return f"{kind} takes {percent(spent / whole)} of the time." if whole else f"{kind} takes most of the time."
    if any(line.kind == "sustained" for line in lines):
        return timing.sustained_answer(lines)
    if said := _diff_answer(lines):
        return said
    return f"The session has {several(len(lines), 'line')} and no latency." if lines else _NOTHING


def _diff_answer(lines: Sequence[Line]) -> str:
    from hasten.explanation.diff.view import headline as diff_headline

    with contextlib.suppress(*UNREADABLE):
        return diff_headline(lines)
    return ""


def _facts(
    result: dict[str, Any] | None, settings: dict[str, Any], tried: Sequence[TrialRow], final: Any
) -> tuple[Fact, ...]:
    if result is not None:
        return tune_facts(result, settings, tried, final)
    measured = [row for row in tried if row.kind == "measurement" and row.latency]
    return measured_facts(measured[0]) if len(measured) == 1 else ()


def _verdicts(lines: Sequence[Line], result: dict[str, Any] | None, *, whole_guide: bool) -> tuple[VerdictRow, ...]:
    found = {line.label: line.data for line in lines if line.kind == "finding"}
    found.update({text(entry, "practice"): entry for entry in records(result, "verdicts")})
    order = [*NAMES, *(name for name in found if name not in NAMES)] if whole_guide else list(found)
    book = phrasebook()
    absent: dict[str, Any] = {"practice": "?", "verdict": "not examined", "evidence": "This session does not cover it."}
    verdicts = []
    for name in order:
        finding = replace(_finding(found.get(name, absent)), practice=name)
        verdicts.append(verdict_row(finding, TITLES.get(name, _OTHER_ROOMS.get(name, name)), book))
    return tuple(verdicts)


def _finding(data: dict[str, Any]) -> Finding:
    try:
        return finding_from_data(data)
    except (KeyError, TypeError, ValueError):
        return Finding("?", Standing.NOT_EXAMINED, said("This finding cannot be read."))


def _found(lines: Sequence[Line]) -> Iterable[Section]:
    """What each room and practice shows of the session; what cannot be read says so, and hides nothing else."""
    rooms = [(name, title, importlib.import_module(f"hasten.{name}")) for name, title in _OTHER_ROOMS.items()]
    practices = [(name, TITLES[name], practice_named(name)) for name in NAMES]
    for name, title, room in [*rooms, *practices]:
        try:
            yield from room.sections(lines)
        except UNREADABLE as error:  # noqa: PERF203 - one practice must not hide the others
            said = f"What the session holds of this cannot be read ({type(error).__name__}: {error})."
            yield Section(name.rpartition(".")[2], title, (Prose(said),))


def _comparisons(lines: Iterable[Line]) -> list[ComparedPair]:
    """The comparisons that can be read."""
    found: list[ComparedPair] = []
    for line in lines:
        with contextlib.suppress(*UNREADABLE):
            found += comparisons_in([line])
    return found


def _events(lines: Sequence[Line], tried: Sequence[TrialRow]) -> tuple[Event, ...]:
    measured = {row.name: row for row in tried if row.kind == "measurement"}
    start = next((moment for line in lines if (moment := _moment(line.at))), None)
    whole = {line.label for line in lines if line.kind == "measurement" and "round" not in line.data}
    events = []
    for line in lines:
        if line.kind == "measurement" and "round" in line.data and line.label in whole:
            continue  # the line of the whole measurement tells it
        moment = _moment(line.at)
        seconds = (moment - start).total_seconds() if moment and start else 0.0
        row = measured.get(line.label) if line.kind == "measurement" else None
        what = latency_text(row.latency) if row else _said(line)
        events.append(Event(max(0.0, number(line.data, "elapsed_s") or seconds), line.at, line.kind, line.label, what))
    return tuple(events)


def _said(line: Line) -> str:
    """What the line itself says; a later one of the same trial may say more."""
    if line.kind == "best":
        known = number(line.data, "amount", "value")
        return "" if known is None else goal_of(line.data).written(known)
    became = text(line.data, "status") or text(line.data, "floor") if line.kind in ("trial", "variant") else ""
    if became:
        return f"{became} {latency_text(latency_figure(at(line.data, 'latency')))}".strip()
    return next((said for key in ("evidence", "verdict", "message", "why") if (said := text(line.data, key))), "")


def _moment(stamp: str) -> datetime.datetime | None:
    try:
        return datetime.datetime.fromisoformat(stamp)
    except (TypeError, ValueError):
        return None


def _environment(session: Session, lines: Sequence[Line]) -> tuple[tuple[str, str], ...]:
    told = {**{key: value for key, value in session.header.items() if key != "hasten_session"}}
    told.update(_last(lines, "environment") or {})
    return tuple((str(key).replace("_", " "), _plain(value)) for key, value in told.items() if value not in (None, ""))


def _plain(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        return ", ".join(f"{key}: {_plain(entry)}" for key, entry in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(_plain(entry) for entry in value)
    return str(value)
