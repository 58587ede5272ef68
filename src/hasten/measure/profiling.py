"""A profile: profiled runs in alternation with plain ones, mapped to the graph, with each operator's cost and headroom.

Profiled and plain runs alternate so that the cost of profiling itself can be seen. Every figure comes from undisturbed
runs, and the operators' times from the same runs as the time of a whole one: they add up.
"""

from __future__ import annotations

import contextlib
from array import array
from dataclasses import dataclass, field, replace
from statistics import fmean, median
from typing import TYPE_CHECKING, Any, Final

from hasten.core import doubts
from hasten.core.block import Block
from hasten.core.failure import Failure, RunnerFailed
from hasten.core.profile import OperatorTime, Peaks, Profile
from hasten.core.remark import Remark, remark
from hasten.core.samples import Samples
from hasten.measure.profile_mapping import Timed, is_own, map_events, map_rewritten
from hasten.measure.rounds import BLOCK_SECONDS, MOST_RUNS_A_BLOCK, Candidate, Progress, no_progress
from hasten.measure.schedule import Schedule
from hasten.measure.warmup import warm_up
from hasten.model.cost import count_cost
from hasten.targets.base import with_connection

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from hasten.core.block import ProfiledRun
    from hasten.core.plan import Workload
    from hasten.measure.schedule import Clock
    from hasten.model.graph import Graph, Node, Shape, Subgraph
    from hasten.targets.base import Target
    from hasten.targets.client import LoadReport

DEFAULT_SECONDS: Final = 4.0
_MOST_RUNS_A_TURN: Final = 20
_MOST_RUNS: Final = 1000
# XNNPACK cuts its nanoseconds to whole microseconds, which on average takes away half of one from each kernel that ran
# for at least one.
_CUT_OFF_US: Final = 0.5
_EIGHT_BIT: Final = ("int8", "uint8")
_LOW_COVERAGE: Final = 0.95
_DEAR_PROFILING: Final = 0.10
_SHORTEST_MS: Final = 0.001
_MATTERS: Final = 0.05
# What a profile shares with the latency that was measured in between. That one's own noise is no matter of operators.
_SURROUNDINGS: Final = (
    doubts.FEW_SAMPLES,
    doubts.COARSE_TIMER,
    doubts.OTHER_LOAD,
    doubts.STOLEN_TIME,
    doubts.SLOWED_CORES,
    doubts.FREQUENCY_CHANGE,
    doubts.THROTTLING,
    doubts.HELD_BACK,
)


@dataclass(frozen=True, slots=True)
class RawProfile:
    """Profiled runs as the engine reported them, and plain samples taken in between."""

    runs: tuple[ProfiledRun, ...]
    plain: Samples
    load: LoadReport


@dataclass(slots=True)
class Recording:
    """Profiled and plain runs of a candidate in turns; what there is so far can be had at any time."""

    target: Target
    candidate: Candidate
    _runs: list[ProfiledRun] = field(default_factory=list)
    _blocks: list[Block] = field(default_factory=list)
    _load: LoadReport | None = None
    _timer_ns: int = 0

    @property
    def raw(self) -> RawProfile | None:
        """What was recorded; None before the first turn has ended."""
        if self._load is None or not self._runs:
            return None
        return RawProfile(tuple(self._runs), Samples(tuple(self._blocks), self._timer_ns), self._load)

    def run(self, seconds: float, progress: Progress = no_progress, clock: Clock | None = None) -> None:
        """Record for about this long, one turn at least."""
        candidate = self.candidate
        with contextlib.ExitStack() as stack:
            progress(0.0, "loading")
            plain = stack.enter_context(self.target.start(candidate.plan))
            profiled = stack.enter_context(self.target.start(candidate.plan))
            self._timer_ns = self.target.machine().timer_ns
            self._load = plain.load(candidate.path, candidate.workload)
            profiled.load(candidate.path, candidate.workload, profiling=True)
            warm_up(plain)
            profiled.profile(2)  # the first ones are cold
            schedule = Schedule(seconds, clock=clock)
            while schedule.has_round() and len(self._runs) < _MOST_RUNS:
                with schedule.round():
                    block = plain.block(BLOCK_SECONDS, MOST_RUNS_A_BLOCK, lead=1)
                    in_a_turn = max(1, min(_MOST_RUNS_A_TURN, len(block.nanoseconds)))
                    runs = profiled.profile(in_a_turn + 1)[1:]
                    self._blocks.append(block)
                    self._runs.extend(runs)
                progress(schedule.share, f"{len(self._runs)} profiled runs")


