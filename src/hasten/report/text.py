"""Measurements, comparisons and long runs as text for a terminal of 80 columns."""

from __future__ import annotations

import math
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hasten.core.comparison import FEWEST_ROUNDS, FEWEST_WHEN_CLEAR, Verdict
from hasten.core.doubts import DOUBTS, OF_LATENCIES_ONLY
from hasten.core.units import interval_ms, milliseconds, percent, several, size
from hasten.show.terminal import printable as printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hasten.core.comparison import Comparison
    from hasten.core.measurement import Measurement
    from hasten.core.plan import Plan
    from hasten.core.remark import Remark
    from hasten.core.sustained import Sustained
    from hasten.measure.compare import ComparisonResult

WIDTH: Final = 80
_BAR: Final = 30


def measurement_text(found: Measurement) -> str:
    """One latency with all that belongs to it."""
    samples = found.samples
    energy = "not available" if samples.joules is None else f"{samples.joules * 1e3:.3g} mJ"
    memory = "not available" if found.peak_memory_mb is None else f"{found.peak_memory_mb:.1f} MB"
    rows = [
        (
            "latency",
            milliseconds(samples.median_ms),
            f"95 % interval {interval_ms(samples.latency.low, samples.latency.high)}",
        ),
        ("p95", milliseconds(samples.p95_ms), f"quickest {milliseconds(samples.min_ms)}"),
        ("init", milliseconds(found.init_ms), "from the file to a model ready to run"),
        (
            "first run",
            milliseconds(found.first_run_ms),
            f"{_times(found.first_run_ms, samples.median_ms)} times the steady latency",
        ),
        ("memory", memory, "peak, above the process without the model"),
        ("CPU time", milliseconds(samples.cpu_ms), f"a run: {_times(samples.cpu_ms, samples.median_ms)} cores busy"),
        ("energy", energy, "a run" if samples.joules is not None else "no energy counter on this machine"),
        ("samples", f"{samples.count:,}", f"runs in {several(samples.processes, 'fresh process')}"),
    ]
    name = f"{Path(found.model.path).name} ({size(found.model.size_bytes)})"
    lines = [
        *wrapped(f"{name} on {found.plan.describe()}{_effective(found)}"),
        "",
        *(f"  {name:<10} {value:>13}   {note}" for name, value, note in rows),
        *doubts_text(found.doubts),
    ]
    return "\n".join(lines)


def comparison_text(found: ComparisonResult) -> str:
    """A verdict in a sentence, then what it stands on."""
    comparison = found.comparison
    low, high = comparison.ci95
    interval = f"{low:.3f} - {high:.3f}" if math.isfinite(high) else "unknown"
    lines = [
        *wrapped(_verdict_sentence(found)),
        "",
        f"  ratio      {comparison.ratio:.3f}   95 % interval {interval} (B's latency over A's)",
        *_candidate_lines("A", found.first, found.second),
        *_candidate_lines("B", found.second, found.first),
        f"  sharpness  {_sharpness(comparison)} ({several(comparison.rounds, 'process pair')}, {found.seconds:.0f} s)",
        *doubts_text(_both_doubts(found)),
    ]
    return "\n".join(lines)


def sustained_text(model: str, plan: Plan, found: Sustained) -> str:
    """A line for each minute, with a bar, and the verdict on throttling."""
    unit = "minute" if found.slice_seconds == 60 else f"{found.slice_seconds:.0f} s"
    slowest = max(minute.median_ms for minute in found.minutes)
    head = wrapped(f"{Path(model).name} on {plan.describe()}, without a pause")
    lines = [*head, "", f"  {unit:>7}     median        p95"]
    for minute in found.minutes:
        bar = "█" * round(minute.median_ms / slowest * _BAR if slowest else 0)
        heat = f" {minute.temperature_c:.0f} °C" if minute.temperature_c is not None else ""
        times = f"{milliseconds(minute.median_ms):>10} {milliseconds(minute.p95_ms):>10}"
        lines.append(f"  {minute.minute:>7} {times}  {bar}{heat}")
    if found.cut_short:
        lines += ["", *wrapped(f"It ended before its time: {found.cut_short}", "! ")]
    if found.onset is None:
        lines += ["", f"No lasting slowdown ({percent(found.slowdown)} from the first to the last)."]
    else:
        since = f"minute {found.onset}" if unit == "minute" else f"second {(found.onset - 1) * found.slice_seconds:.0f}"
        lines += ["", f"Slower for good from {since} on; {percent(found.slowdown)} at the end: throttling."]
    return "\n".join(lines)


