"""A tuning from its beginning to its proof: search, confirm, report on the other half, nine verdicts, bundle."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from hasten.core.comparison import Verdict
from hasten.core.failure import Failure, RunnerFailed
from hasten.core.tuning import BROKEN, CHOSEN, DROPPED, FAILED, FINAL, KEPT, ORIGINAL, TuneResult, pareto_front
from hasten.core.tuning_words import verdict_sentence
from hasten.core.units import percent
from hasten.data.classes import packed_labels
from hasten.measure.rounds import no_progress
from hasten.tune.bundle import Companions, no_companions, write_result
from hasten.tune.extras import Extras
from hasten.tune.final import Link, Proof, prove
from hasten.tune.folder import COMMAND
from hasten.tune.search import Search
from hasten.tune.verdicts import Evidence, nine_findings

if TYPE_CHECKING:
    from hasten.core.plan import Plan
    from hasten.measure.rounds import Progress
    from hasten.targets.client import LoadReport
    from hasten.tune.field import Lane
    from hasten.tune.folder import TuneFolder
    from hasten.tune.settings import TuneSettings
    from hasten.tune.workshop import Workshop

_PROOF_SHARE: Final = 0.2
_LONGEST_PROOF_S: Final = 25.0
_SHORTEST_PROOF_S: Final = 6.0
# What the other half of the data and the profiles take, of a short budget.
_REST_SHARE: Final = 0.15
_SHORT_REST_SHARE: Final = 0.05
_LONGEST_REST_S: Final = 40.0
_MOST_SETBACKS: Final = 3
_FOR_THE_REST_S: Final = 45.0


@dataclass(slots=True)
class Tuning:
    """Runs to its end, or until it is interrupted; `found` tells at any time what there is."""

    workshop: Workshop
    settings: TuneSettings
    folder: TuneFolder
    version: str = ""
    companions: Companions = no_companions
    progress: Progress = no_progress
    interrupted: bool = False
    _search: Search | None = None
    _extras: Extras | None = None
    _proof: Proof | None = None
    _chosen: Lane | None = None
    _began: float = 0.0
    _files: list[str] = field(default_factory=list)

    @property
    def has_answer(self) -> bool:
        """Whether the original was timed: from then on there is something to give."""
        return self._search is not None and bool(self._search.lanes.base.trial.levels)

    def run(self, progress: Progress = no_progress) -> None:
        """All of it. A best so far is in the folder from the first minute on."""
        self.progress = self.workshop.progress = progress
        self._began = time.monotonic()
        budget = self.settings.budget_s
        proof_s = min(_LONGEST_PROOF_S, budget, max(_SHORTEST_PROOF_S, _PROOF_SHARE * budget))
        rest_s = min(_LONGEST_REST_S, (_REST_SHARE if self.settings.extras else _SHORT_REST_SHARE) * budget)
        until = self._began + max(budget - proof_s - rest_s, 0.3 * budget)
        search = Search(self.workshop, self.settings, self.folder, self.version, self._began, until, progress)
        search.open()
        self._search = search
        self._extras = Extras(self.workshop.target, self.folder, self._began + budget, search.tell)
        search.race_plans()
        self.save()
        search.race_variants()
        self.save()
        search.mix()
        self._choose(proof_s)
        self._show()
        self.save(final=True)
        progress(1.0, "done")

    def close(self) -> None:
        """Leave nothing running."""
        self.workshop.close()
        self.folder.close()

    def save(self, *, final: bool = False) -> None:
        """Put the best so far where the user looks for it: the bundle first, then the line that says what it is."""
        search = self._running()
        search.lanes.refuse_changed()
        lane = self._chosen or search.best
        found = self.found()
        self.folder.keep("result", COMMAND, found.as_data())
        if final:
            for finding in found.findings:
                self.folder.keep("finding", finding.practice, finding.as_data())
        companions = self.companions if final or self.interrupted else no_companions
        self._files = write_result(
            self.folder.path, lane.candidate, self._load_of(lane), found, companions, self._facts()
        )

    def conclude(self) -> None:
        """After an interruption: the best so far as a bundle, and a last line that says that it was cut short."""
        self.interrupted = True
        self.save(final=True)

    def found(self) -> TuneResult:
        """What there is now."""
        search = self._running()
        lane = self._chosen or search.best
        trials = [entry.trial for entry in search.lanes.lanes.values()]
        proof = self._proof if self._chosen is not None and lane is not search.lanes.base else None
        known = Evidence(
            trials, lane.trial, search.lanes.base.trial,
            steps=proof.steps if proof is not None else (),
            confirmed=proof is not None and proof.comparison.verdict is Verdict.FASTER,
            already=self.workshop.already,
            profiles=(self._extras.profiles[0], self._extras.profiles[1]) if self._extras else (None, None),
            given=self._extras.findings if self._extras else {}, max_drop=self.settings.max_drop,
        )  # fmt: skip
        result = TuneResult(
            model=self.workshop.candidate.model.path, original=search.lanes.base.trial, best=lane.trial,
            path=str(self.folder.path / "model.tflite"), verdict="", findings=tuple(nine_findings(known)),
            front=tuple(pareto_front(trials)), steps=known.steps if isinstance(known.steps, tuple) else (),
            final=proof.comparison if proof is not None else None,
            trials=sum(trial.latency is not None for trial in trials), seconds=search.lanes.elapsed_s,
            interrupted=self.interrupted,
            unreachable=tuple(self.settings.limit.misses(lane.trial.median_ms, lane.trial.size_bytes)),
            notes=tuple(self.workshop.notes), folder=str(self.folder.path), files=tuple(self._files),
            command=self.settings.command, max_drop=self.settings.max_drop,
        )  # fmt: skip
        return replace(result, verdict=verdict_sentence(result))

    def _running(self) -> Search:
        assert self._search is not None, "nothing was timed yet"
        return self._search

    def _choose(self, proof_s: float) -> None:
        """Report on the other half and confirm; whoever fails there gives way to the next."""
        search = self._running()
        search.stage = "confirming"
        for _ in range(_MOST_SETBACKS):
            lane = search.best
            if self._keeps_floor(lane) and self._is_confirmed(lane, proof_s):
                lane = self._simplest(lane)
                break
            search.contest.revive(time.monotonic() + proof_s)
        else:
            lane = search.lanes.base
            self._keeps_floor(lane)
        self._chosen = lane
        for step in self._proof.steps if self._proof is not None and lane is not search.lanes.base else ():
            self.folder.keep("step", step.practice, step.as_data())
        search.lanes.update(lane, status=CHOSEN, stage=FINAL)

    def _keeps_floor(self, lane: Lane) -> bool:
        """The lane on the half of the data that had no part in the choice."""
        search = self._running()
        if not self.settings.has_data:
            return True
        search.tell(f"{lane.trial.id} on the other half of the data")
        change = search.contest.guard.report(lane)
        if change is None or change.drop <= self.settings.max_drop + 1e-9:
            return True
        lost = percent(change.drop)
        search.lanes.update(lane, status=BROKEN, floor=BROKEN, why=f"loses {lost} on the other half of the data")
        self.workshop.note(
            f"{lane.trial.id} kept the floor on one half of the data and lost {lost} on the other, which decided"
        )
        return False

    def _is_confirmed(self, lane: Lane, seconds: float) -> bool:
        """Whether fresh processes show what the race has shown. A limit that asks for it makes a slower one welcome."""
        search = self._running()
        base = search.lanes.base
        if lane is base:
            return True
        proof = prove(self.workshop.target, self._chain(lane), seconds, search.tell)
        if isinstance(proof, Failure):
            search.lanes.update(lane, status=FAILED, why=proof.message)
            return False
        needed = not self.settings.limit.holds(base.trial.median_ms, base.trial.size_bytes)
        if proof.comparison.verdict is not Verdict.FASTER and not needed:
            said = proof.comparison.verdict.value
            search.lanes.update(lane, status=DROPPED, stage=FINAL, why=f"fresh processes call it {said}, not faster")
            self.folder.keep("comparison", lane.trial.id, proof.result.as_data())
            return False
        self._proof = proof
        self._take_proof(lane)
        return True

    def _simplest(self, lane: Lane) -> Lane:
        """The lane itself; or the one before its last step, if that brought nothing and the simpler one is as right."""
        search, proof = self._running(), self._proof
        if proof is None or lane is search.lanes.base or not proof.is_last_step_idle:
            return lane
        link = self._chain(lane)[-2].candidate
        simpler = search.lanes.lane_of(ORIGINAL, link.plan)
        if simpler is None or simpler.trial.floor != KEPT or not search.contest.fits(simpler):
            return lane
        less = proof.without_last_step()
        if less.comparison.verdict is not Verdict.FASTER or not self._keeps_floor(simpler):
            return lane
        self._proof = less
        self.workshop.note(f"{lane.trial.id} is no faster than {simpler.trial.id}, which is simpler")
        search.lanes.update(lane, status=DROPPED, stage=FINAL, why=f"no faster than {simpler.trial.id}")
        self._take_proof(simpler)
        return simpler

    def _take_proof(self, lane: Lane) -> None:
        """The figures of the confirmation in place of those of the race."""
        search, proof = self._running(), self._proof
        assert proof is not None
        self.folder.keep("comparison", "final", proof.result.as_data())
        search.lanes.update(lane, latency=proof.result.second.samples.latency, against=proof.comparison)
        search.lanes.update(search.lanes.base, latency=proof.result.first.samples.latency)

    def _chain(self, lane: Lane) -> list[Link]:
        """From the original to the result, a practice at a time."""
        base, best = self._running().lanes.base.trial.plan, lane.trial.plan
        links = [Link(self.workshop.candidate_of(ORIGINAL, base))]
        on_cpu = best.accelerator == "cpu" and not best.delegate
        if on_cpu and best.threads != base.threads:
            what = f"{best.threads} threads in place of {base.threads}"
            plan = replace(base, threads=best.threads)
            links.append(Link(self.workshop.candidate_of(ORIGINAL, plan), "threads", what))
        if numbers := _where(best) if _where(best) != _where(base) else "":
            links.append(Link(self.workshop.candidate_of(ORIGINAL, best), "accelerators", numbers))
        if lane.trial.variant != ORIGINAL:
            links.append(Link(lane.candidate, "quantize", f"{lane.trial.variant} in place of the original's numbers"))
        return links

    def _show(self) -> None:
        """The profiles, and whatever else the budget still holds."""
        search, extras = self._running(), self._extras
        if extras is None or self._chosen is None or not self.settings.extras:
            return
        search.stage = "what else there is to say"
        base, chosen, graph = search.lanes.base.candidate, self._chosen.candidate, self.workshop.graph
        extras.profile(base, chosen, graph)
        self._fill_front(extras.until)
        extras.rest(base, chosen, graph)

    def _fill_front(self, until: float) -> None:
        """The accuracy of variants that are slower than the choice: some are smaller, and belong on the front."""
        search = self._running()
        lanes = [lane for lane in search.lanes.lanes.values() if lane.trial.latency is not None]
        for lane in sorted(lanes, key=search.lanes.relative):
            if not lane.trial.floor and lane.trial.plan.accelerator != "gpu" and self.settings.has_data:
                if time.monotonic() > until - _FOR_THE_REST_S:
                    return
                search.tell(f"accuracy of {lane.trial.id}")
                search.contest.guard.judge(lane)

    def _load_of(self, lane: Lane) -> LoadReport:
        """What the engine said when it loaded the lane's model; asked again after a --resume."""
        if lane.track.loads:
            return lane.track.loads[-1]
        try:
            with self.workshop.target.start(lane.trial.plan) as runner:
                return runner.load(lane.candidate.path, lane.candidate.workload)
        except RunnerFailed as failed:
            raise failed.failure.error(lane.trial.plan) from failed

    def _facts(self) -> dict[str, object]:
        """What the bundle says beside the model and its plan."""
        data = self.workshop.data
        labels = data.dataset.classes or packed_labels(self.workshop.graph)
        words = data.preprocess.describe()
        return {
            "preprocess": "" if words == "raw" else words, "label_offset": self.settings.label_offset,
            "labels": list(labels),
        }  # fmt: skip


def _where(plan: Plan) -> str:
    """What runs the model."""
    if plan.delegate:
        return f"the delegate {plan.delegate}"
    kernels = {"delegate": "XNNPACK", "builtin": "the engine's own kernels", "reference": "the reference kernels"}
    return f"the {plan.accelerator.upper()}" if plan.accelerator != "cpu" else kernels[plan.kernel]
