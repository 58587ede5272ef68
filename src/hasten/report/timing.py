"""Latencies as blocks and documents: one measurement, two against each other, one over minutes."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Final

from hasten.core.codec import from_data, to_data
from hasten.core.comparison import Comparison, Verdict, outcome_words
from hasten.core.doubts import DOUBTS
from hasten.core.goal import Goal
from hasten.core.measurement import Measurement
from hasten.core.sustained import Minute, Sustained, SustainedFound
from hasten.core.trial import ORIGINAL
from hasten.core.units import (
    duration,
    interval_ms,
    memory,
    milliseconds,
    percent,
    ratio_decimals,
    ratio_interval,
    several,
    size,
    speedup,
    times,
)
from hasten.measure.compare import ComparisonResult
from hasten.report.figures import at, goal_of, plan_words, text, whole
from hasten.show.blocks import (
    Cell,
    Chart,
    Detail,
    Facts,
    Headline,
    Note,
    Notes,
    Section,
    Table,
    cell,
    columns,
    doubt_notes,
    notes,
)
from hasten.show.charts import drawn_ends, tooltip, vega_lite

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hasten.core.session import Line
    from hasten.show.blocks import Block

    Timing = Measurement | ComparisonResult | SustainedFound

FINAL: Final = "final"
"""The label of the comparison that confirms what a tuning chose."""
_IDLE: Final = "Measure on an idle machine."


def view(found: Timing) -> list[Block]:
    """What a terminal and a page show of it."""
    if isinstance(found, Measurement):
        return _measured(found)
    return _compared(found) if isinstance(found, ComparisonResult) else _lasting(found.model.path, found.sustained)


def document(found: Timing) -> dict[str, Any]:
    """The document of `hasten bench --json` and `hasten compare --json`."""
    if isinstance(found, Measurement):
        return _measured_data(found)
    if isinstance(found, ComparisonResult):
        sides = {"first": _measured_data(found.first), "second": _measured_data(found.second)}
        return {**to_data(found.comparison), "seconds": found.seconds, **sides}
    return to_data(found, DOUBTS)


def session_lines(found: Timing) -> list[tuple[str, str, dict[str, Any]]]:
    """What a session keeps of it: raw samples, nothing derived."""
    if isinstance(found, Measurement):
        return [("measurement", found.model.path, to_data(found))]
    if isinstance(found, ComparisonResult):
        return [("comparison", f"{found.first.model.path} {found.second.model.path}", found.as_data())]
    return [("sustained", found.model.path, to_data(found.sustained))]


def sections(lines: Sequence[Line]) -> list[Section]:
    """The sections of a report: comparisons, and latency over minutes."""
    return [*_comparisons_section(named_by_result(comparisons_in(lines), lines)), *_sustained_section(lines)]


@dataclass(frozen=True, slots=True)
class ComparedPair:
    """A comparison from a session file; a side that cannot be read is None."""

    label: str
    comparison: Comparison
    first: Measurement | None
    second: Measurement | None

    @property
    def names(self) -> tuple[str, str]:
        """Both candidates in words."""
        return tuple(  # type: ignore[return-value]
            word if side is None else candidate_words(side)
            for side, word in ((self.first, "the first"), (self.second, "the second"))
        )


def compared_sentence(pair: ComparedPair) -> str:
    """A comparison in a sentence; two plans of one model are told apart by the plans."""
    a, b = pair.names
    if pair.first and pair.second:
        a, b = (PurePath(side.model.path).name for side in (pair.first, pair.second))
        if a == b:
            a, b = (side.plan.describe() for side in (pair.first, pair.second))
    comparison = pair.comparison
    if comparison.verdict in (Verdict.FASTER, Verdict.SLOWER):
        return f"{b} is {speedup(comparison.ratio, comparison.ci95, than=a)}."
    if comparison.verdict is Verdict.SAME:
        return f"{a} and {b} are {comparison_words(comparison)}."
    return f"{b} against {a}: {comparison_words(comparison)}."


def comparisons_in(lines: Iterable[Line]) -> list[ComparedPair]:
    """The comparisons of a session: what `compare` found, and the confirmation of a tuning."""
    return [
        ComparedPair(line.label, from_data(Comparison, line.data), *(_side(line, key) for key in ("first", "second")))
        for line in lines
        if line.kind == "comparison" and line.data.get("ratio") is not None
    ]


def named_by_result(pairs: Sequence[ComparedPair], lines: Sequence[Line]) -> list[ComparedPair]:
    """The comparisons. One that confirmed something else than the last result is named after its candidate: a search
    that was continued may end with another result, or before it confirmed any."""
    result = next((line.data for line in reversed(lines) if line.kind == "result"), None)
    return [
        replace(pair, label=f"{pair.names[1]} against the original")
        if pair.label == FINAL and result is not None and not _confirms(pair, result, lines)
        else pair
        for pair in pairs
    ]


def _confirms(pair: ComparedPair, result: dict[str, Any], lines: Sequence[Line]) -> bool:
    """Whether it compared what the result says is best, and the result stands on it."""
    best, first, second = at(result, "best"), pair.first, pair.second
    if first is None or second is None:
        return False
    unconfirmed = at(best, "confirmed") is False and goal_of(result) is Goal.LATENCY
    if unconfirmed and pair.comparison.verdict is Verdict.FASTER:
        return False
    # In words: the folder of a variant's cache is its own.
    return second.plan.describe() == plan_words(at(best, "plan")) and _is_variant(first, second, best, lines)


def _is_variant(first: Measurement, second: Measurement, best: Any, lines: Sequence[Line]) -> bool:
    """Whether the second is the model of the result: by its hash, or else by its size."""
    variant = text(best, "variant")
    if variant == ORIGINAL:
        return first.model.sha256 == second.model.sha256
    made = (line for line in lines if line.kind in ("variant", "trial"))
    hashes = {text(line.data, "sha256") for line in made if (text(line.data, "variant") or line.label) == variant}
    known = hashes - {""}
    return second.model.sha256 in known if known else second.model.size_bytes == whole(best, "size")


def _side(line: Line, name: str) -> Measurement | None:
    try:
        return from_data(Measurement, line.data[name])
    except (KeyError, TypeError, ValueError):
        return None


def candidate_words(found: Measurement) -> str:
    """`digits.tflite, cpu, 2 threads`."""
    return f"{PurePath(found.model.path).name}, {found.plan.describe()}"


def comparison_words(comparison: Comparison) -> str:
    """What the second is against the first."""
    return outcome_words(comparison.verdict, comparison.ratio, comparison.ci95)


def _ends(ci95: tuple[float, float]) -> str:
    return f"95 % CI {ratio_interval(ci95, 3)}" if math.isfinite(ci95[1]) else ""


def _interval(low: float, high: float) -> str:
    """`1.20–1.26 ms`; empty where one block is all there is."""
    return interval_ms(low, high) if math.isfinite(low) and math.isfinite(high) else ""


def _measured(found: Measurement) -> list[Block]:
    samples, latency = found.samples, found.samples.latency
    interval = _interval(latency.low, latency.high)
    name = PurePath(found.model.path).name
    answer = (
        f"{name} takes {milliseconds(latency.estimate)} per inference{f' (95 % CI {interval})' if interval else ''}."
    )
    peak = "not available" if found.peak_memory_mb is None else memory(found.peak_memory_mb)
    energy = ("not available", "no energy counter on this machine")
    if samples.joules is not None:
        energy = (f"{samples.joules * 1e3:.3g} mJ", "per inference")
    facts = (
        ("plan", f"{found.plan.describe()}{_effective(found)}"),
        *([("inputs", found.inputs, "one sample of it")] if found.inputs else []),
        ("latency", milliseconds(samples.median_ms), f"95 % CI {interval or 'unknown: one block of runs'}"),
        ("p95", milliseconds(samples.p95_ms), "all runs, disturbed ones included"),
        ("init", milliseconds(found.init_ms), "from the file to a model that is ready to run"),
        ("first run", milliseconds(found.first_run_ms), _of(found.first_run_ms, samples.median_ms, "the latency")),
        ("memory", peak, "peak, above that of a process without the model"),
        (
            "samples",
            f"{samples.count:,}",
            f"{'run' if samples.count == 1 else 'runs'} in {several(samples.processes, 'fresh process')}",
        ),
    )
    more = (
        ("minimum", milliseconds(samples.min_ms), "the quickest run"),
        ("CPU time", milliseconds(samples.cpu_ms), f"per run; {samples.cores_busy:.1f} cores busy"),
        ("energy", *energy),
        ("size", size(found.model.size_bytes), "of the model file"),
    )
    return [Headline(answer), Facts(facts), *notes(found.doubts, DOUBTS), Detail((Facts(more),))]


def _effective(found: Measurement) -> str:
    seen = []
    if found.effective.accelerator != found.plan.accelerator:
        seen.append(f"in effect: {found.effective.accelerator}")
    if found.effective.api != "CompiledModel":
        seen.append("classic interpreter")
    return f" ({', '.join(seen)})" if seen else ""


def _of(value: float, unit: float, what: str) -> str:
    return f"{times(value / unit)} {what}" if unit else ""


def _measured_data(found: Measurement) -> dict[str, Any]:
    samples = found.samples
    return {
        "model": to_data(found.model),
        "plan": to_data(found.plan),
        "effective": to_data(found.effective),
        "inputs": found.inputs,
        "latency": {
            "median_ms": samples.median_ms,
            "ci95_ms": [samples.latency.low, samples.latency.high],
            "plain_median_ms": samples.plain_median_ms,
            "disturbed_share": samples.disturbed_share,
            "p95_ms": samples.p95_ms,
            "min_ms": samples.min_ms,
            "samples": samples.count,
            "processes": samples.processes,
        },
        "init_ms": found.init_ms,
        "first_run_ms": found.first_run_ms,
        "warm_up_runs": found.warm_up_runs,
        "peak_memory_mb": found.peak_memory_mb,
        "cpu_ms": samples.cpu_ms,
        "energy_mj": None if samples.joules is None else samples.joules * 1e3,
        "doubts": [DOUBTS.remark_data(doubt) for doubt in found.doubts],
    }


def _compared(found: ComparisonResult) -> list[Block]:
    comparison = found.comparison
    rows = tuple(
        (
            Cell(name),
            Cell(_title(side, other)),
            Cell(side.plan.describe()),
            Cell(milliseconds(side.samples.median_ms), side.samples.median_ms),
            Cell(_interval(side.samples.latency.low, side.samples.latency.high)),
        )
        for name, side, other in (("A", found.first, found.second), ("B", found.second, found.first))
    )
    sheet = Table("compared", "Both candidates", columns("", "model", "plan", "#latency", "#95 % CI"), rows)
    effort = f"{several(comparison.rounds, 'pair')} of processes, {duration(found.seconds)}"
    facts = Facts(
        (
            (
                "time ratio (B / A)",
                f"{comparison.ratio:.{ratio_decimals(comparison.ci95, 3)}f}",
                _ends(comparison.ci95),
            ),
            ("smallest detectable difference", _detectable(comparison), effort),
        )
    )
    doubts = doubt_notes({"A": found.first.doubts, "B": found.second.doubts}, DOUBTS)
    return [Headline(_verdict(comparison, found.first.samples.processes)), sheet, facts, *doubts]


def _title(found: Measurement, other: Measurement) -> str:
    """The file's name; two files of one name are told apart by their folders."""
    path, others = PurePath(found.model.path), PurePath(other.model.path)
    return str(path) if path.name == others.name and path != others else path.name


