"""The guide's "Evaluate whether your model benefits from using hardware accelerators": what runs where, and what pays.

Each accelerator is loaded in a process of its own, its placement and its outputs are checked against the reference
kernels, and those that run are timed in interleaved rounds; one that is surely out of the race keeps its first figures.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Final

import numpy as np

from hasten.core.acceleration import (
    FAILED,
    IMPRECISE,
    MISSING,
    PARTIAL,
    RIGHT,
    RUNS,
    WRONG,
    AcceleratorRow,
    OutputError,
    break_even_runs,
    output_error,
    worst_of,
)
from hasten.core.comparison import FEWEST_ROUNDS, Comparison, Verdict, compare_rounds, log_ratio_of_round
from hasten.core.failure import Failure, RunnerFailed
from hasten.core.measurement import Measurement
from hasten.core.plan import Plan
from hasten.core.units import milliseconds
from hasten.measure.rounds import Candidate, Progress, Rounds, Track, no_progress
from hasten.model.cost import count_cost, stored_shapes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from hasten.model.graph import Graph
    from hasten.targets.base import Target
    from hasten.targets.client import LoadReport, TensorInfo

DEFAULT_SECONDS: Final = 60.0
_BASE: Final = "xnnpack"
_REFERENCE: Final = "reference"
_SECONDS_EACH: Final = 0.3
_MOST_ROUNDS: Final = 12
# Twice as slow as the CPU's own row in a whole round is nothing that more rounds would mend.
_OUT_OF_THE_RACE: Final = 2.0
_INPUTS_CHECKED: Final = 3
_CACHED_STARTS: Final = 3
# Their outputs jump where their inputs only move: on noise, another rounding is another choice.
_LARGE_ERROR: Final = 0.05
_CHOOSING: Final = ("ARG_MAX", "ARG_MIN", "TOPK_V2", "NON_MAX_SUPPRESSION_V4", "NON_MAX_SUPPRESSION_V5", "CUSTOM")


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


def plans_to_examine(threads: int, delegates: Sequence[str] = ()) -> dict[str, Plan]:
    """Every accelerator that this release of the engine could use, by name. Those that are missing will say so."""
    plans = {
        _BASE: Plan(threads=threads),
        "builtin": Plan(threads=threads, kernel="builtin"),
        _REFERENCE: Plan(threads=threads, kernel="reference"),
        "gpu": Plan(threads=threads, accelerator="gpu"),
        "npu": Plan(threads=threads, accelerator="npu"),
    }
    for setting in delegates:
        plans[Path(setting.partition(":")[0]).name] = Plan(threads=threads, delegate=setting)
    return plans


def examine(
    target: Target,
    candidate: Candidate,
    graph: Graph,
    plans: dict[str, Plan],
    seconds: float = DEFAULT_SECONDS,
    progress: Progress = no_progress,
    cache: str = "",
) -> list[AcceleratorRow]:
    """A row for each plan, in the order given; with a folder for caches, also what they save at the start."""
    begin = time.monotonic()
    entries = [_Entry(name, replace(candidate, label=name, plan=plan)) for name, plan in plans.items()]
    inputs: list[list[bytes]] = []
    for number, entry in enumerate(entries):
        progress(0.3 * number / len(entries), f"checking {entry.name}")
        _check(target, entry, inputs)
        if cache and entry.failure is None:
            progress(0.3 * (number + 0.5) / len(entries), f"filling the cache of {entry.name}")
            folder = f"{cache}/{entry.name}-{candidate.model.sha256[:12]}"
            entry.cached_start_ms = _cached_start_ms(target, entry, folder)
    _race(target, entries, begin, seconds, progress)
    progress(1.0, "done")
    errors = _errors(graph, entries)
    if _chooses(graph):
        errors = {n: replace(e, judgement=RIGHT) if math.isfinite(e.worst) else e for n, e in errors.items()}
    base = next((entry for entry in entries if entry.name == _BASE and entry.track), None)
    return [_row(graph, entry, errors.get(entry.name), base) for entry in entries]


def _check(target: Target, entry: _Entry, inputs: list[list[bytes]]) -> None:
    """Load in a fresh process and run on the inputs; whoever loads first makes them."""
    try:
        with target.start(entry.candidate.plan) as runner:
            entry.load = runner.load(entry.candidate.path, entry.candidate.workload)
            if not inputs:
                inputs.extend(_make_inputs(entry.load.inputs))
            for one in inputs:
                raw = runner.evaluate(one)
                entry.outputs.append(
                    [_real_numbers(data, info) for data, info in zip(raw, entry.load.outputs, strict=True)]
                )
    except RunnerFailed as failed:
        entry.failure = failed.failure


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


def _make_inputs(tensors: Sequence[TensorInfo]) -> list[list[bytes]]:
    """Seeded inputs, the same for all: floats in 0..1, bytes over their range, indices and flags 0 or 1."""
    source = np.random.default_rng(0)
    return [[_input_bytes(tensor, source) for tensor in tensors] for _ in range(_INPUTS_CHECKED)]


def _input_bytes(tensor: TensorInfo, source: np.random.Generator) -> bytes:
    if tensor.dtype in ("float32", "float64", "float16"):
        return source.random(tensor.shape).astype(tensor.dtype).tobytes()
    if tensor.dtype in ("int8", "uint8"):
        return source.bytes(tensor.bytes)
    if tensor.dtype in ("int16", "int32", "int64", "bool", "uint16", "uint32", "uint64"):
        return source.integers(0, 2, tensor.shape).astype(tensor.dtype).tobytes()
    return bytes(tensor.bytes)


def _real_numbers(data: bytes | memoryview, info: TensorInfo) -> NDArray[np.float64]:
    """An output as numbers, stored units. Types that NumPy lacks are compared byte by byte."""
    try:
        dtype = np.dtype(info.dtype)
    except TypeError:
        dtype = np.dtype(np.uint8)
    values = np.frombuffer(data, dtype=dtype)
    return (np.abs(values) if values.dtype.kind == "c" else values).astype(np.float64)


def _race(target: Target, entries: list[_Entry], begin: float, seconds: float, progress: Progress) -> None:
    """Interleaved rounds for all that run; after the first, only for those still in the race."""
    runnable = [entry for entry in entries if entry.failure is None]
    rounds = Rounds(target, [entry.candidate for entry in runnable])
    longest = 0.0
    for number in range(_MOST_ROUNDS):
        elapsed = time.monotonic() - begin
        if not rounds.alive or (number and elapsed + longest > seconds):
            break
        names = ", ".join(track.candidate.label for track in rounds.alive)
        progress(min(0.3 + 0.7 * elapsed / seconds, 0.99), f"round {number + 1}: {names}")
        before = time.monotonic()
        rounds.run_one(_SECONDS_EACH)
        longest = max(longest, time.monotonic() - before)
        _retire_slow(rounds)
        if number + 1 >= FEWEST_ROUNDS and _decided(rounds):
            break
    for entry, track in zip(runnable, rounds.tracks, strict=True):
        entry.track = track
        entry.failure = None if track.rounds else track.failure


def _retire_slow(rounds: Rounds) -> None:
    """Take out what is surely slower than the CPU's own row, which stays: everything is compared with it."""
    base = next((track for track in rounds.tracks if track.candidate.label == _BASE and track.rounds), None)
    if base is None:
        return
    for track in rounds.alive:
        track.retired = track is not base and _median_ms(track) > _OUT_OF_THE_RACE * _median_ms(base)


