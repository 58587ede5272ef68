"""A session in a sentence that needs no expert, and the few numbers that tell the story."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from hasten.core.units import interval_ms, milliseconds, percent, size
from hasten.report.summary.commands import ORIGINAL
from hasten.report.summary.reading import at, number, text, whole
from hasten.report.summary.records import Fact, Figure
from hasten.report.summary.trials import accuracy_figure, figure
from hasten.report.timing import comparison_words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hasten.report.summary.records import TrialRow
    from hasten.report.timing import ComparedPair
    from hasten.show.blocks import VerdictRow

# The guide's sections, in its order.
PRACTICES: Final = {
    "choose": "Model choice",
    "profile": "Profile",
    "operators": "Operators",
    "quantize": "Quantisation",
    "threads": "Threads",
    "copies": "Copies",
    "app": "Application",
    "accelerators": "Accelerators",
    "help": "Help",
}


def accuracy_text(found: Figure | None, metric: str = "") -> str:
    """An accuracy: a share as a percentage, anything else as it is."""
    if found is None:
        return ""
    return f"{found.value * 100:.1f} %" if may_be_share(metric, found.value, found.value) else f"{found.value:.4g}"


def accuracy_name(metric: str, kind: str) -> str:
    """What a figure is called: without labels it tells only how far a model is with the original."""
    if kind in ("", "accuracy"):
        return metric or "accuracy"
    return f"{likeness(metric)} ({metric})" if metric else likeness(metric)


def likeness(metric: str) -> str:
    """What a figure without labels tells: how far a variant is with the original, or how far off it."""
    return "deviation" if metric == "mae" else "agreement"


def change_text(change: float, metric: str) -> str:
    """A change of an accuracy, with its sign."""
    return f"{change * 100:+.1f} %" if is_share(metric) else f"{change:+.3g}"


def is_share(metric: str) -> bool:
    """Whether a metric is known to be a share of something."""
    return metric.startswith("top-") or metric == "miou"


def may_be_share(metric: str, low: float, high: float) -> bool:
    """Whether values from low to high can be shares, as those of a metric of the user's own may be."""
    return 0 <= low <= high <= 1 and metric not in ("mae", "cosine")


def latency_text(found: Figure | None) -> str:
    """A latency without its interval."""
    return "" if found is None else milliseconds(found.value)


def interval_text(found: Figure | None) -> str:
    """The interval of a latency."""
    return "" if found is None or found.low is None or found.high is None else interval_ms(found.low, found.high)


def speed_words(ratio: Figure, verdict: str = "faster") -> str:
    """A ratio of times in words: how many times faster or slower, with the interval."""
    if verdict in ("same", "undecided"):
        return f"{verdict} (ratio {ratio.value:.3f}{_bounds(ratio)})"
    faster = ratio.value <= 1
    turned = inverse(ratio) if faster else ratio
    return f"{turned.value:.2f} times {'faster' if faster else 'slower'}{_bounds(turned)}"


def inverse(ratio: Figure) -> Figure:
    """A ratio of times as one of speeds."""
    low, high = (None if not bound else 1 / bound for bound in (ratio.high, ratio.low))
    return Figure(1 / ratio.value if ratio.value else 0.0, low, high)


def _bounds(found: Figure) -> str:
    if found.low is None or found.high is None:
        return ""
    return f", 95 % interval {found.low:.2f} to {found.high:.2f}"


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
        count = f"{len(tried)} trial{'s' if len(tried) > 1 else ''} so far"
        return f"No verdict yet: {count}, the quickest is {best.name} with {latency_text(best.latency)} a run."
    if comparisons:
        last = comparisons[-1]
        return f"{last.names[1]} is {comparison_words(last.comparison)}, against {last.names[0]}."
    if verdicts:
        return " ".join(f"{row.title}: {row.evidence}" for row in verdicts[-1:])
    measured = [row for row in trials if row.latency is not None]
    if measured:
        return _measured_sentence(measured)
    if trials:
        return f"Nothing could be measured: {trials[-1].why}" if trials[-1].why else "Nothing was measured."
    return ""


