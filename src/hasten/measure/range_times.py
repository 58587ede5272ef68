"""Where time goes in a run that the engine does not look into: ranges of nodes, cut out and timed on the same plan.

A part alone has other borders than inside the whole, so its time is an estimate: of each pair of halves only the
proportion is taken, and shared out from the time of the whole. Halves that matter are halved again.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hasten.core.codec import record
from hasten.core.errors import ModelError, UsageError
from hasten.core.failure import Failure
from hasten.core.measurement import Model
from hasten.measure.rounds import Rounds
from hasten.measure.schedule import Schedule
from hasten.model.edit.cut import cut_out
from hasten.model.reader import read_graph

if TYPE_CHECKING:
    from hasten.measure.rounds import Candidate, Progress
    from hasten.model.graph import Graph
    from hasten.targets.base import Target

# A range with less of the run than this is not worth another look.
_MATTERS: Final = 0.08
_ROUNDS: Final = 2
_SECONDS_EACH: Final = 0.15


@record
class RangeTime:
    """Nodes `first` to `last` in execution order, and the time that they are estimated to take in a run."""

    first: int
    last: int
    ms: float
    share: float
    operators: tuple[str, ...]
    """Their kinds, most of them first, as `12 CONV_2D`."""


@dataclass(frozen=True, slots=True)
class _Halver:
    """Times halves of ranges of one model on one plan."""

    target: Target
    candidate: Candidate
    folder: Path

    def shares(self, first: int, middle: int, last: int) -> tuple[float, float] | None:
        """Which part of a range's time each half takes; None where a half cannot be cut out or does not run."""
        parts = [self._part(*ends) for ends in ((first, middle), (middle + 1, last))]
        if any(part is None for part in parts):
            return None
        rounds = Rounds(self.target, [part for part in parts if part is not None])
        for _ in range(_ROUNDS):
            rounds.run_one(_SECONDS_EACH)
        found = [track.result() for track in rounds.tracks]
        times = [one.samples.median_ms for one in found if not isinstance(one, Failure)]
        if len(times) < 2 or not sum(times):
            return None
        return times[0] / sum(times), times[1] / sum(times)

    def _part(self, first: int, last: int) -> Candidate | None:
        path = self.folder / f"{first}-{last}.tflite"
        try:
            cut_out(self.candidate.path, first, last).write(path)
            graph = read_graph(path)
        except (ModelError, UsageError):
            return None
        told = Model(str(path), graph.size_bytes, graph.sha256)
        workload = replace(self.candidate.workload, signature="", shapes=())
        return replace(self.candidate, label=path.stem, path=path, model=told, workload=workload)


def range_times(
    target: Target, candidate: Candidate, graph: Graph, run_ms: float, seconds: float, progress: Progress
) -> tuple[RangeTime, ...]:
    """The ranges of nodes that matter, as far as they could be told apart in about that time; they add up to a run.

    Only for the main graph as the file declares it: parts of others cannot be cut out.
    """
    count = len(graph.main.nodes)
    signature = graph.signature(candidate.workload.signature or None)
    if count < 2 or candidate.workload.shapes or (signature is not None and signature.subgraph != 0):
        return ()
    ranges: dict[tuple[int, int], float] = {(0, count - 1): run_ms}
    settled: set[tuple[int, int]] = set()
    schedule = Schedule(seconds)
    with tempfile.TemporaryDirectory(prefix="hasten-") as folder:
        halver = _Halver(target, candidate, Path(folder))
        while schedule.has_round():
            waiting = {ends: ms for ends, ms in ranges.items() if ends not in settled and ends[0] < ends[1]}
            ends = max(waiting, key=lambda it: waiting[it], default=None)
            if ends is None or ranges[ends] < _MATTERS * run_ms:
                break
            progress(schedule.share, f"nodes {ends[0]} to {ends[1]}")
            middle = (ends[0] + ends[1]) // 2
            with schedule.round():
                shares = halver.shares(ends[0], middle, ends[1])
            if shares is None:
                settled.add(ends)
                continue
            ms = ranges.pop(ends)
            ranges[ends[0], middle], ranges[middle + 1, ends[1]] = ms * shares[0], ms * shares[1]
    return tuple(_told(graph, *ends, ms, run_ms) for ends, ms in sorted(ranges.items()))


def _told(graph: Graph, first: int, last: int, ms: float, run_ms: float) -> RangeTime:
    kinds: dict[str, int] = {}
    for node in graph.main.nodes[first : last + 1]:
        kinds[node.label] = kinds.get(node.label, 0) + 1
    ordered = sorted(kinds.items(), key=lambda kind: -kind[1])
    told = tuple(f"{count} {op}" if count > 1 else op for op, count in ordered)
    return RangeTime(first, last, ms, ms / run_ms if run_ms else 0.0, told)