def _verdict(comparison: Comparison, pairs: int) -> str:
    if comparison.verdict is Verdict.SAME:
        return f"A and B are {comparison_words(comparison)}."
    if comparison.verdict is not Verdict.UNDECIDED:
        return f"B is {speedup(comparison.ratio, comparison.ci95, than='A')}."
    longer = "Measure longer (--seconds)."
    if comparison.contention:
        seen = f"{comparison.contention:.1f} cores"
        return f"Undecided: other processes used {seen} that one of the plans needs. {_IDLE}"
    if comparison.quickest_disagree:
        return f"Undecided: many runs were disturbed, and the quickest runs say the opposite. {_IDLE}"
    if not comparison.lacks_rounds:
        return f"Undecided: the noise is larger than the difference. {longer}"
    disturbed = pairs - comparison.rounds
    seen = f"of {pairs}, other processes disturbed {disturbed}" if disturbed > 0 else f"{pairs} ran"
    few = f"Undecided: a verdict needs {comparison.needed_rounds} pairs of processes; {seen}."
    clear = comparison.leaning is not Verdict.UNDECIDED
    return f"{few}{f' So far, B is {speedup(comparison.ratio)} than A.' if clear else ''} {longer}"


def _detectable(comparison: Comparison) -> str:
    """Pairs that differ beyond all measure say nothing about it."""
    return percent(comparison.smallest_detectable) if comparison.smallest_detectable < 1 else "unknown"