def _decided(rounds: Rounds) -> bool:
    base = next((track for track in rounds.alive if track.candidate.label == _BASE), None)
    others = [track for track in rounds.alive if track is not base]
    return base is None or all(_comparison(base, track).verdict is not Verdict.UNDECIDED for track in others)


def _comparison(base: Track, other: Track) -> Comparison:
    """The other against the base, from the rounds that both were in."""
    pairs = zip(base.rounds, other.rounds, strict=False)
    return compare_rounds([log_ratio_of_round(first, second) for first, second in pairs])


def _median_ms(track: Track) -> float:
    return median(median(block.nanoseconds) for block in track.blocks) / 1e6


def _errors(graph: Graph, entries: list[_Entry]) -> dict[str, OutputError]:
    """Each entry's outputs against the reference kernels' (or the built-in ones', where the reference lacks one)."""
    by_name = {entry.name: entry for entry in entries if entry.outputs and entry.failure is None}
    truth = by_name.get(_REFERENCE) or by_name.get("builtin") or by_name.get(_BASE)
    if truth is None:
        return {}
    steps = [1.0 if t.quantization and t.dtype.startswith(("int", "uint")) else 0.0 for t in graph.outputs]
    steps = (steps + [0.0] * len(truth.outputs[0]))[: len(truth.outputs[0])]
    found = {}
    for name, entry in by_name.items():
        worst = [output_error(a, b, steps) for a, b in zip(truth.outputs, entry.outputs, strict=True) if _alike(a, b)]
        if len(worst) == len(truth.outputs):
            found[name] = worst_of(worst)
    return found


