"""The guide's "Evaluate whether your model benefits from using hardware accelerators": what runs where, and what pays.

Each accelerator is loaded in a process of its own, its placement and its outputs are checked against the reference
kernels, and those that run are timed in interleaved rounds; one that is surely out of the race keeps its first figures.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Final

from hasten.core.comparison import Verdict
from hasten.core.errors import UsageError
from hasten.core.failure import NOT_INSTALLED, UNSUPPORTED, Failure, RunnerFailed
from hasten.core.plan import Plan
from hasten.core.session import keep_nothing
from hasten.measure.race import comparison
from hasten.measure.rounds import Candidate, Progress, Rounds, Track, no_progress
from hasten.practices.accelerators.facts import (
    FAILED,
    MISSING,
    PARTIAL,
    RIGHT,
    RUNS,
    AcceleratorRow,
    OutputError,
    break_even_runs,
)
from hasten.practices.accelerators.outputs import chooses, make_inputs, output_errors, real_numbers
from hasten.practices.accelerators.placement import YNNPACK_OPTION, is_on_cpu, placement_fields, something_else_ran
from hasten.practices.accelerators.race import BASE, race
from hasten.practices.accelerators.sentences import why_failed, why_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from hasten.core.session import Keep
    from hasten.model.graph import Graph
    from hasten.practices.accelerators.outputs import MakeInputs
    from hasten.targets.base import Target
    from hasten.targets.client import LoadReport

DEFAULT_SECONDS: Final = 60.0
_CACHED_STARTS: Final = 3
_SHARE_OF_CHECKS: Final = 0.3
_WITHOUT_YNNPACK: Final = Failure(
    "load", "accelerator", "This release of LiteRT was built without YNNPACK.", code=NOT_INSTALLED
)


class ExaminationInterrupted(KeyboardInterrupt):
    """Ctrl-C after something was timed: the rows as far as they are known."""

    def __init__(self, rows: list[AcceleratorRow]) -> None:
        super().__init__()
        self.rows = rows


@dataclass(slots=True)
class _Entry:
    """One accelerator on its way through the examination."""

    name: str
    candidate: Candidate
    load: LoadReport | None = None
    outputs: list[list[NDArray[np.float64]]] = field(default_factory=list)
    failure: Failure | None = None
    track: Track | None = None
    cached_start_ms: float | None = None
    stand_in: str = ""


def plans_to_examine(threads: int, delegates: Sequence[str] = ()) -> dict[str, Plan]:
    """Every accelerator that this release of the engine could use, by name. Those that are missing will say so."""
    plans = {
        BASE: Plan(threads=threads),
        "builtin": Plan(threads=threads, kernel="builtin"),
        "reference": Plan(threads=threads, kernel="reference"),
        "ynnpack": Plan(threads=threads, options=(YNNPACK_OPTION,)),
        "gpu": Plan(threads=threads, accelerator="gpu"),
        "npu": Plan(threads=threads, accelerator="npu"),
    }
    for setting in dict.fromkeys(delegates):
        path, _, options = setting.partition(":")
        if not path:
            raise UsageError("--delegate names no library", "Give the path of a shared library (.so).")
        names = (Path(path).name, f"{Path(path).name}:{options}", setting)
        plans[next(name for name in names if name not in plans)] = Plan(threads=threads, delegate=setting)
    return plans


def examine(
    target: Target,
    candidate: Candidate,
    graph: Graph,
    plans: dict[str, Plan],
    seconds: float = DEFAULT_SECONDS,
    progress: Progress = no_progress,
    cache: str = "",
    keep: Keep = keep_nothing,
    make: MakeInputs = make_inputs,
) -> list[AcceleratorRow]:
    """A row for each plan, in the order given; with a folder for caches, also what they save at the start.

    Outputs are compared on the inputs that `make` gives for the model's tensors: seeded noise, if nothing better.
    """
    begin = time.monotonic()
    entries = [_Entry(name, replace(candidate, label=name, plan=plan)) for name, plan in plans.items()]
    inputs: list[list[bytes]] = []
    for number, entry in enumerate(entries):
        progress(_SHARE_OF_CHECKS * number / len(entries), f"checking {entry.name}")
        _check(target, entry, inputs, make, fresh=graph.stateful)
        if cache and entry.failure is None and _keeps_a_cache(entry.candidate.plan):
            progress(_SHARE_OF_CHECKS * (number + 0.5) / len(entries), f"filling the cache of {entry.name}")
            folder = f"{cache}/{Path(entry.name).name}-{candidate.model.sha256[:12]}"
            entry.cached_start_ms = _cached_start_ms(target, entry, folder)
    try:
        _time(target, entries, begin + seconds, _report_of(begin, seconds, progress), keep)
    except KeyboardInterrupt:
        rows = _rows(graph, entries)
        if any(row.latency is not None for row in rows):
            raise ExaminationInterrupted(rows) from None
        raise
    progress(1.0, "done")
    return _rows(graph, entries)


def _check(target: Target, entry: _Entry, inputs: list[list[bytes]], make: MakeInputs, *, fresh: bool) -> None:
    """Load in a fresh process and run on the inputs; whoever loads first makes them."""
    try:
        with target.start(entry.candidate.plan) as runner:
            entry.stand_in = runner.hello().stand_ins.get(entry.name, "")
            entry.load = runner.load(entry.candidate.path, entry.candidate.workload)
            entry.failure = something_else_ran(entry.candidate.plan, entry.load)
            if entry.failure is not None:
                return
            if not inputs:
                inputs.extend(make(entry.load.inputs))
            # Without an input there is nothing to hand over, and a model gives the same answer each time.
            answers = runner.evaluate_many(inputs, fresh=fresh) if entry.load.inputs else [runner.evaluate([])]
            for raw in answers:
                pairs = zip(raw, entry.load.outputs, strict=True)
                entry.outputs.append([real_numbers(data, info) for data, info in pairs])
    except RunnerFailed as failed:
        entry.failure = _named(entry, failed.failure)


def _named(entry: _Entry, failure: Failure) -> Failure:
    """The failure with a cause that the engine itself leaves to a status."""
    without = YNNPACK_OPTION in entry.candidate.plan.options and failure.kind == "engine"
    return _WITHOUT_YNNPACK if without and failure.code == UNSUPPORTED else failure


def _keeps_a_cache(plan: Plan) -> bool:
    """Built-in kernels work nothing out at their start, and a delegate library is not told of the folder."""
    return not plan.delegate and (plan.accelerator != "cpu" or plan.kernel == "delegate")


def _cached_start_ms(target: Target, entry: _Entry, folder: str) -> float | None:
    """Start-up when the cache is there: the first process fills it, the next ones show what that saves."""
    plan = replace(entry.candidate.plan, cache=folder)
    starts = []
    try:
        for _ in range(_CACHED_STARTS + 1):
            with target.start(plan) as runner:
                load = runner.load(entry.candidate.path, entry.candidate.workload)
            starts.append(load.init_ms + load.first_run_ms)
    except RunnerFailed:
        return None
    return median(starts[1:])


def _report_of(begin: float, seconds: float, progress: Progress) -> Callable[[str], None]:
    def tell(state: str) -> None:
        elapsed = (time.monotonic() - begin) / seconds
        progress(min(_SHARE_OF_CHECKS + (1 - _SHARE_OF_CHECKS) * elapsed, 0.99), state)

    return tell


def _time(target: Target, entries: list[_Entry], until: float, tell: Callable[[str], None], keep: Keep) -> None:
    runnable = [entry for entry in entries if entry.failure is None]
    rounds = Rounds(target, [entry.candidate for entry in runnable])
    try:
        race(rounds, until, tell, keep)
    finally:
        for entry, track in zip(runnable, rounds.tracks, strict=True):
            entry.track = track
            entry.failure = None if track.rounds else track.failure


def _rows(graph: Graph, entries: list[_Entry]) -> list[AcceleratorRow]:
    sound = [entry for entry in entries if entry.failure is None and entry.load is not None and entry.outputs]
    outputs = {entry.name: entry.outputs for entry in sound}
    tensors = sound[0].load.outputs if sound and sound[0].load is not None else ()
    errors = output_errors(graph, outputs, tensors)
    base = next((entry.track for entry in entries if entry.name == BASE and entry.failure is None), None)
    base = base if base is not None and base.rounds else None
    return [_row(graph, entry, errors.get(entry.name), base) for entry in entries]


def _row(graph: Graph, entry: _Entry, error: OutputError | None, base: Track | None) -> AcceleratorRow:
    plan, load = entry.candidate.plan, entry.load
    if entry.failure is not None or load is None:
        return _failed_row(entry)
    row = AcceleratorRow(
        entry.name,
        plan,
        RUNS,
        "",
        error=error,
        init_ms=load.init_ms,
        first_run_ms=load.first_run_ms,
        cached_start_ms=entry.cached_start_ms,
        stand_in=entry.stand_in,
        **placement_fields(graph, plan, load),
    )
    result = entry.track.result() if entry.track else None
    if entry.track is not None and result is not None and not isinstance(result, Failure):
        row = replace(
            row,
            latency=result.samples.latency,
            p95_ms=result.samples.p95_ms,
            init_ms=result.init_ms,
            first_run_ms=result.first_run_ms,
            peak_memory_mb=result.peak_memory_mb,
            processes=result.samples.processes,
            doubts=tuple(result.doubts),
        )
        if base is not None and base is not entry.track:
            row = _against(row, base, entry.track)
    row = replace(row, status=_status(row, load))
    return replace(row, why=why_of(row, chooses=chooses(graph)))


def _failed_row(entry: _Entry) -> AcceleratorRow:
    failure = entry.failure or Failure("load", "bug", "nothing was learned about it", "Please report this.")
    status = MISSING if _is_missing(failure) else FAILED
    return AcceleratorRow(entry.name, entry.candidate.plan, status, why_failed(failure), failure=failure)


def _is_missing(failure: Failure) -> bool:
    """Whether something is not there that could be, rather than there and in trouble."""
    return failure.kind == "accelerator" and failure.code == NOT_INSTALLED


def _against(row: AcceleratorRow, base: Track, track: Track) -> AcceleratorRow:
    """The row with its comparison; a start-up is repaid only by what is surely faster."""
    against, theirs = comparison(base, track), base.result()
    if against.verdict is not Verdict.FASTER or isinstance(theirs, Failure) or row.start_ms is None:
        return replace(row, against_cpu=against)
    # The ratio within rounds, not that of two medians: other load that came and went must not count as speed.
    run_ms = theirs.samples.median_ms
    runs = break_even_runs(row.start_ms, run_ms * against.ratio, theirs.init_ms + theirs.first_run_ms, run_ms)
    return replace(row, against_cpu=against, break_even_runs=runs)


def _status(row: AcceleratorRow, load: LoadReport) -> str:
    if row.error is not None and row.error.judgement != RIGHT:
        return row.error.judgement
    if row.placed_ops is None and not is_on_cpu(row.plan):
        return PARTIAL if not load.without_cpu else RUNS
    if row.placed_ops is not None and row.total_ops is not None and row.placed_ops < row.total_ops:
        return PARTIAL
    return RUNS