def doubts_text(doubts: Sequence[Remark]) -> list[str]:
    """Doubts as lines, after an empty one; nothing where there are none."""
    if not doubts:
        return []
    lines = [""]
    for doubt in doubts:
        lines += wrapped(DOUBTS.text(doubt), "! ", "  ")
        lines += wrapped(DOUBTS.hint(doubt), "  ", "  ")
    return lines


def wrapped(text: str, first: str = "", other: str = "  ") -> list[str]:
    """The text in lines that fit the width, each after its indent."""
    return textwrap.wrap(printable(text), WIDTH, initial_indent=first, subsequent_indent=other)


def _effective(found: Measurement) -> str:
    notes = []
    if found.effective.accelerator != found.plan.accelerator:
        notes.append(f"in effect: {found.effective.accelerator}")
    if found.effective.api != "CompiledModel":
        notes.append("classic interpreter")
    return f" ({', '.join(notes)})" if notes else ""


def _times(much: float, unit: float) -> str:
    return f"{much / unit:.1f}" if unit else "unknown"


def _sharpness(comparison: Comparison) -> str:
    """From which difference on a verdict could be given. What a few pairs that differ say of it is no figure."""
    few = comparison.rounds < FEWEST_ROUNDS and not comparison.smallest_detectable < 1
    if few or comparison.rounds < FEWEST_WHEN_CLEAR:
        return "too few pairs to tell"
    return f"differences from {percent(comparison.smallest_detectable)} would be found"


def _verdict_sentence(found: ComparisonResult) -> str:
    ratio = found.comparison.ratio
    sentences = {
        Verdict.FASTER: f"B is faster than A: it takes {percent(1 - ratio)} less time.",
        Verdict.SLOWER: f"B is slower than A: it takes {percent(ratio - 1)} more time.",
        Verdict.SAME: "B is as fast as A, as far as anybody would care.",
        Verdict.UNDECIDED: f"Undecided: {_why_undecided(found.comparison)} More time (--seconds) may tell.",
    }
    return sentences[found.comparison.verdict]


def _why_undecided(comparison: Comparison) -> str:
    if not comparison.lacks_rounds:
        return "the noise is larger than the difference."
    few = f"too few processes for a verdict ({comparison.rounds} of {comparison.needed_rounds} pairs)."
    looks = {
        Verdict.FASTER: f" So far B takes {percent(1 - comparison.ratio)} less time.",
        Verdict.SLOWER: f" So far B takes {percent(comparison.ratio - 1)} more time.",
    }
    return few + looks.get(comparison.leaning, "")


def _candidate_lines(name: str, found: Measurement, other: Measurement) -> list[str]:
    latency = found.samples.latency
    file, other_file = Path(found.model.path), Path(other.model.path)
    # Two files of one name can be told apart by their folders only.
    title = str(file) if file.name == other_file.name and file != other_file else file.name
    return [
        f"  {name}       {milliseconds(latency.estimate):>9}   {interval_ms(latency.low, latency.high)}",
        *wrapped(f"{title} on {found.plan.describe()}", " " * 10, " " * 12),
    ]


def _both_doubts(found: ComparisonResult) -> list[Remark]:
    """Doubts of both, each reason once. Noise of the single latencies is not a doubt of their ratio."""
    by_code = {doubt.code: doubt for doubt in (*found.second.doubts, *found.first.doubts)}
    return [doubt for doubt in by_code.values() if doubt.code not in OF_LATENCIES_ONLY]