def _measured_sentence(rows: Sequence[TrialRow]) -> str:
    last = rows[-1]
    interval = interval_text(last.latency)
    more = f" {len(rows) - 1} further measurement{'s' if len(rows) > 2 else ''} below." if len(rows) > 1 else ""
    return (
        f"{last.name}: {latency_text(last.latency)} a run" + (f", 95 % interval {interval}" if interval else "") + "."
    ) + more


def tune_facts(
    result: dict[str, Any], settings: dict[str, Any], trials: Sequence[TrialRow], final: ComparedPair | None
) -> tuple[Fact, ...]:
    """Speed, accuracy and size of the result against the original."""
    original = next((row for row in trials if row.variant == ORIGINAL), None)
    chosen = next((row for row in reversed(trials) if row.status == "chosen"), None)
    facts = [
        _speed(result, final, original, chosen),
        _accuracy(result, original, chosen),
        _size(result, settings, original, chosen),
    ]
    if (tried := whole(result, "trials")) is not None or trials:
        seconds = number(result, "seconds")
        note = "" if seconds is None else f"in {_duration(seconds)}"
        facts.append(Fact("Tried", f"{tried if tried is not None else len(trials)} trials", note=note))
    return tuple(fact for fact in facts if fact is not None)


def _speed(
    result: dict[str, Any], final: ComparedPair | None, original: TrialRow | None, chosen: TrialRow | None
) -> Fact | None:
    speedup = figure(at(result, "best"), "speedup") or (
        inverse(Figure(final.comparison.ratio, *final.comparison.ci95)) if final else None
    )
    if speedup is None:
        return None
    before, after = (row.latency.value if row and row.latency else None for row in (original, chosen))
    if final and final.first and final.second:
        before, after = final.first.samples.median_ms, final.second.samples.median_ms
    times = f"{milliseconds(before)} → {milliseconds(after)} a run" if before and after else ""
    return Fact("Speed", f"{speedup.value:.2f}\N{MULTIPLICATION SIGN}", times, _bounds(speedup).removeprefix(", "))


def _accuracy(result: dict[str, Any], original: TrialRow | None, chosen: TrialRow | None) -> Fact | None:
    before = accuracy_figure(at(result, "best", "original_accuracy")) or (original.accuracy if original else None)
    after = accuracy_figure(at(result, "best", "accuracy")) or (chosen.accuracy if chosen else None)
    metric = text(result, "best", "accuracy", "metric") or (chosen.metric if chosen else "")
    kind = text(result, "best", "accuracy", "kind") or (chosen.accuracy_kind if chosen else "")
    if after is None:
        return None
    note = "" if after.low is None else f"95 % interval {accuracy_range(after, metric)}"
    name = accuracy_name(metric, kind)
    # Without labels, the original's own figure is that it agrees with itself.
    told = f"{accuracy_text(before, metric)} before" if before and kind in ("", "accuracy") else ""
    return Fact(name[:1].upper() + name[1:] if name != metric else name, accuracy_text(after, metric), told, note)


def accuracy_range(found: Figure | None, metric: str) -> str:
    """The interval of an accuracy."""
    if found is None:
        return ""
    ends = [accuracy_text(Figure(end), metric) for end in (found.low, found.high) if end is not None]
    return " to ".join(ends)


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
    facts = [
        Fact("Latency", latency_text(row.latency), note=f"95 % interval {interval_text(row.latency)}")
        if interval_text(row.latency)
        else Fact("Latency", latency_text(row.latency)),
        None if row.init_ms is None else Fact("Start", milliseconds(row.init_ms), note="from the file to ready"),
        None if row.memory_mb is None else Fact("Memory", f"{row.memory_mb:.1f} MB", note="peak, for the model"),
        None if not row.size else Fact("Size", size(row.size)),
    ]
    return tuple(fact for fact in facts if fact is not None)


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} minutes"
