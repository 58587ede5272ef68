"""What a tuning came to, in a sentence that somebody understands who never saw a profiler."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from hasten.core.accuracy import Accuracy, Kind
from hasten.core.comparison import Verdict
from hasten.core.units import milliseconds, percent

if TYPE_CHECKING:
    from hasten.core.tuning import TuneResult, TuneTrial


def verdict_sentence(found: TuneResult) -> str:
    """`2.4 times faster, 95 % interval 2.3-2.5, top-1 92.1 % → 91.8 %, 74 % smaller.`"""
    original, best = found.original, found.best
    if best.id == original.id:
        return f"The original stays: {_why_it_stays(found)}{_beyond(found)}"
    parts = [_speed(found), _accuracy(original, best), _size(original, best)]
    return ", ".join(part for part in parts if part) + "." + _beyond(found)


def accuracy_words(found: Accuracy, value: float | None = None) -> str:
    """A metric's value as people say it."""
    number = found.value if value is None else value
    if not math.isfinite(number):
        return "unknown"
    return f"{number * 100:.1f} %" if found.metric.startswith("top-") or found.metric == "miou" else f"{number:.3g}"


def times_words(times: float) -> str:
    """How many times faster, in digits that tell it from 1."""
    return f"{times:.3g}" if times >= 10 else f"{times:.2f}" if times < 1.1 else f"{times:.1f}"


def _speed(found: TuneResult) -> str:
    speedup = found.speedup
    if speedup is None:
        return "not timed against the original yet"
    times, low, high = speedup
    if times < 1:
        return f"takes {1 / times:.2f} times the original's time"
    known = found.final
    if known is None:
        return f"about {times_words(times)} times faster so far, not confirmed yet"
    if known.verdict is Verdict.FASTER:
        digits = 1 if low >= 1.1 else 2
        return f"{times_words(times)} times faster, 95 % interval {low:.{digits}f}-{high:.{digits}f}"
    return f"as fast as the original ({milliseconds(found.best.median_ms)})"


def _accuracy(original: TuneTrial, best: TuneTrial) -> str:
    before, after = original.accuracy, best.accuracy
    if after is None:
        return "with the same numbers" if best.variant == original.variant and _same_numbers(best) else ""
    if after.kind is Kind.AGREEMENT:
        return f"agrees with the original ({after.metric} {accuracy_words(after)})"
    if before is None or before.metric != after.metric:
        return f"{after.metric} {accuracy_words(after)}"
    return f"{after.metric} {accuracy_words(before)} → {accuracy_words(after)}"


def _same_numbers(trial: TuneTrial) -> bool:
    return trial.plan.accelerator == "cpu" and trial.plan.kernel == "delegate" and not trial.plan.delegate


def _size(original: TuneTrial, best: TuneTrial) -> str:
    if not original.size_bytes or best.size_bytes == original.size_bytes:
        return ""
    change = best.size_bytes / original.size_bytes - 1
    return f"{percent(abs(change))} {'smaller' if change < 0 else 'larger'}"


def _why_it_stays(found: TuneResult) -> str:
    tried = found.trials - 1
    if found.interrupted and tried < 1:
        return "nothing else was timed yet."
    return f"none of {tried} other ways to run it is surely faster and keeps its accuracy."


def _beyond(found: TuneResult) -> str:
    return "".join(f" Not within reach: {missed}." for missed in found.unreachable)
