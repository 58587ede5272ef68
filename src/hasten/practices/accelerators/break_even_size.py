"""The size below which delegating does not pay: small networks of growing size, on XNNPACK (as planned and with all
cores) and on each accelerator."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hasten.core.failure import Failure
from hasten.core.measurement import Model
from hasten.core.remark import Remark, remark
from hasten.core.units import count
from hasten.measure.race import comparison, faster_of, result_beside, run_race
from hasten.measure.rounds import Candidate, Rounds, Track
from hasten.measure.schedule import Schedule, now
from hasten.model.cost import total_macs
from hasten.model.example_models import mobilenet_like
from hasten.model.reader import read_graph
from hasten.practices.accelerators.facts import AcceleratorRow, LadderPoint, has_more_threads
from hasten.practices.accelerators.rules import pays_from

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hasten.core.plan import Plan
    from hasten.measure.effort import Effort

SECONDS: Final = 60.0
# Width, blocks and image size: about 0.5, 4, 31 and 203 million multiply-accumulates, 7 times more from step to step.
_STEPS: Final = ((5, 3, 32), (8, 3, 64), (16, 3, 96), (32, 3, 128))


@dataclass(slots=True)
class Ladder:
    """The measured points of one accelerator, and what ended them early."""

    plan: Plan
    points: list[LadderPoint] = field(default_factory=list)
    trouble: Remark | None = None


def with_ladders(rows: Sequence[AcceleratorRow], effort: Effort) -> tuple[AcceleratorRow, ...]:
    """The rows, each that runs off the CPU with the size of a network from which on it is faster there."""
    plans = {row.name: row.plan for row in rows if row.latency is not None and not row.plan.runs_on_cpu}
    if not plans:
        return tuple(rows)
    base = replace(rows[0].plan, accelerator="cpu", delegate="", kernel="delegate", options=())
    more_threads = [row.plan for row in rows if row.latency is not None and has_more_threads(row.plan, base)]
    found = climb([base, *more_threads], plans, effort)
    return tuple(_with_ladder(row, found[row.name]) if row.name in found else row for row in rows)


def _with_ladder(row: AcceleratorRow, ladder: Ladder) -> AcceleratorRow:
    points = tuple(ladder.points)
    return replace(row, ladder=points, ladder_trouble=ladder.trouble, pays_from_macs=pays_from(points))


def climb(bases: Sequence[Plan], plans: Mapping[str, Plan], effort: Effort) -> dict[str, Ladder]:
    """Networks from small to large on each of the plans, until one fails, against the faster of one or two bases."""
    whole = Schedule(effort.seconds_or(SECONDS))
    ladders = {name: Ladder(plan) for name, plan in plans.items()}
    with tempfile.TemporaryDirectory(prefix="hasten-") as folder:
        for number, step in enumerate(_STEPS):
            path = Path(folder) / f"step{number}.tflite"
            path.write_bytes(mobilenet_like(*step))
            climbing = {name: ladder for name, ladder in ladders.items() if ladder.trouble is None}
            if climbing:
                share = number / len(_STEPS)
                left_s = whole.seconds * (number + 1) / len(_STEPS) - whole.elapsed_s
                _step(path, bases, climbing, left_s, share, effort)
    effort.progress(1.0, "done")
    return ladders


def _step(
    path: Path, bases: Sequence[Plan], climbing: Mapping[str, Ladder], left_s: float, share: float, effort: Effort
) -> None:
    graph = read_graph(path)
    macs = total_macs(graph)
    model = Model(f"mobilenet_like of {count(macs)} MACs", graph.size_bytes, graph.sha256)
    plans = {**{plan.describe(): plan for plan in bases}, **{name: ladder.plan for name, ladder in climbing.items()}}
    rounds = Rounds(effort.target, [Candidate(name, path, model, plan) for name, plan in plans.items()])

    def tell(state: str) -> None:
        effort.progress(share, f"{count(macs)} MACs, {state}")

    first, second = rounds.tracks[0], rounds.tracks[1] if len(bases) > 1 else None
    run_race(rounds, now() + left_s, base=lambda _: first, second_base=lambda _: second, fewest=1, tell=tell)
    faster = faster_of(first, second)
    for track in rounds.tracks[len(bases) :]:
        _add_point(climbing[track.candidate.label], macs, faster, track)


def _add_point(ladder: Ladder, macs: int, base: Track, track: Track) -> None:
    ours, theirs = result_beside(base, track), base.result()
    failure = ours if isinstance(ours, Failure) else theirs if isinstance(theirs, Failure) else None
    if failure is not None:
        ladder.trouble = remark("accelerators.ladder-failed", macs=macs, message=failure.message)
    elif not isinstance(ours, Failure) and not isinstance(theirs, Failure):
        against = comparison(base, track)
        assert against is not None, "both were measured"
        ladder.points.append(LadderPoint(macs, theirs.samples.latency, ours.samples.latency, against))