def _chooses(graph: Graph) -> bool:
    return any(node.op in _CHOOSING for node in graph.main.nodes)


def _alike(a: Sequence[NDArray[np.float64]], b: Sequence[NDArray[np.float64]]) -> bool:
    return [x.size for x in a] == [x.size for x in b]


def _row(graph: Graph, entry: _Entry, error: OutputError | None, base: _Entry | None) -> AcceleratorRow:
    plan = entry.candidate.plan
    if entry.failure is not None or entry.load is None:
        return _failed_row(entry)
    placed = replace(_placement(graph, plan, entry.load), cached_start_ms=entry.cached_start_ms)
    row = replace(
        placed, name=entry.name, error=error, init_ms=entry.load.init_ms, first_run_ms=entry.load.first_run_ms
    )
    result = entry.track.result() if entry.track else None
    if isinstance(result, Measurement):
        row = replace(
            row, latency=result.samples.latency, p95_ms=result.samples.p95_ms, init_ms=result.init_ms,
            first_run_ms=result.first_run_ms, peak_memory_mb=result.peak_memory_mb,
            processes=len(result.samples.block_medians_ms),
        )  # fmt: skip
    if base is not None and base.track is not None and entry.track is not None and entry is not base:
        row = _against(row, base.track, entry.track)
    row = replace(row, status=_status(row))
    return replace(row, why=_why(row, chooses=_chooses(graph)))


def _failed_row(entry: _Entry) -> AcceleratorRow:
    failure = entry.failure or Failure("load", "bug", "nothing was learned about it", "Please report this.")
    missing = (
        failure.kind == "accelerator" and failure.stage == "load" and "pip install" in failure.hint + failure.message
    )
    missing = missing or "apt-get install" in failure.hint or "there is no" in failure.message
    why = failure.message + (f" {failure.hint}" if failure.hint else "")
    return AcceleratorRow(entry.name, entry.candidate.plan, MISSING if missing else FAILED, why)


def _placement(graph: Graph, plan: Plan, load: LoadReport) -> AcceleratorRow:
    """How much of the model the plan's own back end runs."""
    total = len(graph.main.nodes)
    row = AcceleratorRow("", plan, RUNS, "", total_ops=total)
    on_cpu = plan.accelerator == "cpu" and not plan.delegate
    if on_cpu and plan.kernel != "delegate":
        return replace(row, placed_ops=total, partitions=1, placed_macs=1.0, placed_bytes=1.0)
    if load.placement is None:
        return row
    ours = load.placement.partitions if on_cpu else load.placement.on_accelerator
    left = len(load.placement.left) if on_cpu else load.placement.on_cpu
    row = replace(row, placed_ops=max(0, total - left), partitions=len(ours))
    if plan.accelerator == "npu" and not plan.delegate:
        # The vendor's compiler rewrote the graph: its nodes are not the file's, only their number can be told.
        return replace(row, placed_macs=1.0 if left == 0 else None, placed_bytes=1.0 if left == 0 else None)
    taken = {node for partition in ours for node in partition.nodes}
    refused = Counter(node.label for node in graph.main.nodes if node.index not in taken)
    return replace(
        row, refused=tuple(f"{op} x{count}" for op, count in refused.most_common()),
        placed_macs=_share(graph, taken, "macs"), placed_bytes=_share(graph, taken, "bytes_written"),
    )  # fmt: skip


