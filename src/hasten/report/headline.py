"""A session in a sentence, and the few numbers that tell the story."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hasten.core.codec import record
from hasten.core.comparison import Verdict, outcome_words
from hasten.core.goal import Goal
from hasten.core.units import duration, memory, milliseconds, percent, ratio_interval, several, size, times_within
from hasten.report.commands import ORIGINAL
from hasten.report.figures import (
    Figure,
    accuracy_figure,
    accuracy_name,
    accuracy_range,
    accuracy_text,
    at,
    change_range,
    change_text,
    figure,
    goal_of,
    interval_text,
    latency_text,
    number,
    plan_words,
    text,
    timed_of,
    verdict_of,
    whole,
)
from hasten.report.timing import compared_sentence

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hasten.report.figures import TrialRow
    from hasten.report.timing import ComparedPair
    from hasten.show.blocks import VerdictRow


@record
class Fact:
    """One of the few numbers that tell the story: before, after, and what it means."""

    title: str
    value: str
    before: str = ""
    note: str = ""


def headline(
    result: dict[str, Any] | None,
    trials: Sequence[TrialRow],
    comparisons: Sequence[ComparedPair],
    verdicts: Sequence[VerdictRow],
) -> str:
    """The whole in a sentence: the result's own, or what the session's most telling line says."""
    if said := text(result, "verdict"):
        return said[:1].upper() + said[1:]
    tried = [row for row in trials if row.kind == "trial" and row.latency is not None]
    if tried:
        best = min(tried, key=lambda row: row.latency.value if row.latency else 0.0)
        fastest = f"The fastest is {best.name}: {latency_text(best.latency)} per inference."
        return f"No verdict yet: {several(len(tried), 'trial')} so far. {fastest}"
    if comparisons:
        return compared_sentence(comparisons[-1])
    if verdicts:
        return f"{verdicts[-1].title}: {verdicts[-1].evidence}"
    measured = [row for row in trials if row.latency is not None]
    if measured:
        return _measured_sentence(measured)
    if trials:
        return f"Nothing could be measured: {trials[-1].why}" if trials[-1].why else "Nothing was measured."
    return ""


def _measured_sentence(rows: Sequence[TrialRow]) -> str:
    last = rows[-1]
    interval = interval_text(last.latency)
    bounds = f" (95 % CI {interval})" if interval else ""
    more = f" {several(len(rows) - 1, 'more measurement')} below." if len(rows) > 1 else ""
    return f"{last.name}: {latency_text(last.latency)} per inference{bounds}.{more}"


def tune_facts(
    result: dict[str, Any], settings: dict[str, Any], trials: Sequence[TrialRow], final: ComparedPair | None
) -> tuple[Fact, ...]:
    """Speed, accuracy and size of the result against the original."""
    original = next((row for row in trials if row.variant == ORIGINAL), None)
    chosen = _chosen(result, trials)
    facts = [
        _goal(result),
        _speed(result, final, original, chosen),
        _accuracy(result, original, chosen),
        _size(result, settings, original, chosen),
    ]
    if (timed := whole(result, "trials")) is not None or trials:
        seconds = number(result, "seconds")
        note = "" if seconds is None else f"in {duration(seconds)}"
        counted = len(timed_of(trials)) if timed is None else timed
        facts.append(Fact("Timed", several(counted, "candidate"), note=note))
    return tuple(fact for fact in facts if fact is not None)


def _chosen(result: dict[str, Any], trials: Sequence[TrialRow]) -> TrialRow | None:
    """The trial that the result names; a search that was continued may have chosen others before."""
    marked = [row for row in trials if row.status == "chosen"]
    variant, plan = text(result, "best", "variant"), plan_words(at(result, "best", "plan"))
    named = [row for row in trials if (row.variant, row.plan) == (variant, plan)]
    return next(reversed([*marked, *named]), None)


def _goal(result: dict[str, Any]) -> Fact | None:
    """What was gained, where that is not the latency or the size, which have facts of their own."""
    goal, known = goal_of(result), at(result, "goal")
    after, before = number(known, "best", "value"), number(known, "original", "value")
    if goal in (Goal.LATENCY, Goal.SIZE) or after is None:
        return None
    gain = figure(known, "ratio")
    note = "" if gain is None else goal.gain(gain.value, (gain.low, gain.high))
    if gain is not None and (verdict := verdict_of(known)) is not None:
        note = outcome_words(verdict, gain.value, (gain.low, gain.high), goal)
    title = f"{goal.heading[:1].upper()}{goal.heading[1:]}"
    return Fact(title, goal.written(after), "" if before is None else f"{goal.written(before)} before", note)


def _speed(
    result: dict[str, Any], final: ComparedPair | None, original: TrialRow | None, chosen: TrialRow | None
) -> Fact | None:
    speedup = figure(at(result, "best"), "speedup") or (
        Figure(final.comparison.ratio, *final.comparison.ci95).inverse if final else None
    )
    # A search that was cut short may name the original as the best so far: nothing was measured against it.
    if speedup is None or (final is None and chosen is not None and chosen is original):
        return None
    before, after = (row.latency.value if row and row.latency else None for row in (original, chosen))
    if final and final.first and final.second:
        before, after = final.first.samples.median_ms, final.second.samples.median_ms
    change = f"{milliseconds(before)} → {milliseconds(after)} per inference" if before and after else ""
    ends = None if speedup.low is None or speedup.high is None else (speedup.low, speedup.high)
    value, note = times_within(speedup.value, ends or ()), f"95 % CI {ratio_interval(ends)}" if ends else ""
    verdict = final.comparison.verdict if final else verdict_of(at(result, "best"))
    if verdict is Verdict.UNDECIDED:
        value, note = "undecided", f"{value}{f', {note}' if note else ''}"
    return Fact("Speedup", value, change, note)


def _accuracy(result: dict[str, Any], original: TrialRow | None, chosen: TrialRow | None) -> Fact | None:
    before = accuracy_figure(at(result, "best", "original_accuracy")) or (original.accuracy if original else None)
    after = accuracy_figure(at(result, "best", "accuracy")) or (chosen.accuracy if chosen else None)
    metric = text(result, "best", "accuracy", "metric") or (chosen.metric if chosen else "")
    kind = text(result, "best", "accuracy", "kind") or (chosen.accuracy_kind if chosen else "")
    if after is None:
        return None
    note = "" if after.low is None else f"95 % CI {accuracy_range(after, metric)}"
    if chosen is not None and chosen.change is not None and chosen.floor:
        change = f"{change_text(chosen.change.value, metric)} (95 % CI {change_range(chosen.change, metric)})"
        note = f"Floor {chosen.floor}: {change}"
    name = accuracy_name(metric, kind)
    # Without labels, the original's own figure is that it agrees with itself.
    told = f"{accuracy_text(before, metric)} before" if before and kind in ("", "accuracy") else ""
    return Fact(name[:1].upper() + name[1:] if name != metric else name, accuracy_text(after, metric), told, note)


def _size(
    result: dict[str, Any], settings: dict[str, Any], original: TrialRow | None, chosen: TrialRow | None
) -> Fact | None:
    before = whole(settings, "size") or (original.size if original else None)
    after = whole(result, "best", "size") or (chosen.size if chosen else None)
    if not after:
        return None
    if not before:
        return Fact("Size", size(after))
    change = 1 - after / before
    word = "the same size" if abs(change) < 0.005 else f"{percent(abs(change))} {'smaller' if change > 0 else 'larger'}"
    return Fact("Size", size(after), f"{size(before)} before", word)


def measured_facts(row: TrialRow) -> tuple[Fact, ...]:
    """The numbers of one measurement."""
    interval = interval_text(row.latency)
    facts = [Fact("Latency", latency_text(row.latency), note=f"95 % CI {interval}" if interval else "")]
    if row.init_ms is not None:
        facts.append(Fact("Init", milliseconds(row.init_ms), note="from the file to a model that is ready to run"))
    if row.memory_mb is not None:
        facts.append(Fact("Memory", memory(row.memory_mb), note="peak, above that of a process without the model"))
    return (*facts, Fact("Size", size(row.size))) if row.size else tuple(facts)