def _comparisons_section(found: Sequence[ComparedPair]) -> list[Section]:
    rows = tuple(
        (
            Cell("the result against the original" if pair.label == FINAL else pair.label),
            Cell(pair.names[0]),
            _latency_cell(pair.first),
            Cell(pair.names[1]),
            _latency_cell(pair.second),
            Cell(pair.comparison.verdict.value),
            Cell(comparison_words(pair.comparison)),
            cell(pair.comparison.rounds),
        )
        for pair in found
    )
    headings = columns("comparison", "A", "#latency of A", "B", "#latency of B", "verdict", "B is", "#rounds")
    sheet = Table("comparisons-table", "Pairs of candidates in interleaved blocks", headings, rows)
    return [Section("comparisons", "Head to head", (sheet,))] if rows else []


def _latency_cell(found: Measurement | None) -> Cell:
    return Cell("") if found is None else Cell(milliseconds(found.samples.median_ms), found.samples.median_ms)


def _sustained_section(lines: Sequence[Line]) -> list[Section]:
    runs = {line.label: from_data(Sustained, line.data) for line in lines if line.kind == "sustained"}
    blocks = tuple(
        block for place, (model, found) in enumerate(runs.items()) for block in _lasting(model, found, place)
    )
    return [Section("sustained", "Sustained speed", blocks)] if blocks else []


