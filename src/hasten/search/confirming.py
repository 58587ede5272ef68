"""The end of a race: the winner on the reporting part of the data, and against the original in fresh processes.

A candidate that fails there gives way to the next; a step without a gain is left out.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from hasten.core.comparison import DEFAULT_MARGIN, FEWEST_ROUNDS, Comparison, Verdict
from hasten.core.contention import compare_measurements
from hasten.core.costs import amount_of, decisive, measured_levels
from hasten.core.failure import Failure
from hasten.core.floor import FloorState, most_looks
from hasten.core.goal import Goal, goal_fact
from hasten.core.levels import latency_of
from hasten.core.limits import keeps_limit
from hasten.core.remark import Remark, remark
from hasten.core.trial import NOTHING, ORIGINAL, REPORTING, Purpose, Stage, Status, Step, Trial, trial_id
from hasten.measure.compare import ComparisonResult, compared
from hasten.measure.rounds import Rounds
from hasten.measure.schedule import Schedule
from hasten.practices.quantize.rules import origin
from hasten.search.candidates import NOT_CONFIRMED
from hasten.search.mix_stages import MixStages
from hasten.search.plans import keeps_numbers
from hasten.search.round_ratios import is_held_up
from hasten.search.view import step_data

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hasten.core.levels import Levels
    from hasten.core.measurement import Measurement
    from hasten.core.plan import Plan
    from hasten.measure.rounds import Candidate, Track
    from hasten.search.candidates import Entrant
    from hasten.search.search import Search
    from hasten.targets.base import Target

# Each candidate that fresh processes do not confirm takes the time of a proof.
_MOST_UNCONFIRMED: Final = 3
_SECONDS_EACH: Final = 0.4
_FEWEST_SECONDS_EACH: Final = 0.15
_FEWEST: Final = 3
_FEWEST_IF_LIKELY: Final = 6
_MOST_ROUNDS: Final = 25
# Practices whose steps change the plan.
_OF_PLANS: Final = ("threads", "accelerators")
_LIKELY_GAIN: Final = 0.97
# What is less than this is not worth waiting for.
_WORTH_PATIENCE: Final = 0.99


@dataclass(frozen=True, slots=True)
class Link:
    """One candidate on the way from the original to the result: what was changed last, and by which practice."""

    candidate: Candidate
    practice: str = ""
    what: Remark = NOTHING


@dataclass(frozen=True, slots=True)
class Proof:
    """The confirmation, and what each step brought."""

    chain: tuple[Link, ...]
    measurements: tuple[Measurement, ...]
    """What was measured of each candidate of the chain, not yet placed by the first."""
    results: tuple[ComparisonResult, ...]
    """Each candidate of the chain after the first, against the first."""
    steps: tuple[Step, ...]
    goal: Goal = Goal.LATENCY
    raced: Levels = field(default_factory=dict)
    """What the race has seen of the last candidate."""

    @property
    def result(self) -> ComparisonResult:
        """The latency of the result against the original's, with both measurements."""
        return self.results[-1]

    @property
    def comparison(self) -> Comparison:
        """The result against the original, by the goal."""
        if self.goal is Goal.LATENCY:
            return self.result.comparison
        return _by_goal(self.measurements[0], self.measurements[-1], self.goal)

    def measured(self) -> dict[str, Measurement]:
        """What was measured of each candidate of the chain, by its label."""
        return {link.candidate.label: one for link, one in zip(self.chain, self.measurements, strict=True)}

    @property
    def is_last_step_idle(self) -> bool:
        """Whether what was changed last brought nothing that anybody would notice; not known where every round took far
        longer than the race."""
        if len(self.steps) < 2 or is_held_up(self.measurements[-1].samples.levels, self.raced):
            return False
        last = self.steps[-1]
        return last.ratio > 1 - DEFAULT_MARGIN or (last.ratio > _LIKELY_GAIN and last.ci95[1] >= 1)

    def without_last_step(self) -> Proof:
        """The same for the candidate before."""
        return replace(
            self,
            chain=self.chain[:-1],
            measurements=self.measurements[:-1],
            results=self.results[:-1],
            steps=self.steps[:-1],
        )


