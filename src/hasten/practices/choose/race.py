"""One race of all models: rounds of fresh processes, a few models at a time, beside one that is in every round.

Each model is timed once. Then only those get more rounds whose times can still change the front (`front.py`), or the
answer whether a model of unknown accuracy is faster than its float original. Each round is saved as it ends.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from hasten.core.codec import to_data
from hasten.core.comparison import FEWEST_WHEN_CLEAR, Comparison, Verdict
from hasten.core.contention import BEYOND_LOAD, compare_measurements
from hasten.core.failure import Failure
from hasten.core.samples import Samples
from hasten.core.units import first_few
from hasten.measure.race import OUT_OF_THE_RACE
from hasten.measure.rounds import Rounds, Track
from hasten.practices.choose.front import MOST_ROUNDS, Front

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hasten.core.measurement import Measurement
    from hasten.core.statistics import Interval
    from hasten.measure.effort import Effort
    from hasten.measure.schedule import Schedule
    from hasten.practices.choose.accuracies import Accuracies
    from hasten.practices.choose.candidates import Contender

# Each entrant of a round is a process with the model loaded, all at once.
MOST_AT_ONCE: Final = 10
# A loaded model needs about three times its file: the file, the weights as the kernels want them, and activations.
_MEMORY_FACTOR: Final = 3
_MEMORY_SHARE: Final = 0.5
_FIRST_SECONDS: Final = 0.15
_SECONDS: Final = 0.3


@dataclass(slots=True, eq=False)
class Entrant:
    """A contender in the race, and what is known of its times."""

    contender: Contender
    track: Track
    earlier: Measurement | None = None
    """Of an earlier run of the same session."""
    known: Measurement | None = None
    comparisons: dict[tuple[str, int, int], Comparison] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The name of its row."""
        return self.contender.name

    @property
    def rounds(self) -> int:
        """In how many fresh processes it was timed."""
        return 0 if self.known is None else self.known.samples.processes

    def update(self) -> None:
        """Put together what all runs have measured."""
        found = self.track.result()
        if isinstance(found, Failure):
            self.known = self.earlier
        elif self.earlier is None:
            self.known = found
        else:
            blocks = (*self.earlier.samples.blocks, *found.samples.blocks)
            self.known = replace(found, samples=Samples(blocks, self.track.timer_step_ns))


