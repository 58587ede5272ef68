"""The rounds of the loop around the model, over time: a slow start and slow rounds are to be seen."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Final

import numpy as np

from hasten.practices.app.facts import Frames, ModelUse

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hasten.practices.app.watched.recording import Process

_SLOWEST: Final = 3
_MOST_POINTS: Final = 400


def frames_of(process: Process, thread: int, began_ns: int) -> Frames | None:
    """The rounds of the thread that runs the model; None if it never did."""
    runs = process.events.where(process.events.is_run & (process.events.thread == thread))
    if not len(runs):
        return None
    ends = (runs.end - began_ns) / 1e6
    lengths = np.diff(ends, prepend=(runs.start[0] - began_ns) / 1e6)
    inference = runs.ms
    order = np.argsort(-lengths[1:], kind="stable")[:_SLOWEST] + 1
    later = lengths[1:] if len(lengths) > 1 else lengths
    return Frames(
        count=len(runs),
        median_ms=float(np.median(later)),
        p95_ms=float(np.quantile(later, 0.95)),
        first_ms=float(lengths[0]),
        first_at_ms=float(ends[0]),
        slowest=tuple((int(i), float(ends[i]), float(lengths[i]), float(inference[i])) for i in order),
        course=tuple((float(ends[i]), float(lengths[i]), float(inference[i])) for i in _shown(lengths)),
    )


def model_uses(processes: list[Process]) -> list[ModelUse]:
    """The models that the program used, the one with most time first."""
    groups: dict[tuple[str, str, int | None], list[tuple[Process, int]]] = {}
    for process in processes:
        used = set(np.unique(process.events.number).tolist())
        for number, made in process.objects.items():
            if number not in used:
                continue
            key = (made.get("key", ""), made.get("type", ""), made.get("threads"))
            groups.setdefault(key, []).append((process, number))
    found = [_use(members) for members in groups.values()]
    return sorted(found, key=lambda use: -use.median_ms * use.runs)


def _use(members: list[tuple[Process, int]]) -> ModelUse:
    first, later = [], []
    for process, number in members:
        runs = process.events.where(process.events.is_run & (process.events.number == number)).ms
        first += runs[:1].tolist()
        later += runs[1:].tolist()
    times = np.array(later or first or [0.0])
    process, number = members[0]
    made = process.objects[number]
    return ModelUse(
        path=made.get("model", ""),
        package=made.get("package", ""),
        kind=made.get("type", ""),
        threads=made.get("threads"),
        loads=len(members),
        runs=len(first) + len(later),
        first_ms=first[0] if first else 0.0,
        median_ms=float(np.median(times)),
        p95_ms=float(np.quantile(times, 0.95)),
    )


def _shown(lengths: NDArray[np.float64]) -> list[int]:
    """All rounds, or the slowest of each stretch where they are too many."""
    if len(lengths) <= _MOST_POINTS:
        return list(range(len(lengths)))
    edges = np.linspace(0, len(lengths), _MOST_POINTS + 1).astype(int)
    return [int(low + np.argmax(lengths[low:high])) for low, high in itertools.pairwise(edges) if high > low]