@dataclass(frozen=True, slots=True)
class Pace:
    """How long a proof may take."""

    seconds: float
    patience_s: float = 0.0
    """In place of that where the choice hangs on it: a gain is likely and not sure yet, or the machine holds the last
    candidate up in every round."""
    raced: Levels = field(default_factory=dict)
    """What the race has seen of the last candidate: it shows whether it is held up."""


def prove(
    target: Target,
    chain: Sequence[Link],
    pace: Pace,
    tell: Callable[[str], None],
    goal: Goal = Goal.LATENCY,
    *,
    crews: bool = False,
) -> Proof | Failure:
    """Rounds of all candidates of the chain until the verdict on its ends is sure; three at least, and six where a gain
    is likely.

    `crews` measures throughput as well, for the goal or for a limit.
    """
    candidates = [replace(link.candidate, label=f"step {place}") for place, link in enumerate(chain)]
    rounds = Rounds(target, candidates, crews=crews or goal is Goal.THROUGHPUT)
    schedule = Schedule(pace.seconds, fewest=_FEWEST, most=_MOST_ROUNDS)
    seconds_each = _seconds_each(pace.seconds, len(chain))
    while schedule.has_round():
        tell(f"round {schedule.rounds + 1}")
        with schedule.round():
            rounds.run_one(seconds_each)
        failed = next((track.failure for track in rounds.tracks if track.failure is not None), None)
        if failed is not None:
            return failed
        if schedule.rounds >= _FEWEST:
            *before, last = (_measured(track) for track in rounds.tracks)
            found = _by_goal(before[0], last, goal)
            held_up = is_held_up(last.samples.levels, pace.raced)
            # A last step that is likely to bring something is worth the time that is there: else it is left out.
            if _is_sure(found) and not held_up and not _is_likely(_by_goal(before[-1], last, goal)):
                break
            patient = held_up or _is_likely(found)
            schedule.seconds = max(pace.seconds, pace.patience_s) if patient else pace.seconds
            # However short the time: to prove the next one would take as long as the rounds that this one lacks.
            schedule.fewest = _FEWEST_IF_LIKELY if _is_likely(found) else _FEWEST
    measurements = tuple(_measured(track) for track in rounds.tracks)
    base, *others = measurements
    results = tuple(compared(base, other, schedule.elapsed_s) for other in others)
    steps = [_step(link, *pair, base, goal) for link, pair in zip(chain[1:], pairwise([base, *others]), strict=True)]
    return Proof(tuple(chain), measurements, results, tuple(steps), goal, pace.raced)


def _seconds_each(proof_s: float, candidates: int) -> float:
    """How long each candidate runs in a round. Six rounds are to fit into the time of the proof, and to start a
    candidate takes about as long as to time it."""
    return min(_SECONDS_EACH, max(_FEWEST_SECONDS_EACH, proof_s / (2 * candidates * _FEWEST_IF_LIKELY)))


def _is_likely(found: Comparison) -> bool:
    return found.verdict is Verdict.UNDECIDED and found.ratio < _WORTH_PATIENCE


def _is_sure(found: Comparison) -> bool:
    return found.rounds >= FEWEST_ROUNDS and found.verdict is not Verdict.UNDECIDED


def _by_goal(first: Measurement, second: Measurement, goal: Goal) -> Comparison:
    """The second against the first, by the goal that is decisive for the two."""
    by = decisive(goal, first.model.size_bytes, second.model.size_bytes)
    return compare_measurements(first, second, goal=by)


def _measured(track: Track) -> Measurement:
    found = track.result()
    assert not isinstance(found, Failure), "all candidates of the chain were in all rounds"
    return found


