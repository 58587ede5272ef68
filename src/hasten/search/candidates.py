"""The candidates of a search, measured together: rounds of fresh processes, each result saved as its round ends."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import TYPE_CHECKING, Any, Final

from hasten.core.codec import to_data
from hasten.core.comparison import compare_levels
from hasten.core.contention import allowed_by_load
from hasten.core.costs import amount_of, decisive, measured_levels
from hasten.core.errors import ModelError
from hasten.core.failure import Failure, RunnerFailed
from hasten.core.floor import FloorState
from hasten.core.goal import MEASURED, Amount, Goal, goal_fact, goal_in
from hasten.core.levels import Levels, exponential, latency_of, place, undisturbed
from hasten.core.remark import remark
from hasten.core.statistics import Interval
from hasten.core.trial import NOTHING, Stage, Status, status_of, trial_id
from hasten.engine.model_file import file_hash
from hasten.measure.rounds import Candidate, Rounds, Track
from hasten.search.round_ratios import relative

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from hasten.core.comparison import Comparison
    from hasten.core.measurement import Measurement
    from hasten.core.plan import Plan
    from hasten.core.remark import Remark
    from hasten.core.trial import Trial
    from hasten.search.folder import SearchFolder
    from hasten.targets.base import Target

# Each entrant of a round is a process with the model loaded, all at once: more would not fit into a small machine.
MOST_AT_ONCE: Final = 6
# Where each is a crew of runners, so many processes, those of the base included.
_MOST_RUNNERS: Final = 14
# Rounds of the first confirmation have numbers from here on, those of the next from twice that on.
_CONFIRMATION: Final = 1_000_000
SLOWER: Final = "trial.slower"
OVERTAKEN: Final = "trial.overtaken"
NOT_CONFIRMED: Final = "trial.not-confirmed"
NO_ANSWER: Final = "trial.no-answer"
# The goals whose levels a trial keeps; its size is a number of its own.
_KEPT: Final = (Goal.LATENCY, *MEASURED)
_RACING: Final = (Status.TIMED, Status.KEPT, Status.UNDECIDED, Status.CHOSEN)


@dataclass(slots=True)
class Entrant:
    """One candidate, what is known of it, and what was measured of it in this run."""

    trial: Trial
    candidate: Candidate
    track: Track
    earlier: Mapping[Goal, Levels] = field(default_factory=dict)
    """Levels that are not from the track, by goal: of an earlier run, or of a confirmation."""
    since: int = 0
    """The number of the last round of the race that a confirmation took the place of."""
    confirmed: tuple[Measurement, Measurement] | None = None
    """The base and this one as a confirmation measured them, until it races on: how busy the machine was then counts,
    not how busy it was in the race."""

    @property
    def is_racing(self) -> bool:
        """Whether it may still win: not failed, not dropped, and not refused for its accuracy."""
        failed = self.trial.floor is FloorState.FAILED
        return self.trial.status in _RACING and not failed and not self.trial.is_refused


class Candidates:
    """The entrants by id. The first one, the original as it runs now, is in every round: all are compared with it."""

    goal: Goal = Goal.LATENCY
    """What they are compared by."""
    most_at_once: int = MOST_AT_ONCE

    def __init__(
        self,
        target: Target,
        folder: SearchFolder,
        base: tuple[Trial, Candidate],
        begin: float,
        goal: Goal = Goal.LATENCY,
        *,
        crews: bool = False,
    ) -> None:
        self.goal = goal
        if crews:
            self.most_at_once = min(MOST_AT_ONCE, max(1, _MOST_RUNNERS // max(1, target.machine().cores) - 1))
        self.entrants: dict[str, Entrant] = {}
        self._folder, self._begin, self._base = folder, begin, base[1]
        self._stamp = _stamp(self._base.path)
        self._rounds = Rounds(target, [], crews=crews)
        before = [number for trial in folder.trials.values() for number in trial.levels]
        self._before = max(before, default=0)
        self._number = self._before
        self._last_confirmation = self._before
        self._confirmed: dict[Goal, Levels] = {}
        self._base_has_failed = False
        self.base = self.enter(*base)

    def enter(self, trial: Trial, candidate: Candidate) -> Entrant:
        """The trial's entrant; with what an earlier run has found."""
        if trial.id not in self.entrants:
            track = Track(replace(candidate, label=trial.id))
            self._rounds.tracks.append(track)
            # A session may have been made by anybody: what runs is what was asked for now.
            known = replace(self._folder.trials.get(trial.id, trial), plan=trial.plan)
            if known.status is Status.CHOSEN or known.why.code in (NOT_CONFIRMED, NO_ANSWER):
                # By an earlier run: it has to stand the race again, or gets the time that it lacked.
                known = replace(known, status=status_of(known.floor), stage=Stage.RACE, why=NOTHING)
            # Times of another go as soon as there are times of its own.
            earlier = {} if known.timed_as else _all_levels(known)
            self.entrants[trial.id] = Entrant(known, track.candidate, track, earlier)
        return self.entrants[trial.id]

    def entrant_of(self, variant: str, plan: Plan) -> Entrant | None:
        """The entrant of a variant with a plan, if it has one."""
        return self.entrants.get(trial_id(variant, plan))

    @property
    def elapsed_s(self) -> float:
        """Since the beginning, with what earlier runs took."""
        return self._folder.elapsed_s + time.monotonic() - self._begin

    def update(self, entrant: Entrant, **changes: Any) -> None:
        """Save what has become known of an entrant."""
        entrant.trial = replace(entrant.trial, elapsed_s=self.elapsed_s, **changes)
        self._folder.save_trial(entrant.trial)

    def relative(self, entrant: Entrant, goal: Goal | None = None) -> float:
        """The logarithm of its cost over the base's, by the goal of the race or another; infinite if not known."""
        by = goal or self.goal
        return 0.0 if entrant is self.base else relative(entrant.trial.levels_of(by), self.base.trial.levels_of(by))

    def on_plan(self, entrant: Entrant) -> float:
        """The same, by what plans differ in: a file is as large on each of them, and the faster one is preferred."""
        return self.relative(entrant, Goal.LATENCY if self.goal is Goal.SIZE else None)

    def order(self, entrant: Entrant) -> tuple[float, float]:
        """Sorts the best first; of files that are equally large, the faster one."""
        return self.relative(entrant), self.on_plan(entrant)

    def decisive(self, one: Entrant, other: Entrant) -> Goal:
        """The goal that two are compared by: that of the race; of two files that are equally large, their latency."""
        return decisive(self.goal, one.trial.size_bytes, other.trial.size_bytes)

    def gap(self, one: Entrant, other: Entrant) -> float:
        """The logarithm of the cost of one over the other's, each placed by the base; NaN if neither is known."""
        by = self.decisive(one, other)
        return self.relative(one, by) - self.relative(other, by)

    def levels_for(self, one: Entrant, other: Entrant) -> tuple[Levels, Levels, Levels]:
        """The levels by which one is compared with another, the other's, and the base's."""
        by = self.decisive(one, other)
        return one.trial.levels_of(by), other.trial.levels_of(by), self.base.trial.levels_of(by)

    def compared(self, one: Entrant, other: Entrant) -> Comparison | None:
        """The other against the one, by the rounds in which both met the base."""
        mine, than, base = self.levels_for(other, one)
        return compare_levels(than, mine, base)

    def is_timed(self, entrant: Entrant) -> bool:
        """Whether it ran, and met the base in a round that both were undisturbed in."""
        return math.isfinite(self.relative(entrant, Goal.LATENCY)) and math.isfinite(self.relative(entrant))

    def run_round(self, entrants: Sequence[Entrant], seconds_each: float) -> None:
        """One round of the base and these; a trial is on the disk as soon as the round ends."""
        self.refuse_changed()
        racing = [self.base, *(entrant for entrant in entrants if entrant is not self.base)]
        for entrant in self.entrants.values():
            entrant.track.retired = entrant not in racing
        counts = [len(entrant.track.rounds) for entrant in racing]
        self._rounds.run_one(seconds_each)
        self._number += 1
        grown = [one for one, count in zip(racing, counts, strict=True) if len(one.track.rounds) > count]
        for entrant in grown:
            entrant.trial = replace(entrant.trial, **self._levels(entrant), timed_as="")
            entrant.confirmed = None  # its levels are of the race again, too
        for entrant in grown:
            self._save_round(entrant)
        self._expect_base()
        for entrant in racing:
            # Who ran alone and failed next to its like has times, and nothing to be compared by.
            if entrant.track.failure is not None and (entrant not in grown or not self.is_timed(entrant)):
                self.fail(entrant, entrant.track.failure.message)

    def _expect_base(self) -> None:
        """Nothing can be compared without the base. One failure next to its like may be chance, as when memory runs
        out, and a second one in a row is none; what was measured is saved, so that a search may go on later."""
        track = self.base.track
        if track.failure is None:
            self._base_has_failed = False
            return
        if not self.base.trial.levels and not track.has_lost_connection:
            self.fail(self.base, track.failure.message)  # it never ran
        if self._base_has_failed or track.has_lost_connection or not self.base.trial.levels:
            raise RunnerFailed(track.failure)
        self._base_has_failed, track.failure = True, None

    def _levels(self, entrant: Entrant) -> dict[str, Any]:
        """All that is known by now: which runs were disturbed is seen better with each round."""
        found = entrant.track.result()
        assert not isinstance(found, Failure)
        numbered = _numbered(found, self._before + 1)
        later = {
            goal: {number: level for number, level in levels.items() if number > entrant.since}
            for goal, levels in numbered.items()
        }
        return _as_fields(_joined(entrant.earlier, later))

    def _save_round(self, entrant: Entrant) -> None:
        measured, latest = entrant.track.result(), entrant.track.latest_round()
        assert not isinstance(measured, Failure)
        assert not isinstance(latest, Failure)
        self._folder.keep("measurement", entrant.trial.id, {**to_data(latest), "round": self._number})
        self.update(
            entrant,
            **self._figures(entrant.trial),
            init_ms=measured.init_ms,
            peak_memory_mb=measured.peak_memory_mb,
            doubts=tuple(measured.doubts),
        )

    def time_like(self, entrant: Entrant, other: Entrant) -> None:
        """Let an entrant have the times of another that runs on the same kernels, until it has rounds of its own."""
        if entrant.trial.levels:
            return
        levels, costs = dict(other.trial.levels), dict(other.trial.costs)
        entrant.trial = replace(entrant.trial, levels=levels, costs=costs, timed_as=other.trial.id)
        self.update(entrant, **self._figures(entrant.trial), why=remark("trial.timed-as", trial=other.trial.id))

    def adopt(self, confirmed: Mapping[str, Measurement]) -> None:
        """Take the figures of a confirmation in place of the race's, by trial; the base is one of them.

        Fresh processes say more than those by which the winner was found, and one trial has one latency.
        """
        self._last_confirmation = first = (self._last_confirmation // _CONFIRMATION + 1) * _CONFIRMATION
        self._confirmed = _numbered(confirmed[self.base.trial.id], first)
        for name, measured in confirmed.items():
            if (entrant := self.entrants.get(name)) is None:
                continue
            levels, before = _numbered(measured, first), entrant.trial
            if entrant is self.base:
                entrant.earlier = _joined(entrant.earlier, levels)
                levels = _joined(_all_levels(before), levels)
            else:
                entrant.earlier, entrant.since = levels, self._number
                entrant.confirmed = confirmed[self.base.trial.id], measured
            entrant.trial = replace(before, **_as_fields(levels), timed_as="")
            self.update(entrant, doubts=tuple(measured.doubts))
        self.refresh()

    def refresh(self) -> None:
        """Save all trials with their figures next to the base's as it is known now: ratios follow from latencies."""
        for name, trial in list(self._folder.trials.items()):
            entrant = self.entrants.get(name)
            known = trial if entrant is None else entrant.trial
            fresh = replace(known, **self._figures(known), why=self._reason(known))
            if fresh == known:
                continue
            if entrant is not None:
                entrant.trial = fresh
            self._folder.save_trial(fresh)

    def _figures(self, trial: Trial) -> dict[str, Any]:
        """The latency of a trial next to the base's, their comparison, and what other goals come to."""
        base, known = self._confirmed.get(Goal.LATENCY) or self.base.trial.levels, {"amounts": self._amounts(trial)}
        if trial.id == self.base.trial.id:
            return {"latency": latency_of(base), "against": None, **known}
        anchor = fmean(undisturbed(base).values()) if base else math.nan
        if trial.levels:
            latency = latency_of(trial.levels, self.base.trial.levels, anchor)
            return {"latency": latency, "against": self._against_base(trial), **known}
        if trial.against is None or not base:
            return {"latency": trial.latency, "against": trial.against}
        # It was only looked at: it has a ratio to the base, and no rounds.
        latency = Interval(math.exp(anchor) * trial.against.ratio, -math.inf, math.inf)
        return {"latency": latency, "against": trial.against}

    def _amounts(self, trial: Trial) -> dict[str, Amount]:
        """What was measured besides latency, next to the base's, by the goal's name."""
        found = {}
        for goal in MEASURED:
            levels, base = trial.levels_of(goal), self.base.trial.levels_of(goal)
            placed = self._confirmed.get(goal) or base
            if not levels or not placed:
                continue
            anchor = fmean(undisturbed(placed).values())
            of_base = trial.id == self.base.trial.id
            cost = latency_of(placed) if of_base else latency_of(levels, base, anchor)
            if cost is not None:
                found[goal.value] = amount_of(goal, cost)
        return found

    def _against_base(self, trial: Trial) -> Comparison | None:
        found = compare_levels(self.base.trial.levels, trial.levels)
        entrant = self.entrants.get(trial.timed_as or trial.id)
        if found is None or entrant is None:
            return found
        first, second = entrant.confirmed or (self.base.track.result(), entrant.track.result())
        if isinstance(first, Failure) or isinstance(second, Failure):
            return found
        return allowed_by_load(found, first, second)

    def _reason(self, trial: Trial) -> Remark:
        """Why it dropped out, with the ratio as it is known now; a chosen trial has no reason against itself."""
        if trial.status is Status.CHOSEN:
            return NOTHING
        than = self.entrants.get(trial.why.facts.get("than", "")) if trial.why.code in (SLOWER, OVERTAKEN) else None
        if than is None or not trial.levels:
            return trial.why
        by = goal_in(trial.why.facts)
        ratio = exponential(self._above_base(trial, by) - self._above_base(than.trial, by))
        if not math.isfinite(ratio):
            return trial.why
        # Rounds of a confirmation may turn it round; a ratio alone does not show that it is the better one.
        return slower(ratio, than, by) if ratio > 1 else remark(OVERTAKEN, than=than.trial.id, **goal_fact(by))

    def _above_base(self, trial: Trial, goal: Goal) -> float:
        """How far a trial is above the base (a logarithm), by all rounds that the figures shown of it are from."""
        if trial.id == self.base.trial.id:
            return 0.0
        return place(trial.levels_of(goal), self.base.trial.levels_of(goal), anchor=0.0)

    def drop(self, entrant: Entrant, why: Remark, **changes: Any) -> None:
        """Take an entrant out of the race; what was measured stays."""
        self.update(entrant, status=Status.DROPPED, why=why, **changes)

    def fail(self, entrant: Entrant, message: str, **changes: Any) -> None:
        """Take an entrant out of the race that does not run."""
        self.update(entrant, status=Status.FAILED, why=remark("trial.failed", message=message), **changes)

    def refuse_changed(self) -> None:
        """Figures of two models do not belong in one race."""
        path, model = self._base.path, self._base.model
        try:
            stamp = _stamp(path)
            changed = stamp != self._stamp and file_hash(path) != model.sha256
        except OSError as error:
            raise ModelError(f"{path} can no longer be read: {error.strerror}.", _GO_ON) from error
        if changed:
            raise ModelError(f"{path} has changed since the tuning began.", _GO_ON)
        self._stamp = stamp


def slower(ratio: float, than: Entrant, goal: Goal = Goal.LATENCY) -> Remark:
    """Why an entrant drops out: it costs more than another, by the goal that the two were compared by."""
    return remark(SLOWER, ratio=ratio, than=than.trial.id, **goal_fact(goal))


def _numbered(found: Measurement, first: int) -> dict[Goal, Levels]:
    """Levels of each goal, with the rounds numbered from here on."""
    return {goal: {first + number: level for number, level in measured_levels(goal, found).items()} for goal in _KEPT}


def _all_levels(trial: Trial) -> dict[Goal, Levels]:
    return {goal: trial.levels_of(goal) for goal in _KEPT}


def _joined(one: Mapping[Goal, Levels], other: Mapping[Goal, Levels]) -> dict[Goal, Levels]:
    return {goal: {**one.get(goal, {}), **levels} for goal, levels in other.items()}


def _as_fields(levels: Mapping[Goal, Levels]) -> dict[str, Any]:
    """Levels by goal as a trial keeps them."""
    costs = {goal.value: levels[goal] for goal in MEASURED if levels[goal]}
    return {"levels": levels[Goal.LATENCY], "costs": costs}


_GO_ON: Final = (
    "Put the file back and continue with --resume, or begin again with another -o. Everything measured so far is saved."
)


def chunks(entrants: Sequence[Entrant], key: Callable[[Entrant], Any], most: int = MOST_AT_ONCE) -> list[list[Entrant]]:
    """Groups small enough for one round, neighbors by the key together."""
    ordered = sorted(entrants, key=key)
    return [ordered[start : start + most] for start in range(0, len(ordered), most)]


def _stamp(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_mtime_ns, found.st_size
