"""The guide's "Evaluate whether your model benefits from using hardware accelerators": what runs where, and what pays.

Each accelerator is loaded in a process of its own, its placement and its outputs are checked, and those that run are
timed in interleaved rounds; one that is surely out of the race keeps its first figures. XNNPACK also runs with all
cores: a back end that brings threads of its own has no credit for what XNNPACK gains from threads.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Final

from hasten.core.codec import finite
from hasten.core.comparison import Verdict
from hasten.core.errors import Interrupted, UsageError
from hasten.core.failure import NOT_INSTALLED, UNSUPPORTED, Failure, RunnerFailed
from hasten.core.plan import Plan
from hasten.core.remark import remark
from hasten.data.preprocess import preprocess_from_text
from hasten.data.sources import open_dataset
from hasten.measure.race import comparison, faster_of, result_beside, run_race
from hasten.measure.rounds import Candidate, Rounds, Track
from hasten.measure.schedule import Schedule, now
from hasten.practices.accelerators.break_even_size import with_ladders
from hasten.practices.accelerators.facts import (
    BASE,
    NOISE,
    AcceleratorRow,
    AcceleratorsFound,
    Latency,
    Status,
    has_more_threads,
)
from hasten.practices.accelerators.outputs import (
    Judgement,
    OutputError,
    chooses,
    inputs_from_data,
    make_inputs,
    output_errors,
    real_numbers,
    yardstick_of,
)
from hasten.practices.accelerators.placement import YNNPACK_OPTION, placement_fields, something_else_ran
from hasten.practices.accelerators.rules import break_even_runs, why_of
from hasten.targets.base import with_connection

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from hasten.core.machine import Machine
    from hasten.measure.effort import Effort
    from hasten.model.graph import Graph
    from hasten.practices.accelerators.facts import AcceleratorOptions
    from hasten.practices.accelerators.outputs import MakeInputs
    from hasten.targets.client import LoadReport

SECONDS: Final = 60.0
_CACHED_STARTS: Final = 3
_SHARE_OF_CHECKS: Final = 0.3
_RECHECK_SECONDS, _RECHECK_RUNS = 0.2, 400
# The vendor behind the row called npu.
_DRIVEN_VENDOR: Final = "intel_openvino"
_WITHOUT_YNNPACK: Final = Failure(
    "load", "accelerator", "This release of LiteRT was built without YNNPACK.", code=NOT_INSTALLED
)


@dataclass(slots=True)
class _Entry:
    """One accelerator on its way through the examination."""

    name: str
    candidate: Candidate
    load: LoadReport | None = None
    outputs: list[list[NDArray[np.float64]]] = field(default_factory=list)
    later_outputs: list[list[NDArray[np.float64]]] = field(default_factory=list)
    """For the same inputs, after many runs; empty where that was not tried."""
    failure: Failure | None = None
    track: Track | None = None
    cached_start_ms: float | None = None
    stand_in: str | None = None


@dataclass(frozen=True, slots=True)
class _Cpu:
    """XNNPACK with the threads of the plan, and with all cores: what the others are compared with. None: not timed."""

    planned: Track | None
    all_cores: Track | None


def run(candidate: Candidate, graph: Graph, options: AcceleratorOptions, effort: Effort) -> AcceleratorsFound | Failure:
    """Every accelerator within reach; a failure if not even the CPU runs the model."""
    make: MakeInputs = make_inputs
    if options.data:
        preprocess = preprocess_from_text(options.preprocess)
        make = inputs_from_data(graph, candidate.workload, open_dataset(options.data), preprocess)
    compared_on = options.data or NOISE
    base = Plan(threads=candidate.plan.threads, cores=candidate.plan.cores)
    plans = plans_to_examine(base, len(base.cores) or effort.target.machine().cores, options.delegates)
    try:
        rows = examine(candidate, graph, plans, effort, make, options.cache)
        failures = [row.failure for row in rows if row.failure is not None]
        if len(failures) == len(rows):
            return failures[0]  # the CPU's own: the model's trouble, whatever the others say
    except Interrupted as stop:
        raise Interrupted(AcceleratorsFound(candidate.model.path, stop.found, compared_on, interrupted=True)) from None
    found = AcceleratorsFound(candidate.model.path, rows, compared_on)
    if options.pays_from:
        try:
            found = replace(found, rows=with_ladders(rows, effort))
        except KeyboardInterrupt:
            raise Interrupted(replace(found, interrupted=True)) from None
    if options.other_vendors:
        vendors = vendor_rows(candidate.plan.threads, effort.target.machine())
        found = replace(found, rows=(*found.rows, *vendors))
    return found


def plans_to_examine(base: Plan, cores: int, delegates: Sequence[str] = ()) -> dict[str, Plan]:
    """XNNPACK as planned and with all cores, then every accelerator that this release of the engine could use, by name.
    Those that are missing will say so."""
    plans = {BASE: base}
    if base.threads < cores:
        plans[f"{BASE} {cores} threads"] = replace(base, threads=cores)
    plans |= {
        "builtin": replace(base, kernel="builtin"),
        "reference": replace(base, kernel="reference"),
        "ynnpack": replace(base, options=(YNNPACK_OPTION,)),
        "gpu": replace(base, accelerator="gpu"),
        "npu": replace(base, accelerator="npu"),
    }
    for setting in dict.fromkeys(delegates):
        path, _, options = setting.partition(":")
        if not path:
            raise UsageError("--delegate names no library.", "Give the path of a shared library (.so).")
        names = (Path(path).name, f"{Path(path).name}:{options}", setting)
        plans[next(name for name in names if name not in plans)] = replace(base, delegate=setting)
    return plans


def examine(
    candidate: Candidate,
    graph: Graph,
    plans: dict[str, Plan],
    effort: Effort,
    make: MakeInputs = make_inputs,
    cache: str = "",
) -> tuple[AcceleratorRow, ...]:
    """A row for each plan, in the order given. Raises Interrupted with the rows so far, once something was timed.

    `make` makes the inputs that outputs are compared on, `cache` is a folder to show what caches save at the start.
    """
    whole = Schedule(effort.seconds_or(SECONDS))
    entries = [_Entry(name, replace(candidate, label=name, plan=plan)) for name, plan in plans.items()]
    inputs: list[list[bytes]] = []
    for number, entry in enumerate(entries):
        effort.progress(_SHARE_OF_CHECKS * number / len(entries), f"checking {entry.name}")
        _check(entry, inputs, make, effort, fresh=graph.stateful)
        if cache and entry.failure is None and entry.candidate.plan.may_keep_cache:
            effort.progress(_SHARE_OF_CHECKS * (number + 0.5) / len(entries), f"filling the cache of {entry.name}")
            folder = f"{cache}/{Path(entry.name).name}-{candidate.model.sha256[:12]}"
            entry.cached_start_ms = _cached_start_ms(entry, folder, effort)
    try:
        _time(entries, whole, effort)
    except KeyboardInterrupt:
        rows = _rows(graph, entries)
        if any(row.latency is not None for row in rows):
            raise Interrupted(rows) from None
        raise
    effort.progress(1.0, "done")
    return _rows(graph, entries)


def _check(entry: _Entry, inputs: list[list[bytes]], make: MakeInputs, effort: Effort, *, fresh: bool) -> None:
    """Load in a fresh process and run on the inputs; whoever loads first makes them."""

    def load_and_run() -> None:
        with effort.target.start(entry.candidate.plan) as runner:
            entry.stand_in = runner.hello().stand_ins.get(entry.name)
            entry.load = runner.load(entry.candidate.path, entry.candidate.workload)
            entry.failure = something_else_ran(entry.candidate.plan, entry.load)
            if entry.failure is not None:
                return
            if not inputs:
                inputs.extend(make(entry.load.inputs))
            # Without an input there is nothing to hand over, and a model gives the same answer each time.
            answers = runner.evaluate_many(inputs, fresh=fresh) if entry.load.inputs else [runner.evaluate([])]
            entry.outputs = _numbers(answers, entry.load)
            if not entry.candidate.plan.runs_on_cpu and entry.load.inputs and not fresh:
                # What is right once may not be right under load, which is when it is timed.
                runner.block(_RECHECK_SECONDS, _RECHECK_RUNS)
                entry.later_outputs = _numbers(runner.evaluate_many(inputs), entry.load)

    try:
        with_connection(load_and_run)
    except RunnerFailed as failed:
        entry.failure = _named(entry, failed.failure)


def _numbers(answers: Sequence[Sequence[bytes | memoryview]], load: LoadReport) -> list[list[NDArray[np.float64]]]:
    return [[real_numbers(data, info) for data, info in zip(answer, load.outputs, strict=True)] for answer in answers]


def _named(entry: _Entry, failure: Failure) -> Failure:
    """The failure with a cause that the engine itself leaves to a status."""
    without = YNNPACK_OPTION in entry.candidate.plan.options and failure.kind == "engine"
    return _WITHOUT_YNNPACK if without and failure.code == UNSUPPORTED else failure


def _cached_start_ms(entry: _Entry, folder: str, effort: Effort) -> float | None:
    """Start-up when the cache is there: the first process fills it, the next ones show what that saves."""
    plan = replace(entry.candidate.plan, cache=folder)
    starts = []
    try:
        for _ in range(_CACHED_STARTS + 1):
            with effort.target.start(plan) as runner:
                load = runner.load(entry.candidate.path, entry.candidate.workload)
            starts.append(load.init_ms + load.first_run_ms)
    except RunnerFailed:
        return None
    return median(starts[1:])


def _time(entries: list[_Entry], whole: Schedule, effort: Effort) -> None:
    """Rounds until the time is up, one at least; those that are decided, or slower by far, get no more."""
    runnable = [entry for entry in entries if entry.failure is None]
    rounds = Rounds(effort.target, [entry.candidate for entry in runnable])

    def tell(state: str) -> None:
        share = _SHARE_OF_CHECKS + (1 - _SHARE_OF_CHECKS) * whole.share
        effort.progress(min(share, 0.99), f"{state}: {', '.join(track.candidate.label for track in rounds.alive)}")

    try:
        run_race(
            rounds,
            now() + whole.left_s,
            base=lambda rounds: _cpu(rounds.tracks).planned,
            second_base=lambda rounds: _cpu(rounds.tracks).all_cores,
            fewest=1,
            tell=tell,
            keep=effort.keep,
        )
    finally:
        for entry, track in zip(runnable, rounds.tracks, strict=True):
            entry.track = track
            entry.failure = None if track.rounds else track.failure


def _cpu(tracks: Sequence[Track]) -> _Cpu:
    planned = next((track for track in tracks if track.candidate.label == BASE), None)
    if planned is None:
        return _Cpu(None, None)
    plan = planned.candidate.plan
    return _Cpu(planned, next((track for track in tracks if has_more_threads(track.candidate.plan, plan)), None))


def _rows(graph: Graph, entries: list[_Entry]) -> tuple[AcceleratorRow, ...]:
    sound = [entry for entry in entries if entry.failure is None and entry.load is not None and entry.outputs]
    outputs = {entry.name: entry.outputs for entry in sound}
    tensors = sound[0].load.outputs if sound and sound[0].load is not None else ()
    errors, yardstick = output_errors(graph, outputs, tensors), yardstick_of(outputs)
    later = {**outputs, **{entry.name: entry.later_outputs for entry in sound if entry.later_outputs}}
    later_errors = output_errors(graph, later, tensors)
    changed = {name for name, error in errors.items() if later_errors[name].judgement.gravity > error.judgement.gravity}
    errors |= {name: later_errors[name] for name in changed}
    cpu = _cpu(
        [entry.track for entry in entries if entry.failure is None and entry.track is not None and entry.track.rounds]
    )
    rows = [_row(graph, entry, errors.get(entry.name), cpu, entry.name in changed) for entry in entries]
    return tuple(replace(row, compared_with=yardstick) if row.name in errors else row for row in rows)


def _row(graph: Graph, entry: _Entry, error: OutputError | None, cpu: _Cpu, outputs_change: bool) -> AcceleratorRow:
    plan, load = entry.candidate.plan, entry.load
    if entry.failure is not None or load is None:
        return _failed_row(entry)
    row = AcceleratorRow(
        entry.name,
        Status.RUNS,
        plan,
        max_error=finite(error.worst) if error else None,
        typical_error=finite(error.typical) if error else None,
        outputs_change=outputs_change,
        init_ms=load.init_ms,
        first_run_ms=load.first_run_ms,
        cached_start_ms=entry.cached_start_ms,
        stand_in=entry.stand_in,
        **placement_fields(graph, plan, load),
    )
    result = result_beside(cpu.planned, entry.track) if entry.track else None
    if entry.track is not None and result is not None and not isinstance(result, Failure):
        samples = result.samples
        ends = (samples.latency.low, samples.latency.high)
        row = replace(
            row,
            latency=Latency(samples.latency.estimate, ends, samples.p95_ms, samples.processes),
            init_ms=result.init_ms,
            first_run_ms=result.first_run_ms,
            peak_memory_mb=result.peak_memory_mb,
            doubts=tuple(result.doubts),
            failure=entry.track.failure,
        )
        if cpu.planned is not None and cpu.planned is not entry.track:
            row = _against(row, entry.track, cpu.planned, cpu.all_cores)
    row = replace(row, status=_status(row, load, error))
    return replace(row, why=why_of(row, chooses=chooses(graph)))


def _failed_row(entry: _Entry) -> AcceleratorRow:
    failure = entry.failure or Failure("load", "bug", "It could not be examined.", "Please report this.")
    # Whether something is not there that could be, rather than there and in trouble.
    missing = failure.kind == "accelerator" and failure.code == NOT_INSTALLED
    status = Status.MISSING if missing else Status.FAILED
    why = remark("accelerators.failed", message=failure.message, hint=failure.hint)
    return AcceleratorRow(entry.name, status, entry.candidate.plan, why=why, failure=failure)


def _against(row: AcceleratorRow, track: Track, planned: Track, all_cores: Track | None) -> AcceleratorRow:
    """The row with its comparisons; only what proves to be faster repays a start-up.

    Kernels of the CPU are judged by XNNPACK with as many threads, all else by the faster XNNPACK.
    """
    rival = planned if row.plan.runs_on_cpu else faster_of(planned, all_cores)
    row = replace(
        row,
        against_cpu=comparison(planned, track),
        against_all_cores=None if rival is planned else comparison(rival, track, planned),
        cpu_threads=None if all_cores is None else rival.candidate.plan.threads,
    )
    against, theirs = row.against, result_beside(planned, rival)
    if against is None or against.verdict is not Verdict.FASTER or isinstance(theirs, Failure) or row.start_ms is None:
        return row
    # The ratio within rounds, not that of two medians: other load that came and went must not count as speed.
    run_ms = theirs.samples.median_ms
    runs = break_even_runs(row.start_ms, run_ms * against.ratio, theirs.init_ms + theirs.first_run_ms, run_ms)
    return replace(row, break_even_runs=runs)


def _status(row: AcceleratorRow, load: LoadReport, error: OutputError | None) -> Status:
    if row.failure is not None:
        return Status.FAILED
    if error is not None and error.judgement is not Judgement.RIGHT:
        return Status.WRONG if error.judgement is Judgement.WRONG else Status.IMPRECISE
    if row.placed_ops is None and not row.plan.runs_on_cpu:
        return Status.PARTIAL if not load.without_cpu else Status.RUNS
    if row.placed_ops is not None and row.total_ops is not None and row.placed_ops < row.total_ops:
        return Status.PARTIAL
    return Status.RUNS


def vendor_rows(threads: int, machine: Machine) -> list[AcceleratorRow]:
    """NPUs of other vendors: LiteRT's package brings what compiles for them, and not what runs on them."""
    plan = Plan(threads=threads, accelerator="npu")
    found = []
    for vendor in machine.vendors:
        if vendor.name != _DRIVEN_VENDOR:
            told = {"name": vendor.name, "compiler": vendor.compiler, "dispatch": vendor.dispatch}
            why = remark("accelerators.vendor", **told)
            found.append(AcceleratorRow(f"npu {vendor.name}", Status.MISSING, plan, why=why))
    return found
