"""The end of a race: the winner on the other half of the data, and against the original in fresh processes.

Whoever fails there gives way to the next; a step that brought nothing is left out.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from hasten.core.comparison import Verdict
from hasten.core.doubts import doubts_data
from hasten.core.failure import Failure
from hasten.core.tuning import BROKEN, CHOSEN, DROPPED, FAILED, FINAL, KEPT, ORIGINAL, REPORTING, TIMED, UNKNOWN
from hasten.evaluate.words import loss_text
from hasten.tune.final import Link, Proof, prove

if TYPE_CHECKING:
    from hasten.core.plan import Plan
    from hasten.tune.field import Lane
    from hasten.tune.folder import TuneFolder
    from hasten.tune.search import Search
    from hasten.tune.settings import TuneSettings
    from hasten.tune.workshop import Workshop

_MOST_SETBACKS: Final = 3


@dataclass(slots=True)
class Confirmation:
    """Chooses. `proof` is there once something other than the original was confirmed."""

    workshop: Workshop
    settings: TuneSettings
    folder: TuneFolder
    search: Search
    until: float
    """When (of the monotonic clock) the budget ends: no further candidate is confirmed then."""
    proof: Proof | None = None

    def choose(self, proof_s: float) -> Lane:
        """The best that stands both; the original where nothing does."""
        self.search.stage = "confirming"
        lane = self._first_that_stands(proof_s)
        for step in self.proof.steps if self.proof is not None else ():
            self.folder.keep("step", step.practice, step.as_data())
        self.search.lanes.update(lane, status=CHOSEN, stage=FINAL)
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
            search.kin(until)  # they enter the race again with all that had dropped out
            search.contest.revive(until)
        self._keeps_floor(search.lanes.base)
        return search.lanes.base

    def _keeps_floor(self, lane: Lane) -> bool:
        """The lane on the half of the data that had no part in the choice."""
        search = self.search
        if not self.settings.has_data:
            return True
        search.tell(f"{lane.trial.id} on the other half of the data")
        change = search.contest.guard.report(lane)
        judge = self.workshop.judge
        if change is not None and judge.against_choosing:  # seen only now that the original ran on both halves
            search.lanes.update(lane, status=TIMED, floor=UNKNOWN, why=judge.against_choosing)
            return False
        floor = judge.floor(REPORTING)
        if change is None or floor.keeps(change.drop):
            return True
        lost = loss_text(floor, change.drop)
        search.lanes.update(lane, status=BROKEN, floor=BROKEN, why=f"loses {lost} on the other half of the data")
        self.workshop.note(
            f"{lane.trial.id} kept the floor on one half of the data and lost {lost} on the other, which decided"
        )
        return False

    def _is_confirmed(self, lane: Lane, seconds: float) -> bool:
        """Whether fresh processes show what the race has shown. A limit that asks for it makes a slower one welcome."""
        search = self.search
        base = search.lanes.base
        if lane is base:
            return True
        chain = self._chain(lane)
        patience_s = self.until - time.monotonic()
        proof = prove(self.workshop.target, chain, seconds, patience_s, search.tell)
        if isinstance(proof, Failure) and len(chain) > 2:  # what lies between may fail where both ends run
            ends = [chain[0], replace(chain[-1], what=lane.trial.id)]
            proof = prove(self.workshop.target, ends, seconds, patience_s, search.tell)
        if isinstance(proof, Failure):
            search.lanes.update(lane, status=FAILED, why=proof.message)
            return False
        needed = not self.settings.limit.holds(base.trial.median_ms, base.trial.size_bytes)
        if proof.comparison.verdict is not Verdict.FASTER and not needed:
            said, times = proof.comparison.verdict.value, proof.comparison.ratio
            search.lanes.update(lane, status=DROPPED, stage=FINAL, why=f"fresh processes call it {said}, not faster")
            self.folder.keep("comparison", lane.trial.id, proof.result.as_data())
            self.workshop.note(
                f"{lane.trial.id} led the race, and fresh processes call it {said} (ratio {times:.2f}): "
                "more --budget or a quieter machine may tell"
            )
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
        if simpler is None or simpler.trial.floor != KEPT or not search.contest.fits(simpler):
            return lane
        less = proof.without_last_step()
        if less.comparison.verdict is not Verdict.FASTER or not self._keeps_floor(simpler):
            return lane
        self.proof = less
        self.workshop.note(f"{lane.trial.id} is no faster than {simpler.trial.id}, which is simpler")
        search.lanes.update(lane, status=DROPPED, stage=FINAL, why=f"no faster than {simpler.trial.id}")
        self._take_proof(simpler)
        return simpler

    def _take_proof(self, lane: Lane) -> None:
        """The figures of the confirmation in place of those of the race."""
        search, proof = self.search, self.proof
        assert proof is not None
        self.folder.keep("comparison", "final", proof.result.as_data())
        for one, measured in ((search.lanes.base, proof.result.first), (lane, proof.result.second)):
            doubts = tuple(doubts_data(measured.doubts))
            search.lanes.update(one, latency=measured.samples.latency, doubts=doubts)
        search.lanes.update(lane, against=proof.comparison)

    def _chain(self, lane: Lane) -> list[Link]:
        """From the original to the result, a practice at a time."""
        base, best = self.search.lanes.base.trial.plan, lane.trial.plan
        links = [Link(self.workshop.candidate_of(ORIGINAL, base))]
        on_cpu = best.accelerator == "cpu" and not best.delegate
        if on_cpu and best.threads != base.threads:
            what = f"{best.threads} threads in place of {base.threads}"
            plan = replace(base, threads=best.threads)
            links.append(Link(self.workshop.candidate_of(ORIGINAL, plan), "threads", what))
        if _where(best) != _where(base):
            links.append(Link(self.workshop.candidate_of(ORIGINAL, best), "accelerators", _where(best)))
        if lane.trial.variant != ORIGINAL:
            links.append(Link(lane.candidate, "quantize", f"{lane.trial.variant} in place of the original's numbers"))
        return links


def _where(plan: Plan) -> str:
    """What runs the model."""
    if plan.delegate:
        return f"the delegate {plan.delegate}"
    kernels = {"delegate": "XNNPACK", "builtin": "the engine's own kernels", "reference": "the reference kernels"}
    return f"the {plan.accelerator.upper()}" if plan.accelerator != "cpu" else kernels[plan.kernel]
