"""The end of a race: the winner on the other half of the data, and against the original in fresh processes.

A candidate that fails there gives way to the next; a step without a gain is left out.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from hasten.core.comparison import (
    DEFAULT_MARGIN,
    FEWEST_ROUNDS,
    Comparison,
    Verdict,
    compare_rounds,
    log_ratio_of_round,
)
from hasten.core.failure import Failure
from hasten.core.remark import Remark, remark
from hasten.core.trial import NOTHING, ORIGINAL, REPORTING, FloorState, Stage, Status, Step
from hasten.measure.compare import ComparisonResult
from hasten.measure.rounds import Rounds
from hasten.measure.schedule import Schedule
from hasten.practices.quantize.rules import origin
from hasten.search.view import step_data

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hasten.core.plan import Plan
    from hasten.measure.rounds import Candidate, Track
    from hasten.search.field import Lane
    from hasten.search.search import Search
    from hasten.targets.base import Target

_MOST_SETBACKS: Final = 3
_SECONDS_EACH: Final = 0.4
_FEWEST: Final = 3
_MOST_ROUNDS: Final = 15
_LIKELY_GAIN: Final = 0.97


@dataclass(frozen=True, slots=True)
class Link:
    """One candidate on the way from the original to the result: what was changed last, and by which practice."""

    candidate: Candidate
    practice: str = ""
    what: Remark = NOTHING


@dataclass(frozen=True, slots=True)
class Proof:
    """The confirmation, and what each step brought."""

    results: tuple[ComparisonResult, ...]
    """Each candidate of the chain after the first, against the first."""
    steps: tuple[Step, ...]

    @property
    def result(self) -> ComparisonResult:
        """The result against the original, with both measurements."""
        return self.results[-1]

    @property
    def comparison(self) -> Comparison:
        """The result against the original."""
        return self.result.comparison

    @property
    def is_last_step_idle(self) -> bool:
        """Whether what was changed last brought nothing that anybody would notice."""
        if len(self.steps) < 2:
            return False
        last = self.steps[-1]
        return last.ratio > 1 - DEFAULT_MARGIN or (last.ratio > _LIKELY_GAIN and last.ci95[1] >= 1)

    def without_last_step(self) -> Proof:
        """The same for the candidate before."""
        return Proof(self.results[:-1], self.steps[:-1])


def prove(
    target: Target, chain: Sequence[Link], seconds: float, patience_s: float, tell: Callable[[str], None]
) -> Proof | Failure:
    """Rounds of all candidates of the chain until the verdict on its ends is sure; three at least.

    A gain that is likely and not sure yet is worth up to `patience_s` in place of `seconds`: the choice hangs on it.
    """
    rounds = Rounds(target, [replace(link.candidate, label=f"step {place}") for place, link in enumerate(chain)])
    schedule = Schedule(seconds, fewest=_FEWEST, most=_MOST_ROUNDS)
    while schedule.has_round():
        tell(f"round {schedule.rounds + 1}")
        with schedule.round():
            rounds.run_one(_SECONDS_EACH)
        failed = next((track.failure for track in rounds.tracks if track.failure is not None), None)
        if failed is not None:
            return failed
        if schedule.rounds >= _FEWEST:
            if _is_sure(rounds):
                break
            schedule.seconds = max(seconds, patience_s) if _is_likely(rounds) else seconds
    spent = schedule.elapsed_s
    results = tuple(_result(rounds.tracks[0], track, spent) for track in rounds.tracks[1:])
    steps = [_step(link, one, other) for link, (one, other) in zip(chain[1:], pairwise(rounds.tracks), strict=True)]
    return Proof(results, tuple(steps))


def _is_likely(rounds: Rounds) -> bool:
    found = _compared(rounds.tracks[0], rounds.tracks[-1])
    return found.verdict is Verdict.UNDECIDED and found.ratio < _LIKELY_GAIN


def _is_sure(rounds: Rounds) -> bool:
    found = _compared(rounds.tracks[0], rounds.tracks[-1])
    return found.rounds >= FEWEST_ROUNDS and found.verdict is not Verdict.UNDECIDED


def _compared(first: Track, second: Track) -> Comparison:
    pairs = zip(first.rounds, second.rounds, strict=True)
    return compare_rounds([log_ratio_of_round(one, other) for one, other in pairs])


def _result(first: Track, other: Track, seconds: float) -> ComparisonResult:
    start, end = first.result(), other.result()
    assert not isinstance(start, Failure)
    assert not isinstance(end, Failure)
    return ComparisonResult(_compared(first, other), start, end, seconds)


def _step(link: Link, one: Track, other: Track) -> Step:
    before, after, compared = one.result(), other.result(), _compared(one, other)
    assert not isinstance(before, Failure)
    assert not isinstance(after, Failure)
    return Step(
        link.practice, before.samples.median_ms, after.samples.median_ms, compared.ratio, compared.ci95, link.what
    )


@dataclass(slots=True)
class Confirmation:
    """Chooses. `proof` is there once something other than the original was confirmed."""

    search: Search
    until: float
    """When (of the monotonic clock) the budget ends: no further candidate is confirmed then."""
    proof: Proof | None = None

    def choose(self, proof_s: float) -> Lane:
        """The best that stands both; the original where nothing does."""
        self.search.stage = "confirming"
        lane = self._first_that_stands(proof_s)
        for step in self.proof.steps if self.proof is not None else ():
            self.search.folder.keep("step", step.practice, step_data(step))
        self.search.lanes.update(lane, status=Status.CHOSEN, stage=Stage.FINAL)
        return lane

    def _first_that_stands(self, proof_s: float) -> Lane:
        search = self.search
        for _ in range(_MOST_SETBACKS):
            lane = search.best
            if self._keeps_floor(lane) and self._is_confirmed(lane, proof_s):
                return self._simplest(lane)
            if time.monotonic() > self.until:
                break
            until = min(self.until, time.monotonic() + proof_s)
            if lane.trial.floor is FloorState.BROKEN and search.settings.mix:
                search.mix_further(lane.trial, until)
            search.kin(until)  # they enter the race again with all that had dropped out
            search.contest.revive(until)
        self._keeps_floor(search.lanes.base)
        return search.lanes.base

    def _keeps_floor(self, lane: Lane) -> bool:
        """The lane on the half of the data that had no part in the choice."""
        search = self.search
        if not search.has_data:
            return True
        search.tell(f"{lane.trial.id} on the other half of the data")
        kept = search.contest.guard.report(lane)
        if not kept and lane.trial.floor is FloorState.BROKEN and lane.trial.change is not None:
            lost = search.workshop.judge.lost(REPORTING, lane.trial.change.drop)
            search.folder.note(remark("tune.broke-other-half", trial=lane.trial.id, lost=lost))
        return kept

    def _is_confirmed(self, lane: Lane, seconds: float) -> bool:
        """Whether fresh processes show what the race has shown. A limit that asks for it makes a slower one welcome."""
        search = self.search
        base = search.lanes.base
        if lane is base:
            return True
        chain = self._chain(lane)
        patience_s = self.until - time.monotonic()
        proof = prove(search.workshop.target, chain, seconds, patience_s, search.tell)
        if isinstance(proof, Failure) and len(chain) > 2:  # what lies between may fail where both ends run
            ends = [chain[0], replace(chain[-1], what=remark("step.all", trial=lane.trial.id))]
            proof = prove(search.workshop.target, ends, seconds, patience_s, search.tell)
        if isinstance(proof, Failure):
            search.lanes.fail(lane, proof.message)
            return False
        needed = not search.settings.limit.holds(base.trial.median_ms, base.trial.size_bytes)
        if proof.comparison.verdict is not Verdict.FASTER and not needed:
            facts = {"verdict": proof.comparison.verdict.value, "ratio": proof.comparison.ratio}
            search.lanes.drop(lane, remark("trial.not-confirmed", **facts), stage=Stage.FINAL)
            search.folder.keep("comparison", lane.trial.id, proof.result.as_data())
            search.folder.note(remark("tune.not-confirmed", trial=lane.trial.id, **facts))
            return False
        self.proof = proof
        self._take_proof(lane)
        return True

    def _simplest(self, lane: Lane) -> Lane:
        """The lane itself; or the one before its last step, if that brought nothing and the simpler one is as right."""
        search, proof = self.search, self.proof
        if proof is None or lane is search.lanes.base or not proof.is_last_step_idle:
            return lane
        link = self._chain(lane)[-2].candidate
        simpler = search.lanes.lane_of(ORIGINAL, link.plan)
        if simpler is None or simpler.trial.floor is not FloorState.KEPT or not search.contest.fits(simpler):
            return lane
        less = proof.without_last_step()
        if less.comparison.verdict is not Verdict.FASTER or not self._keeps_floor(simpler):
            return lane
        self.proof = less
        search.folder.note(remark("tune.simpler", trial=lane.trial.id, than=simpler.trial.id))
        search.lanes.drop(lane, remark("trial.no-faster", than=simpler.trial.id), stage=Stage.FINAL)
        self._take_proof(simpler)
        return simpler

    def _take_proof(self, lane: Lane) -> None:
        """The figures of the confirmation in place of those of the race."""
        search, proof = self.search, self.proof
        assert proof is not None
        search.folder.keep("comparison", "final", proof.result.as_data())
        for one, measured in ((search.lanes.base, proof.result.first), (lane, proof.result.second)):
            search.lanes.update(one, latency=measured.samples.latency, doubts=tuple(measured.doubts))
        search.lanes.update(lane, against=proof.comparison)

    def _chain(self, lane: Lane) -> list[Link]:
        """From the original to the result, a practice at a time."""
        work = self.search.workshop
        base, best = self.search.lanes.base.trial.plan, lane.trial.plan

        def original(plan: Plan) -> Candidate:
            return work.candidate_of(work.original, plan)

        links = [Link(original(base))]
        if best.runs_on_cpu and best.threads != base.threads:
            what = remark("step.threads", threads=best.threads, before=base.threads)
            links.append(Link(original(replace(base, threads=best.threads)), "threads", what))
        if _where(best) != _where(base):
            links.append(Link(original(best), "accelerators", remark("step.where", **_where(best))))
        if lane.trial.variant != ORIGINAL:
            links.append(Link(lane.candidate, "quantize", remark("step.variant", **origin(lane.trial))))
        return links


def _where(plan: Plan) -> dict[str, str]:
    """What runs the model."""
    return {"delegate": plan.delegate, "accelerator": plan.accelerator, "kernel": plan.kernel}