def _step(link: Link, one: Measurement, other: Measurement, base: Measurement, goal: Goal) -> Step:
    """What one change brought. All are placed by the first of the chain, so the steps multiply to the whole."""
    goal = decisive(goal, one.model.size_bytes, other.model.size_bytes)
    found = compare_measurements(one, other, base, goal=goal)
    before, after = (it.samples.beside(base.samples).median_ms for it in (one, other))
    if goal is Goal.LATENCY:
        return Step(link.practice, before, after, after / before, found.ci95, link.what, found.verdict)
    amounts = _amount(one, base, goal), _amount(other, base, goal)
    return Step(link.practice, before, after, found.ratio, found.ci95, link.what, found.verdict, goal, amounts)


def _amount(found: Measurement, base: Measurement, goal: Goal) -> float:
    """The goal's figure of a candidate of the chain, placed by the first; NaN where it was never measured."""
    cost = latency_of(measured_levels(goal, found), measured_levels(goal, base))
    return math.nan if cost is None else amount_of(goal, cost).value


@dataclass(slots=True)
class Confirmation:
    """Chooses. `proof` is there once something other than the original was confirmed."""

    search: Search
    until: float
    """When (of the monotonic clock) the time for proofs ends: no further candidate is confirmed then."""
    proof: Proof | None = None
    _lost_plans: set[Plan] = field(default_factory=set)
    """Plans with which the original was slower in a proof than without: the race has seen the machine otherwise."""
    _instead: Entrant | None = None
    """What was not confirmed, on the plan in use."""

    def choose(self, proof_s: float) -> Entrant:
        """Fastest candidate that passes the reporting part and the confirmation; else the original."""
        self.search.stage = "confirming"
        entrant = self._first_that_stands(proof_s)
        for step in self.proof.steps if self.proof is not None else ():
            self.search.folder.keep("step", step.practice, step_data(step))
        self.search.candidates.update(entrant, status=Status.CHOSEN, stage=Stage.FINAL)
        return entrant

    def _first_that_stands(self, proof_s: float) -> Entrant:
        search, unconfirmed = self.search, 0
        for _ in range(most_looks(strict=search.settings.strict)):
            entrant = self._next()
            if self._keeps_floor(entrant):
                if self._is_confirmed(entrant, proof_s):
                    return self._simplest(entrant)
                unconfirmed += 1
            if unconfirmed == _MOST_UNCONFIRMED:
                break
            if self._instead is not None:
                continue
            # A proof that is cut in half proves nothing, and a whole one would take longer than the budget.
            if time.monotonic() + proof_s / 2 > self.until:
                break
            until = min(self.until, time.monotonic() + proof_s)
            if entrant.trial.is_refused and search.settings.mix:
                MixStages(search).further(entrant.trial, until)
            search.kin(until)  # they enter the race again with all that had dropped out
            search.elimination.revive(until)
        plain = self._fastest_as_original()
        # Whatever the looks before have cost: a last proof is worth its time, as the answer would be no gain at all.
        if plain is not None and self._keeps_floor(plain) and self._is_confirmed(plain, proof_s):
            return plain
        self._keeps_floor(search.candidates.base)
        return search.candidates.base

    def _next(self) -> Entrant:
        """Who is to be confirmed now."""
        instead, self._instead = self._instead, None
        entrant = instead or self.search.best
        # The original needs no proof: that time is for whoever may be faster.
        is_base = entrant is self.search.candidates.base
        return (self.search.elimination.challenger or entrant) if is_base else entrant

    def _fastest_as_original(self) -> Entrant | None:
        """The best that computes what the original computes, where that is not the original itself: no look before says
        anything against it."""
        search, base = self.search, self.search.candidates.base
        alike = [
            one
            for one in search.candidates.entrants.values()
            if one.trial.computes_as_original
            and keeps_numbers(one.trial.plan, base.trial.plan)
            and one.trial.plan not in self._lost_plans
        ]
        best = search.elimination.best_of(alike)
        return None if best is base else best

    def _keeps_floor(self, entrant: Entrant) -> bool:
        """Whether the entrant may be chosen after it was evaluated on the reporting part of the data."""
        search = self.search
        if not search.has_data:
            return True
        search.tell(f"{entrant.trial.id} on the reporting part of the data")
        kept = search.elimination.guard.report(entrant)
        verdict = entrant.trial.reported
        if entrant.trial.is_refused and verdict is not None:
            code = "tune.broke-other-half" if verdict.state is FloorState.BROKEN else "tune.unproven-on-reporting"
            lost = search.store.judge.lost(REPORTING, verdict)
            search.folder.note(remark(code, trial=entrant.trial.id, lost=lost))
        return kept

    def _is_confirmed(self, entrant: Entrant, seconds: float) -> bool:
        """Whether fresh processes confirm the speedup; not required if the original breaks a limit."""
        search = self.search
        base = search.candidates.base
        if entrant is base:
            return True
        chain = self._chain(entrant)
        pace = Pace(seconds, self.until - time.monotonic(), entrant.trial.levels)

        def proven(links: Sequence[Link]) -> Proof | Failure:
            goal, crews = search.settings.goal, search.settings.measures_throughput
            return prove(search.store.target, links, pace, search.tell, goal, crews=crews)

        proof = proven(chain)
        if isinstance(proof, Failure) and len(chain) > 2:  # what lies between may fail where both ends run
            ends = [chain[0], replace(chain[-1], what=remark("step.all", trial=entrant.trial.id))]
            proof = proven(ends)
        if isinstance(proof, Failure):
            search.candidates.fail(entrant, proof.message)
            return False
        search.candidates.adopt(proof.measured())
        judging = search.has_data and time.monotonic() < self.until
        if not search.elimination.fits(entrant) and search.elimination.has_fitting(judging=judging):
            return False  # it is shown to break a limit that another keeps
        goal, asked = search.settings.goal, search.settings.limit.asked
        # A limit on the goal itself only says how good the result must be.
        others = {limited: most for limited, most in asked.items() if limited is not goal}
        needed = any(
            keeps_limit(limited, most, base.trial.amount(limited)) is False for limited, most in others.items()
        )
        if proof.comparison.verdict is not Verdict.FASTER and not needed:
            facts = {
                "verdict": proof.comparison.verdict.value,
                "ratio": proof.comparison.ratio,
                **goal_fact(proof.goal),
            }
            search.candidates.drop(entrant, remark(NOT_CONFIRMED, **facts), stage=Stage.FINAL)
            search.folder.keep("comparison", entrant.trial.id, proof.result.as_data())
            search.folder.note(remark("tune.not-confirmed", trial=entrant.trial.id, **facts))
            self._instead = self._on_plan_in_use(entrant, proof)
            return False
        self.proof = proof
        search.folder.keep("comparison", "final", proof.result.as_data())
        return True

    def _on_plan_in_use(self, entrant: Entrant, proof: Proof) -> Entrant | None:
        """The same variant as the original runs, where it is the plan that was not proven and not the variant: the
        second thread of a small model takes 1.7 times as long for seconds, and one thread says what the variant is
        worth."""
        search, base = self.search, self.search.candidates.base.trial.plan
        of_plan = {step.verdict for step in proof.steps if step.practice in _OF_PLANS}
        variant = math.prod(step.ratio for step in proof.steps if step.practice not in _OF_PLANS)
        plan = entrant.trial.plan
        if entrant.trial.variant == ORIGINAL or not keeps_numbers(plan, base):
            return None
        if Verdict.SLOWER in of_plan:
            self._lost_plans.add(plan)
        elif not of_plan - {Verdict.FASTER} or variant > _LIKELY_GAIN:
            return None
        instead = search.enter(entrant.trial.variant, base)
        search.elimination.guard.judge(instead)
        return instead if instead.trial.may_be_chosen and search.elimination.fits(instead) else None

    def _simplest(self, entrant: Entrant) -> Entrant:
        """The entrant, or the one before its last step if that step brought nothing and the simpler one is as right."""
        search, proof = self.search, self.proof
        if proof is None or entrant is search.candidates.base or not proof.is_last_step_idle:
            return entrant
        simpler = search.candidates.entrants.get(proof.chain[-2].candidate.label)
        if simpler is None or not simpler.trial.may_be_chosen or not search.elimination.fits(simpler):
            return entrant
        less = proof.without_last_step()
        if less.comparison.verdict is not Verdict.FASTER or not self._keeps_floor(simpler):
            return entrant
        self.proof = less
        by = goal_fact(proof.goal)
        search.folder.note(remark("tune.simpler", trial=entrant.trial.id, than=simpler.trial.id, **by))
        search.candidates.drop(entrant, remark("trial.no-faster", than=simpler.trial.id, **by), stage=Stage.FINAL)
        search.folder.keep("comparison", "final", less.result.as_data())
        return simpler

    def _chain(self, entrant: Entrant) -> list[Link]:
        """From the original to the result, one change at a time: threads of the CPU, what runs the model, its graph,
        its numbers."""
        search, work = self.search, self.search.store
        base, best = search.candidates.base.trial.plan, entrant.trial.plan
        threads = best.threads if best.runs_on_cpu else self._best_threads(base)

        def original(plan: Plan) -> Candidate:
            return work.candidate_of(work.original, plan, trial_id(ORIGINAL, plan))

        links = [Link(original(base))]
        if threads != base.threads:
            what = remark("step.threads", threads=threads, before=base.threads)
            links.append(Link(original(replace(base, threads=threads)), "threads", what))
        if _where(best) != _where(base):
            where = replace(best, cache=base.cache, threads=threads)
            links.append(Link(original(where), "accelerators", remark("step.where", **_where(best))))
            if best.threads != threads:  # of the CPU, which runs what is left to it: a change of its own
                what = remark("step.threads", threads=best.threads, before=threads)
                links.append(Link(original(replace(where, threads=best.threads)), "threads", what))
        if best.cache != base.cache:
            links.append(Link(original(best), "accelerators", remark("step.cache")))
        for one in self._lineage(entrant.trial.variant):
            candidate = work.candidate_of(one, best, trial_id(one.variant, best))
            if one.purpose is not Purpose.REWRITE:
                links.append(Link(candidate, "quantize", remark("step.variant", **origin(one))))
                continue
            before = links.pop().what.facts["rewrites"] if links[-1].practice == "operators" else []
            what = remark("step.rewritten", rewrites=[*before, *one.rewrites])
            links.append(Link(candidate, "operators", what))
        return links

    def _lineage(self, variant: str) -> list[Trial]:
        """The variants on the way from the original to this one, each made of the one before."""
        found: list[Trial] = []
        while variant not in ("", ORIGINAL):
            found.insert(0, self.search.store.variant(variant))
            variant = found[0].source
        return found

    def _best_threads(self, base: Plan) -> int:
        """The number of threads with which the CPU runs the original fastest: what an accelerator is measured by."""
        candidates = self.search.candidates
        counts = {
            entrant.trial.plan.threads: candidates.on_plan(entrant)
            for entrant in candidates.entrants.values()
            if entrant.trial.variant == ORIGINAL
            and entrant.trial.plan == replace(base, threads=entrant.trial.plan.threads)
        }
        fastest = min(counts, key=lambda threads: counts[threads])
        return fastest if counts[fastest] < math.log(_LIKELY_GAIN) else base.threads


def _where(plan: Plan) -> dict[str, str]:
    """What runs the model."""
    return {"delegate": plan.delegate, "accelerator": plan.accelerator, "kernel": plan.kernel}
