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
    from hasten.search.candidates import Entrant
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

    def choose(self, proof_s: float) -> Entrant:
        """Fastest candidate that passes the reporting half and the confirmation; else the original."""
        self.search.stage = "confirming"
        entrant = self._first_that_stands(proof_s)
        for step in self.proof.steps if self.proof is not None else ():
            self.search.folder.keep("step", step.practice, step_data(step))
        self.search.candidates.update(entrant, status=Status.CHOSEN, stage=Stage.FINAL)
        return entrant

    def _first_that_stands(self, proof_s: float) -> Entrant:
        search = self.search
        for _ in range(_MOST_SETBACKS):
            entrant = search.best
            if self._keeps_floor(entrant) and self._is_confirmed(entrant, proof_s):
                return self._simplest(entrant)
            if time.monotonic() > self.until:
                break
            until = min(self.until, time.monotonic() + proof_s)
            if entrant.trial.floor is FloorState.BROKEN and search.settings.mix:
                search.mix_further(entrant.trial, until)
            search.kin(until)  # they enter the race again with all that had dropped out
            search.elimination.revive(until)
        self._keeps_floor(search.candidates.base)
        return search.candidates.base

    def _keeps_floor(self, entrant: Entrant) -> bool:
        """The entrant on the half of the data that had no part in the choice."""
        search = self.search
        if not search.has_data:
            return True
        search.tell(f"{entrant.trial.id} on the other half of the data")
        kept = search.elimination.guard.report(entrant)
        if not kept and entrant.trial.floor is FloorState.BROKEN and entrant.trial.change is not None:
            lost = search.store.judge.lost(REPORTING, entrant.trial.change.drop)
            search.folder.note(remark("tune.broke-other-half", trial=entrant.trial.id, lost=lost))
        return kept

    def _is_confirmed(self, entrant: Entrant, seconds: float) -> bool:
        """Whether fresh processes confirm the speedup; not required if the original breaks a limit."""
        search = self.search
        base = search.candidates.base
        if entrant is base:
            return True
        chain = self._chain(entrant)
        patience_s = self.until - time.monotonic()
        proof = prove(search.store.target, chain, seconds, patience_s, search.tell)
        if isinstance(proof, Failure) and len(chain) > 2:  # what lies between may fail where both ends run
            ends = [chain[0], replace(chain[-1], what=remark("step.all", trial=entrant.trial.id))]
            proof = prove(search.store.target, ends, seconds, patience_s, search.tell)
        if isinstance(proof, Failure):
            search.candidates.fail(entrant, proof.message)
            return False
        needed = not search.settings.limit.holds(base.trial.median_ms, base.trial.size_bytes)
        if proof.comparison.verdict is not Verdict.FASTER and not needed:
            facts = {"verdict": proof.comparison.verdict.value, "ratio": proof.comparison.ratio}
            search.candidates.drop(entrant, remark("trial.not-confirmed", **facts), stage=Stage.FINAL)
            search.folder.keep("comparison", entrant.trial.id, proof.result.as_data())
            search.folder.note(remark("tune.not-confirmed", trial=entrant.trial.id, **facts))
            return False
        self.proof = proof
        self._take_proof(entrant)
        return True

    def _simplest(self, entrant: Entrant) -> Entrant:
        """The entrant, or the one before its last step if that step brought nothing and the simpler one is as right."""
        search, proof = self.search, self.proof
        if proof is None or entrant is search.candidates.base or not proof.is_last_step_idle:
            return entrant
        link = self._chain(entrant)[-2].candidate
        simpler = search.candidates.entrant_of(ORIGINAL, link.plan)
        if simpler is None or simpler.trial.floor is not FloorState.KEPT or not search.elimination.fits(simpler):
            return entrant
        less = proof.without_last_step()
        if less.comparison.verdict is not Verdict.FASTER or not self._keeps_floor(simpler):
            return entrant
        self.proof = less
        search.folder.note(remark("tune.simpler", trial=entrant.trial.id, than=simpler.trial.id))
        search.candidates.drop(entrant, remark("trial.no-faster", than=simpler.trial.id), stage=Stage.FINAL)
        self._take_proof(simpler)
        return simpler

    def _take_proof(self, entrant: Entrant) -> None:
        """The figures of the confirmation in place of those of the race."""
        search, proof = self.search, self.proof
        assert proof is not None
        search.folder.keep("comparison", "final", proof.result.as_data())
        for one, measured in ((search.candidates.base, proof.result.first), (entrant, proof.result.second)):
            search.candidates.update(one, latency=measured.samples.latency, doubts=tuple(measured.doubts))
        search.candidates.update(entrant, against=proof.comparison)

    def _chain(self, entrant: Entrant) -> list[Link]:
        """From the original to the result, a practice at a time."""
        work = self.search.store
        base, best = self.search.candidates.base.trial.plan, entrant.trial.plan

        def original(plan: Plan) -> Candidate:
            return work.candidate_of(work.original, plan)

        links = [Link(original(base))]
        if best.runs_on_cpu and best.threads != base.threads:
            what = remark("step.threads", threads=best.threads, before=base.threads)
            links.append(Link(original(replace(base, threads=best.threads)), "threads", what))
        if _where(best) != _where(base):
            links.append(Link(original(best), "accelerators", remark("step.where", **_where(best))))
        if entrant.trial.variant != ORIGINAL:
            links.append(Link(entrant.candidate, "quantize", remark("step.variant", **origin(entrant.trial))))
        return links


def _where(plan: Plan) -> dict[str, str]:
    """What runs the model."""
    return {"delegate": plan.delegate, "accelerator": plan.accelerator, "kernel": plan.kernel}