def _share(graph: Graph, taken: set[int], what: str) -> float | None:
    shapes = stored_shapes(graph.main)
    costs = [getattr(count_cost(graph, graph.main, node, shapes), what) for node in graph.main.nodes]
    total = sum(cost or 0 for cost in costs)
    part = sum(cost or 0 for node, cost in zip(graph.main.nodes, costs, strict=True) if node.index in taken)
    return part / total if total else None


def _against(row: AcceleratorRow, base: Track, track: Track) -> AcceleratorRow:
    ours, theirs = track.result(), base.result()
    if isinstance(ours, Failure) or isinstance(theirs, Failure):
        return row
    runs = break_even_runs(
        ours.init_ms + ours.first_run_ms,
        ours.samples.median_ms,
        theirs.init_ms + theirs.first_run_ms,
        theirs.samples.median_ms,
    )
    return replace(row, against_cpu=_comparison(base, track), break_even_runs=runs)


def _status(row: AcceleratorRow) -> str:
    if row.error is not None and row.error.judgement != RIGHT:
        return row.error.judgement
    if row.placed_ops is not None and row.total_ops is not None and row.placed_ops < row.total_ops:
        return PARTIAL
    return RUNS


def _why(row: AcceleratorRow, *, chooses: bool) -> str:
    """One sentence that a person can act on."""
    parts = []
    if row.status == WRONG and row.error is not None:
        parts.append(f"its outputs are off by {row.error.typical:.0%} of their range: do not use it")
    elif row.status == IMPRECISE and row.error is not None:
        parts.append(
            f"some outputs are off by {row.error.worst:.0%} of their range: test its accuracy before you use it"
        )
    elif row.error is not None and chooses and row.error.worst > _LARGE_ERROR:
        parts.append("its outputs are choices that random inputs tip over, so their error says little")
    if row.refused:
        elsewhere = "the engine's own kernels" if row.name == _BASE else "the CPU"
        parts.append(f"left to {elsewhere}: {', '.join(row.refused[:4])}")
    if row.against_cpu is not None:
        parts.append(_speed(row.against_cpu, row.break_even_runs))
    if row.cached_start_ms is not None and row.init_ms is not None and row.first_run_ms is not None:
        start = row.init_ms + row.first_run_ms
        parts.append(f"starts in {milliseconds(start)}, with its cache in {milliseconds(row.cached_start_ms)}")
    return "; ".join(parts)


def _speed(against: Comparison, repaid_after: int | None) -> str:
    if against.rounds < FEWEST_ROUNDS and against.ratio > _OUT_OF_THE_RACE:
        return f"takes {against.ratio:.1f} times as long as XNNPACK"
    if against.rounds < FEWEST_ROUNDS:
        return f"about {against.ratio:.2f} times XNNPACK's time, not sure yet: give it more --seconds"
    if against.verdict is Verdict.FASTER:
        repaid = "from the first run on" if not repaid_after else f"once {repaid_after} runs have repaid its start"
        return f"{1 / against.ratio:.2f} times as fast as XNNPACK, {repaid}"
    if against.verdict is Verdict.SLOWER:
        return f"takes {against.ratio:.2f} times as long as XNNPACK"
    return "as fast as XNNPACK" if against.verdict is Verdict.SAME else "too close to XNNPACK to call"


def recommend(rows: Sequence[AcceleratorRow]) -> tuple[str, str]:
    """The accelerator to use and why, in a sentence. XNNPACK stays unless another is right and surely faster."""
    faster = [
        row for row in rows
        if row.status in (RUNS, PARTIAL) and row.against_cpu is not None and row.latency is not None
        and row.against_cpu.verdict is Verdict.FASTER
    ]  # fmt: skip
    if not faster:
        tried = [row.name for row in rows if row.latency is not None and row.name != _BASE]
        beaten = f" (against {', '.join(tried)})" if tried else ""
        return _BASE, f"stay with XNNPACK on the CPU; nothing that runs here is surely faster{beaten}."
    best = min(faster, key=lambda row: row.latency.estimate if row.latency else 0.0)
    assert best.against_cpu is not None
    return best.name, f"use {best.name}: {_speed(best.against_cpu, best.break_even_runs)}."