def sustained_answer(lines: Sequence[Line]) -> str:
    """What the last sustained run of a session came to; empty where there is none."""
    try:
        runs = [(line.label, from_data(Sustained, line.data)) for line in lines if line.kind == "sustained"]
    except (KeyError, TypeError, ValueError):
        return "The session has a sustained run."
    return _lasting_answer(*runs[-1]) if runs else ""


def _lasting_answer(model: str, found: Sustained) -> str:
    name = PurePath(model).name
    if found.onset is None:
        change = f"{percent(abs(found.slowdown))} {'more' if found.slowdown > 0 else 'less'} time"
        return f"{name} showed no lasting slowdown: a run took {change} in the last slice than in the first."
    since = duration((found.onset - 1) * found.slice_seconds)
    if found.doubts:  # which slows a model down just as heat does
        slower = f"{percent(found.slowdown)} slower than it began"
        return f"{name} slowed down after {since} and ended {slower}. Other work on this machine may be the cause."
    return f"{name} throttles after {since}: it ends {percent(found.slowdown)} slower than it began."


def _lasting(model: str, found: Sustained, place: int = 0) -> list[Block]:
    name = PurePath(model).name
    answer = _lasting_answer(model, found)
    stopped: list[Block] = [Notes((Note(f"The run ended early: {found.cut_short}"),))] if found.cut_short else []
    told = f"Median latency in slices of {duration(found.slice_seconds)}, without a pause between runs."
    sheet = Table(
        f"sustained-table-{place}",
        f"Latency of {name} over time",
        columns("#slice", "#median", "#95 % CI", "#p95", "#runs", "#°C", "#MHz"),
        tuple(map(_slice, found.minutes)),
    )
    chart = Chart(f"sustained-{place}", f"Latency of {name} over time", told, _slices_spec(found.minutes), sheet)
    return [Headline(answer), chart, *stopped, *notes(found.doubts, DOUBTS)]


def _slice(minute: Minute) -> tuple[Cell, ...]:
    return (
        cell(minute.minute),
        Cell(milliseconds(minute.median_ms), minute.median_ms),
        Cell(_interval(*minute.ci95_ms), minute.ci95_ms[0] if math.isfinite(minute.ci95_ms[0]) else None),
        Cell(milliseconds(minute.p95_ms), minute.p95_ms),
        cell(minute.runs),
        Cell("" if minute.temperature_c is None else f"{minute.temperature_c:.0f}", minute.temperature_c),
        Cell("" if minute.frequency_mhz is None else f"{minute.frequency_mhz:.0f}", minute.frequency_mhz),
    )


def _slices_spec(minutes: Sequence[Minute]) -> dict[str, Any]:
    """A median for each slice, with its interval."""
    values = [
        {
            "slice": minute.minute,
            "ms": minute.median_ms,
            "told": milliseconds(minute.median_ms),
            **drawn_ends(minute.median_ms, *minute.ci95_ms),
        }
        for minute in minutes
    ]
    x = {"field": "slice", "type": "ordinal", "title": "slice of the run", "axis": {"labelAngle": 0}}
    y = {"field": "ms", "type": "quantitative", "title": "latency, ms", "scale": {"zero": True}}
    point = {"filled": True, "size": 60, "color": "@accent"}
    return vega_lite(
        240,
        values,
        layer=[
            {
                "mark": {"type": "line", "strokeWidth": 2, "point": point},
                "encoding": {"x": x, "y": y, "tooltip": tooltip(slice="slice", told="latency")},
            },
            {
                "mark": {"type": "rule", "strokeWidth": 2, "color": "@accent"},
                "encoding": {"x": x, "y": {**y, "field": "low"}, "y2": {"field": "high"}},
            },
        ],
    )