class Race:
    """The entrants by name, in the order in which they came."""

    def __init__(self, effort: Effort, schedule: Schedule, accuracies: Accuracies) -> None:
        self.entrants: dict[str, Entrant] = {}
        self.latency_limit_ms: float | None = None
        """A limit that is worth rounds while a model on the front may keep it or break it."""
        self.size_limit = math.inf
        self.own = ""
        """The model in use, by name: all others are compared with it, so it is in every round."""
        self._effort, self._schedule, self._accuracies = effort, schedule, accuracies
        self._rounds: Rounds | None = None
        self._front: Front | None = None
        self._base: Entrant | None = None
        self._memory_bytes = math.inf

    def enter(self, contenders: Sequence[Contender], earlier: Mapping[str, Measurement]) -> None:
        """Let models in; with what an earlier run has measured of the very same file and plan."""
        for contender in contenders:
            entrant = Entrant(contender, Track(contender.candidate))
            before = earlier.get(contender.name)
            if before is not None and _is_same(before, contender):
                entrant.earlier = before
            entrant.update()
            self.entrants[contender.name] = entrant
        if self._rounds is None:
            known = [entrant.known for entrant in self.entrants.values() if entrant.known is not None]
            numbers = [block.runner for found in known for block in found.samples.blocks]
            self._rounds = Rounds(self._effort.target, [], self._effort.clock, first_round=max(numbers, default=-1) + 1)
            self._memory_bytes = _MEMORY_SHARE * self._effort.target.machine().memory_mb * 2**20 or math.inf
        self._rounds.tracks = [entrant.track for entrant in self.entrants.values()]
        self._front = None

    @property
    def front(self) -> Front:
        """The front as it is known now."""
        if self._front is None:
            rows = [entrant.contender.row for entrant in self.entrants.values()]
            self._front = Front(rows, self._gain, self.speed, self.size_limit)
        return self._front

    def _gain(self, name: str, over: str) -> Interval | None:
        """What could not be timed beats nobody, and is on no front."""
        timed = all(self.entrants[one].known is not None for one in (name, over))
        return self._accuracies.gain(name, over) if timed else None

    @property
    def base(self) -> Entrant | None:
        """The entrant of every round. Should it fail, another one takes its place, and the rounds of that one count."""
        if self._base is None or self._base.track.failure is not None:
            self._base = self._new_base()
            for entrant in self.entrants.values():
                entrant.comparisons.clear()
        return self._base

    def _new_base(self) -> Entrant | None:
        """The model in use; else who was in most rounds. Before there are any, one in the middle by cost that may well
        be on the front, where its rounds are not for nothing."""
        ordered = sorted(self.entrants.values(), key=lambda entrant: entrant.contender.row.macs or 0)
        middle = len(ordered) // 2
        best, ranked = -math.inf, []
        for place, entrant in enumerate(ordered):
            row = entrant.contender.row
            is_better, best = row.merit > best, max(best, row.merit)  # than all that cost less
            if entrant.track.failure is None:
                rank = entrant.name == self.own, entrant.rounds, is_better, -abs(place - middle)
                ranked.append((rank, entrant))
        return max(ranked, key=lambda one: one[0])[1] if ranked else None

    def run(self, reserve_s: float = 0.0) -> None:
        """Every model once, then those that are open, until nothing is or the time is up but for what is reserved."""
        self._time_each_once()
        while (group := self._next_group()) and self._schedule.fits(self._schedule.longest_s + reserve_s):
            self._run_round(group, _SECONDS)

    def compared(self, name: str, than: str) -> Comparison | None:
        """The latency of one entrant against another's, through the one that both have met."""
        one, other, base = self.entrants[name], self.entrants[than], self.base
        if one.known is None or other.known is None or base is None:
            return None
        key = than, one.rounds, other.rounds
        if key not in one.comparisons:
            one.comparisons[key] = compare_measurements(other.known, one.known, base.known)
        return one.comparisons[key]

    def speed(self, name: str, than: str) -> Verdict:
        """The verdict that all commands use; and what no disturbance of one round explains needs no more rounds."""
        found = self.compared(name, than)
        if found is None:
            return Verdict.UNDECIDED
        if not found.rounds or not found.lacks_rounds:
            return found.verdict
        one, other = self.entrants[name], self.entrants[than]
        # Load on the machine slows plans down alike only if they need the same cores.
        factor = OUT_OF_THE_RACE if one.contender.candidate.plan == other.contender.candidate.plan else BEYOND_LOAD
        # What one round is off by, the mean of several is off by its root.
        factor **= 1 / min(one.rounds, other.rounds)
        if max(found.ratio, 1 / found.ratio) <= factor:
            return found.verdict
        return Verdict.SLOWER if found.ratio > 1 else Verdict.FASTER

    def measured(self, name: str) -> Measurement | None:
        """What was measured of an entrant, as it stands next to the base."""
        found, base = self.entrants[name].known, self.base
        if found is None or base is None or base.known is None or base.name == name:
            return found
        return replace(found, samples=found.samples.beside(base.known.samples))

    def _time_each_once(self) -> None:
        fresh = [entrant for entrant in self.entrants.values() if entrant.known is None]
        waiting = sorted(fresh, key=lambda entrant: entrant.contender.row.macs or 0)
        while waiting and self._schedule.has_round():
            group = self._fitting(waiting)
            self._run_round(group, _FIRST_SECONDS)
            waiting = [entrant for entrant in waiting if entrant not in group]

    def _next_group(self) -> list[Entrant]:
        """Of the open ones, those with too few rounds for a verdict first, and neighbors in latency together. What room
        is left goes to the front, whose figures are the result."""
        names = [*self.front.open(self._rounds_of), *self._near_limit()]
        unknown = {name for name in names if name not in self._accuracies.known}
        urgent = self._able(names)
        urgent.sort(
            key=lambda one: (one.rounds >= FEWEST_WHEN_CLEAR, one.name in unknown, one.rounds, self._latency_of(one))
        )
        rest = [one for one in self._able(self.front.to_sharpen(self._rounds_of)) if one not in urgent]
        rest.sort(key=lambda one: (one.rounds, self._latency_of(one)))
        return self._fitting([*urgent, *rest])

    def _able(self, names: Sequence[str]) -> list[Entrant]:
        """These entrants, without those that failed. The base is in every round anyway, so it runs alone only."""
        found = [self.entrants[name] for name in dict.fromkeys(names)]
        able = [entrant for entrant in found if entrant.track.failure is None]
        others = [entrant for entrant in able if entrant is not self.base]
        return others or able

    def _rounds_of(self, name: str) -> int:
        return self.entrants[name].rounds

    def _near_limit(self) -> list[str]:
        """Models on the front of which the interval holds the limit on latency."""
        limit = self.latency_limit_ms
        if limit is None:
            return []
        found = []
        for row in self.front.standing():
            measured = self.measured(row.name)
            if measured is not None and self.entrants[row.name].rounds < MOST_ROUNDS:
                latency = measured.samples.latency
                found += [row.name] if latency.low <= limit <= latency.high else []
        return found

    def _latency_of(self, entrant: Entrant) -> float:
        return math.inf if entrant.known is None else entrant.known.samples.median_ms

    def _fitting(self, entrants: Sequence[Entrant]) -> list[Entrant]:
        """The first few of them, as many as fit into memory next to the base; one at least."""
        group: list[Entrant] = []
        base = self.base
        used = 0 if base is None else base.contender.row.size_bytes
        for entrant in entrants[:MOST_AT_ONCE]:
            used += entrant.contender.row.size_bytes
            if group and _MEMORY_FACTOR * used > self._memory_bytes:
                break
            group.append(entrant)
        return group

    def _run_round(self, group: Sequence[Entrant], seconds_each: float) -> None:
        rounds, base = self._rounds, self.base
        assert rounds is not None, "nobody entered"
        racing = [*([base] if base is not None and base not in group else []), *group]
        for entrant in self.entrants.values():
            entrant.track.retired = entrant not in racing
        counts = [len(entrant.track.rounds) for entrant in racing]
        self._tell(group)
        with self._schedule.round():
            rounds.run_one(seconds_each)
        for entrant, count in zip(racing, counts, strict=True):
            if len(entrant.track.rounds) > count:
                entrant.update()
                self._keep(entrant)
        self._front = None

    def _tell(self, group: Sequence[Entrant]) -> None:
        undecided = len(self.front.open(self._rounds_of))
        open_ones = f"{undecided} undecided; " if self._schedule.rounds else ""
        names = first_few([entrant.name for entrant in group], 2)
        self._effort.progress(min(self._schedule.share, 0.99), f"timing: {open_ones}{names}")

    def _keep(self, entrant: Entrant) -> None:
        found = entrant.track.result()
        assert not isinstance(found, Failure), "it was in the round"
        latest = replace(found, samples=Samples(tuple(entrant.track.rounds[-1]), entrant.track.timer_step_ns))
        self._effort.keep("measurement", entrant.name, {**to_data(latest), "round": entrant.rounds})


def _is_same(before: Measurement, contender: Contender) -> bool:
    """Whether an earlier measurement is of this file on this plan."""
    candidate = contender.candidate
    return (before.model.sha256, before.plan, before.workload) == (
        candidate.model.sha256,
        candidate.plan,
        candidate.workload,
    )
