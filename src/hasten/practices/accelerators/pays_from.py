"""The size below which delegating does not pay: small networks of growing size, on XNNPACK and on each accelerator."""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hasten.core.failure import Failure
from hasten.core.measurement import Model
from hasten.core.units import count
from hasten.measure.race import comparison
from hasten.measure.rounds import Candidate, Progress, Rounds, Track, no_progress
from hasten.model.cost import total_cost
from hasten.model.example_models import mobilenet_like
from hasten.model.reader import read_graph
from hasten.practices.accelerators.break_even import LadderPoint, Pays
from hasten.practices.accelerators.race import BASE, race

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hasten.core.plan import Plan
    from hasten.targets.base import Target

DEFAULT_SECONDS: Final = 60.0
# Width, blocks and image size: about 0.5, 4, 31 and 203 million multiply-accumulates, 7 times more from step to step.
_STEPS: Final = ((5, 3, 32), (8, 3, 64), (16, 3, 96), (32, 3, 128))


@dataclass(slots=True)
class _Ladder:
    plan: Plan
    points: list[LadderPoint] = field(default_factory=list)
    trouble: str = ""


def pays_from(
    target: Target,
    base: Plan,
    plans: Mapping[str, Plan],
    seconds: float = DEFAULT_SECONDS,
    progress: Progress = no_progress,
) -> dict[str, Pays]:
    """From which size on each of the plans is faster than the base, within about so many seconds."""
    begin = time.monotonic()
    ladders = {name: _Ladder(plan) for name, plan in plans.items()}
    with tempfile.TemporaryDirectory(prefix="hasten-") as folder:
        for number, step in enumerate(_STEPS):
            path = Path(folder) / f"step{number}.tflite"
            path.write_bytes(mobilenet_like(*step))
            graph = read_graph(path)
            macs = total_cost(graph).macs
            model = Model(f"mobilenet_like of {count(macs)} MACs", graph.size_bytes, graph.sha256)
            climbing = {name: ladder for name, ladder in ladders.items() if not ladder.trouble}
            wanted = {BASE: base, **{name: ladder.plan for name, ladder in climbing.items()}}
            candidates = [Candidate(name, path, model, plan) for name, plan in wanted.items()] if climbing else []

            def tell(state: str, number: int = number, macs: int = macs) -> None:
                progress(number / len(_STEPS), f"{count(macs)} MACs, {state}")

            rounds = Rounds(target, candidates)
            race(rounds, begin + seconds * (number + 1) / len(_STEPS), tell)
            for track in rounds.tracks[1:]:
                _climb(climbing[track.candidate.label], macs, rounds.tracks[0], track)
    progress(1.0, "done")
    return {name: Pays(tuple(ladder.points), ladder.trouble) for name, ladder in ladders.items()}


def _climb(ladder: _Ladder, macs: int, base: Track, track: Track) -> None:
    ours, theirs = track.result(), base.result()
    failure = ours if isinstance(ours, Failure) else theirs if isinstance(theirs, Failure) else None
    if failure is not None:
        ladder.trouble = f"at {count(macs)} MACs: {failure.message}"
    elif not isinstance(ours, Failure) and not isinstance(theirs, Failure):
        against = comparison(base, track)
        ladder.points.append(LadderPoint(macs, theirs.samples.latency, ours.samples.latency, against))
