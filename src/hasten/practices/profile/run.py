"""The guide's "Profile your model": each operator's time, mapped to the graph, with its cost and what could be won."""

from __future__ import annotations

from dataclasses import replace
from statistics import fmean, median
from typing import TYPE_CHECKING, Final

from hasten.core import doubts as doubt_codes
from hasten.core.failure import Failure
from hasten.core.profile import OperatorTime, Peaks, Profile
from hasten.core.remark import Remark, said
from hasten.measure.profiling import RawProfile, collect_profile
from hasten.model.cost import count_cost
from hasten.practices.profile.mapping import Timed, is_own, map_events, map_rewritten

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from hasten.core.plan import Workload
    from hasten.core.samples import Samples
    from hasten.measure.rounds import Candidate, Progress
    from hasten.model.graph import Graph, Node, Shape, Subgraph
    from hasten.targets.base import Target
    from hasten.targets.client import ProfiledRun

# XNNPACK cuts its nanoseconds to whole microseconds, which on average takes away half of one from each kernel that ran
# for at least one.
_CUT_OFF_US: Final = 0.5
_EIGHT_BIT: Final = ("int8", "uint8")
_LOW_COVERAGE: Final = 0.95
_DEAR_PROFILING: Final = 0.10
_SHORTEST_MS: Final = 0.001


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
    quiet = _quiet_runs(raw.runs)
    calls_others = any(node.called_subgraphs for node in subgraph.nodes)
    # In loops the profiler itself takes most of the time, and hides which runs were disturbed.
    middle = median if calls_others else fmean
    events = _middle_events(quiet, subgraph.index, middle)
    plain_ms = _quick_half_ms(raw.plain)
    profiler_ms = 0.0
    shapes = _settled_shapes(graph, subgraph, candidate.workload)
    if candidate.plan.accelerator == "npu" and not candidate.plan.delegate:
        operators, partitions = map_rewritten(events)
    else:
        bounded = _bounded_calls(events, subgraph, plain_ms)
        profiler_ms = sum(timed.ms for timed in events) - sum(timed.ms for timed in bounded)
        operators, partitions = map_events(subgraph, bounded, raw.load.placement)
    invoke_ms = middle([_invoke_us(run) for run in quiet]) / 1e3 - profiler_ms
    known = [_with_cost(operator, graph, subgraph, shapes, peaks, invoke_ms) for operator in operators]
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
    return replace(profile, doubts=tuple(_doubts(profile, callers)))


def _subgraph(graph: Graph, workload: Workload) -> Subgraph:
    signature = graph.signature(workload.signature or None)
    return graph.subgraphs[signature.subgraph] if signature else graph.main


def _quiet_runs(runs: Sequence[ProfiledRun]) -> list[ProfiledRun]:
    """The faster half, among runs that saw the same events: means add up, and what disturbed the rest is left out."""
    kinds: dict[tuple[tuple[str, int, int], ...], list[ProfiledRun]] = {}
    for run in runs:
        seen = tuple((event.kind, event.subgraph, event.index) for event in run.events)
        kinds.setdefault(seen, []).append(run)
    most = max(kinds.values(), key=lambda alike: len(alike))
    alike = sorted(most, key=lambda run: run.total_us)
    return alike[: max(1, (len(alike) + 1) // 2)]


def _quick_half_ms(samples: Samples) -> float:
    times = sorted(samples.milliseconds)
    return float(fmean(times[: (len(times) + 1) // 2]))


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
    operator: OperatorTime,
    graph: Graph,
    subgraph: Subgraph,
    shapes: Mapping[int, Shape],
    peaks: Peaks | None,
    invoke_ms: float,
) -> OperatorTime:
    """The operator with its share, its cost, and what the machine's peaks say about it."""
    share = operator.ms / invoke_ms if invoke_ms else 0.0
    if operator.index < 0:
        return replace(operator, share=share)
    node = subgraph.nodes[operator.index]
    cost = count_cost(graph, subgraph, node, shapes)
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


def _is_eight_bit(subgraph: Subgraph, node: Node) -> bool:
    first = next((subgraph.tensors[index] for index in node.inputs if index >= 0), None)
    return first is not None and first.dtype in _EIGHT_BIT


def _doubts(profile: Profile, callers: Collection[str]) -> list[Remark]:
    doubts = []
    if profile.seen < _LOW_COVERAGE:
        doubts.append(
            said(f"the operators add up to {profile.seen:.0%} of the run; {_rest(profile)}", doubt_codes.UNSEEN)
        )
    if profile.profiling_cost > _DEAR_PROFILING:
        evidence = f"profiling makes the run {profile.profiling_cost:.0%} longer"
        if profile.profiler_ms > _DEAR_PROFILING * profile.plain_ms:
            names = " and ".join(sorted(callers))
            evidence += f", mostly inside {names}, given here as what other operators leave of a run without it"
        doubts.append(said(evidence, doubt_codes.PROFILING))
    return doubts


def _rest(profile: Profile) -> str:
    """Where the time is that no operator has."""
    if any(operator.index < 0 and not operator.events for operator in profile.operators):
        return "a delegate does not report what it takes"
    short = sum(1 for operator in profile.operators if operator.ms < _SHORTEST_MS)
    if short:
        return f"{short} of {len(profile.operators)} take less than the microsecond that the profiler can tell"
    return "the rest is the engine's own work around them"