def collect_profile(
    target: Target, candidate: Candidate, seconds: float = DEFAULT_SECONDS, progress: Progress = no_progress
) -> RawProfile | Failure:
    """Profile one candidate for about this long."""

    def record() -> RawProfile:
        recording = Recording(target, candidate)
        recording.run(seconds, progress)
        assert recording.raw is not None, "a recording has one turn at least"
        return recording.raw

    try:
        return with_connection(record)
    except RunnerFailed as failed:
        return failed.failure


def profile_model(
    target: Target, candidate: Candidate, graph: Graph, seconds: float, peaks: Peaks | None, progress: Progress
) -> tuple[Profile, RawProfile] | Failure:
    """Profile a candidate and map the result to its graph; the runs themselves come along for a timeline."""
    raw = collect_profile(target, candidate, seconds, progress)
    if isinstance(raw, Failure):
        return raw
    return build_profile(candidate, graph, raw, peaks), raw


def build_profile(candidate: Candidate, graph: Graph, raw: RawProfile, peaks: Peaks | None) -> Profile:
    """The profile from what the engine reported. Pure: the same input gives the same profile."""
    subgraph = _subgraph(graph, candidate.workload)
    calls_others = any(node.called_subgraphs for node in subgraph.nodes)
    # In loops the profiler itself takes most of the time, and hides which runs were disturbed.
    quiet, middle = (_quicker_half(raw.runs), median) if calls_others else (_undisturbed(raw.runs), fmean)
    events = _middle_events(quiet, subgraph.index, middle)
    plain_ms = _undisturbed_mean_ms(raw.plain)
    profiler_ms = 0.0
    shapes = _settled_shapes(graph, subgraph, candidate.workload)
    if candidate.plan.accelerator == "npu" and not candidate.plan.delegate:
        operators, partitions = map_rewritten(events)
    else:
        bounded = _bounded_calls(events, subgraph, plain_ms)
        profiler_ms = sum(timed.ms for timed in events) - sum(timed.ms for timed in bounded)
        operators, partitions = map_events(subgraph, bounded, raw.load.placement)
    invoke_ms = middle([_invoke_us(run) for run in quiet]) / 1e3 - profiler_ms
    if peaks is not None:
        rates = [_with_cost(operator, subgraph, shapes, None, invoke_ms) for operator in operators]
        peaks = _no_lower_than(peaks, rates, subgraph)
    known = [_with_cost(operator, subgraph, shapes, peaks, invoke_ms) for operator in operators]
    profile = Profile(
        model=candidate.model,
        plan=candidate.plan,
        latency_ms=raw.plain.median_ms,
        plain_ms=plain_ms,
        profiled_ms=median(run.total_us for run in raw.runs) / 1e3,
        invoke_ms=invoke_ms,
        coverage=sum(operator.ms for operator in known) / invoke_ms if invoke_ms else 0.0,
        runs=len(raw.runs),
        operators=tuple(known),
        partitions=tuple(partitions),
        peaks=peaks,
        profiler_ms=profiler_ms,
    )
    callers = {node.label for node in subgraph.nodes if node.called_subgraphs}
    profile = replace(profile, doubts=(*candidate.doubts, *_surroundings(raw)))
    return replace(profile, doubts=(*profile.doubts, *_doubts(profile, callers)))


def _subgraph(graph: Graph, workload: Workload) -> Subgraph:
    signature = graph.signature(workload.signature or None)
    return graph.subgraphs[signature.subgraph] if signature else graph.main


def _alike(runs: Sequence[ProfiledRun]) -> list[ProfiledRun]:
    """Runs that saw the same events, the most frequent ones, so that an event is the same in each."""
    kinds: dict[tuple[tuple[str, int, int], ...], list[ProfiledRun]] = {}
    for run in runs:
        seen = tuple((event.kind, event.subgraph, event.index) for event in run.events)
        kinds.setdefault(seen, []).append(run)
    return max(kinds.values(), key=len)


def _undisturbed(runs: Sequence[ProfiledRun]) -> list[ProfiledRun]:
    """Those that nothing disturbed: means of them add up."""
    alike = _alike(runs)
    limit_us = _whole_runs(alike).undisturbed_below_ms * 1e3
    return [run for run in alike if run.total_us <= limit_us]


def _quicker_half(runs: Sequence[ProfiledRun]) -> list[ProfiledRun]:
    alike = sorted(_alike(runs), key=lambda run: run.total_us)
    return alike[: max(1, (len(alike) + 1) // 2)]


def _whole_runs(runs: Sequence[ProfiledRun]) -> Samples:
    """Profiled runs as samples, which know of disturbed ones."""
    return Samples((Block(0, 0.0, array("q", (round(run.total_us * 1e3) for run in runs))),))


def _undisturbed_mean_ms(samples: Samples) -> float:
    return float(fmean(samples.milliseconds[samples.milliseconds <= samples.undisturbed_below_ms]))


def _surroundings(raw: RawProfile) -> list[Remark]:
    """What else happened on the machine, and whether it disturbed the profiled runs."""
    disturbed = next((it for it in _whole_runs(raw.runs).doubts() if it.code == doubts.DISTURBED), None)
    seen = [doubt for doubt in raw.plain.doubts() if doubt.code in _SURROUNDINGS]
    return seen if disturbed is None else [*seen, remark(doubts.DISTURBED, **disturbed.facts, profiled=True)]


def _invoke_us(run: ProfiledRun) -> float:
    return next((event.elapsed_us for event in run.events if event.kind == "invoke"), run.total_us)


def _middle_events(runs: Sequence[ProfiledRun], subgraph: int, middle: Callable[[list[float]], float]) -> list[Timed]:
    """Each event of a run with its usual time. Events of other subgraphs lie inside an operator of this one."""
    found = []
    for position, same in enumerate(zip(*(run.events for run in runs), strict=True)):
        event = same[0]
        if event.kind == "invoke" or event.subgraph != subgraph:
            continue
        cut_off = _CUT_OFF_US if event.kind == "kernel" else 0.0
        usual_us = middle([e.elapsed_us + (cut_off if e.elapsed_us else 0.0) for e in same])
        found.append(Timed(position, event, usual_us / 1e3))
    return found


def _bounded_calls(events: Sequence[Timed], subgraph: Subgraph, plain_ms: float) -> Sequence[Timed]:
    """The events, in which operators that run other graphs take no more than the others leave of a plain run.

    The profiler takes some 20 µs at each start of such a graph, which can be many times the graph's own time.
    """
    calls = {timed.position for timed in events if is_own(timed, subgraph) and _calls(subgraph, timed)}
    seen_ms = sum(timed.ms for timed in events if timed.position in calls)
    left_ms = max(0.0, plain_ms - sum(timed.ms for timed in events if timed.position not in calls))
    if not plain_ms or seen_ms <= left_ms:
        return events
    return [replace(timed, ms=timed.ms * left_ms / seen_ms) if timed.position in calls else timed for timed in events]


def _calls(subgraph: Subgraph, timed: Timed) -> bool:
    return bool(subgraph.nodes[timed.event.index].called_subgraphs)


def _settled_shapes(graph: Graph, subgraph: Subgraph, workload: Workload) -> dict[int, Shape]:
    """Shapes of tensors whose file leaves a dimension open. The stored ones hold unless an input was resized."""
    asked = dict(workload.shapes)
    if any(asked.get(tensor.name) not in (None, tensor.shape) for tensor in graph.inputs):
        return {}  # only the engine knows the inner shapes then, and it does not tell
    return {tensor.index: tensor.shape for tensor in subgraph.tensors if tensor.is_dynamic and -1 not in tensor.shape}


def _with_cost(
    operator: OperatorTime, subgraph: Subgraph, shapes: Mapping[int, Shape], peaks: Peaks | None, invoke_ms: float
) -> OperatorTime:
    """The operator with its share, its cost, and what the machine's peaks say about it."""
    share = operator.ms / invoke_ms if invoke_ms else 0.0
    if operator.index < 0:
        return replace(operator, share=share)
    node = subgraph.nodes[operator.index]
    cost = count_cost(subgraph, node, shapes)
    moved = None if cost.bytes_read is None or cost.bytes_written is None else cost.bytes_read + cost.bytes_written
    known = replace(operator, share=share, macs=cost.macs, flops=cost.flops, bytes=moved)
    if cost.flops is None or moved is None or operator.ms <= 0:
        return known
    known = replace(known, gflops=cost.flops / operator.ms / 1e6)
    if peaks is None:
        return known
    peak = peaks.int8_gops if _is_eight_bit(subgraph, node) else peaks.float_gflops
    compute_ms, memory_ms = cost.flops / peak / 1e6, moved / peaks.gbs_for(moved) / 1e6
    bound = "compute" if compute_ms >= memory_ms else "memory"
    return replace(known, bound=bound, headroom_ms=max(0.0, operator.ms - max(compute_ms, memory_ms)))


def _no_lower_than(peaks: Peaks, operators: Sequence[OperatorTime], subgraph: Subgraph) -> Peaks:
    """The peaks, raised to what an operator that matters has reached here: measured beside other programs, they are too
    low, and would leave no operator any headroom."""
    seen = {True: peaks.int8_gops, False: peaks.float_gflops}
    for operator in operators:
        if operator.gflops is not None and operator.macs and operator.share >= _MATTERS:
            eight_bit = _is_eight_bit(subgraph, subgraph.nodes[operator.index])
            seen[eight_bit] = max(seen[eight_bit], operator.gflops)
    return replace(peaks, int8_gops=seen[True], float_gflops=seen[False])


def _is_eight_bit(subgraph: Subgraph, node: Node) -> bool:
    first = next((subgraph.tensors[index] for index in node.inputs if index >= 0), None)
    return first is not None and first.dtype in _EIGHT_BIT


def _doubts(profile: Profile, callers: Collection[str]) -> list[Remark]:
    found = []
    if profile.seen < _LOW_COVERAGE:
        found.append(remark(doubts.UNSEEN, seen=profile.seen, **_rest(profile)))
    if profile.profiling_cost > _DEAR_PROFILING:
        mostly = profile.profiler_ms > _DEAR_PROFILING * profile.plain_ms
        inside = sorted(callers) if mostly else []
        told = {"cost": profile.profiling_cost, "inside": inside}
        disturbed = not inside and any(doubt.code == doubts.DISTURBED for doubt in profile.doubts)
        found.append(remark(doubts.PROFILING, **told, **({"disturbed": True} if disturbed else {})))
    return found


def _rest(profile: Profile) -> dict[str, Any]:
    """Where the time is that no operator has."""
    if any(operator.index < 0 and not operator.events for operator in profile.operators):
        return {"rest": "delegate"}
    short = sum(1 for operator in profile.operators if operator.ms < _SHORTEST_MS)
    return {"rest": "short", "short": short, "operators": len(profile.operators)} if short else {"rest": "engine"}
