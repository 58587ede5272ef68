"""A tuning from its beginning to its proof: search, confirm, report, the verdicts, the bundle."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from hasten.bundle.folder import PLAN_FILE, write_bundle, write_texts
from hasten.bundle.record import MODEL_FILE, Bundle
from hasten.core.codec import finite, to_data
from hasten.core.comparison import Verdict
from hasten.core.errors import DataError, Interrupted
from hasten.core.failure import Failure, RunnerFailed
from hasten.core.finding import Finding, Standing
from hasten.core.floor import FloorState
from hasten.core.goal import Goal, goal_fact
from hasten.core.limits import keeps_limit
from hasten.core.remark import remark
from hasten.core.session import Session, read_session
from hasten.data.classes import packed_labels
from hasten.data.tensor_forms import bundle_tensors
from hasten.measure.rounds import no_progress
from hasten.model.reader import read_graph
from hasten.practices.practice import Evidence
from hasten.practices.quantize.rules import ratio_facts
from hasten.practices.registry import NAMES, practice_named
from hasten.search.confirming import Confirmation
from hasten.search.facts import TuneFound, front_of
from hasten.search.folder import SESSION, TUNE, FolderError
from hasten.search.full_practices import FullPractices
from hasten.search.graph_stages import GraphStages
from hasten.search.mix_stages import MixStages
from hasten.search.search import Search
from hasten.search.untried import lacked_time, left_untried, undecided_at_the_end, without_chosen
from hasten.search.view import document

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from hasten.core.remark import Remark
    from hasten.core.trial import Trial
    from hasten.measure.rounds import Progress
    from hasten.search.candidates import Entrant
    from hasten.search.folder import SearchFolder
    from hasten.search.settings import SearchSettings
    from hasten.search.variant_store import VariantStore

    # Files that accompany a bundle, by name: the code and the report.
    Companions = Callable[[Bundle, Session], Mapping[str, str]]

_PROOF_SHARE: Final = 0.2
_LONGEST_PROOF_S: Final = 25.0
_SHORTEST_PROOF_S: Final = 6.0
# What the other part of the data and the profiles take, of a short budget.
_REST_SHARE: Final = 0.15
_SHORT_REST_SHARE: Final = 0.05
_LONGEST_REST_S: Final = 40.0
# What the bundle and the report take at the end, of a short budget.
_WRITING_S: Final = 2.0
_WRITING_SHARE: Final = 0.1
_FOR_THE_REST_S: Final = 45.0
UNREACHABLE: Final = "tune.unreachable"
NOT_REACHED: Final = "tune.not-reached"
_BROKEN_LIMITS: Final = (UNREACHABLE, NOT_REACHED)
# With a shorter budget, the rounds and the confirmation that every answer needs may take longer than all of it.
_SHORTEST_BUDGET_S: Final = 15.0
_FAR_OVER: Final = 1.5
# What the race of other models takes, where it is asked for.
_ALSO_SHARE: Final = 0.3
_LONGEST_ALSO_S: Final = 120.0


def run(
    store: VariantStore, budget_s: float, companions: Companions | None = None, progress: Progress = no_progress
) -> TuneFound | Failure:
    """Tune to the end. After Ctrl-C the folder holds the best so far as a bundle, and what was found is raised."""
    tuning = Tuning(store, budget_s, companions, progress)
    try:
        return _run(tuning)
    except FolderError as error:  # what was timed is known, whether or not it could be written
        if tuning.has_answer:
            tuning.interrupted = True
            error.found = tuning.found()
        raise
    finally:
        store.close()


def _run(tuning: Tuning) -> TuneFound | Failure:
    try:
        tuning.run()
        return tuning.found()
    except RunnerFailed as failed:
        if tuning.has_answer:  # what was found until then is of use, and --resume goes on
            tuning.conclude()
        return failed.failure
    except KeyboardInterrupt:
        if not tuning.has_answer:
            raise
        tuning.conclude()
        raise Interrupted(tuning.found()) from None


@dataclass(slots=True)
class Tuning:
    """Runs to its end, or until it is interrupted; `found` tells at any time what there is."""

    store: VariantStore
    budget_s: float
    companions: Companions | None = None
    progress: Progress = no_progress
    interrupted: bool = False
    _search: Search | None = None
    _extras: FullPractices | None = None
    _confirmation: Confirmation | None = None
    _chosen: Entrant | None = None
    _files: list[str] = field(default_factory=list)
    _took_s: float | None = None
    """Known from the last line of the session on: terminal, JSON and page tell one time."""

    @property
    def settings(self) -> SearchSettings:
        """What is asked for."""
        return self.store.settings

    @property
    def folder(self) -> SearchFolder:
        """Where everything is kept."""
        return self.store.folder

    @property
    def has_answer(self) -> bool:
        """Whether the original was timed: from then on there is something to give."""
        return self._search is not None and bool(self._search.candidates.base.trial.levels)

    def run(self) -> None:
        """All of it. A best so far is in the folder from the first minute on."""
        began, budget = time.monotonic(), self.budget_s
        proof_s = min(_LONGEST_PROOF_S, budget, max(_SHORTEST_PROOF_S, _PROOF_SHARE * budget))
        writing_s = min(_WRITING_S, _WRITING_SHARE * budget)
        rest_share = _REST_SHARE if self.settings.extras else _SHORT_REST_SHARE
        rest_s = min(_LONGEST_REST_S, max(writing_s, rest_share * budget))
        also_s = min(_LONGEST_ALSO_S, _ALSO_SHARE * budget) if self.settings.also else 0.0
        until = began + max(budget - proof_s - rest_s - also_s, 0.3 * budget)
        search = Search(self.store, budget, until, self.progress, began, on_best=self._save_best)
        self.store.tell = search.tell
        graphs, mixes = GraphStages(search), MixStages(search)
        graphs.build_kernels()
        search.open()
        search.until = max(began + 0.3 * budget, until - max(0.0, self.store.judge.reporting_s - rest_s))
        self._search = search
        self._extras = FullPractices(self.store.target, self.folder, began + budget, search.tell)
        search.race_plans()
        self.save()
        search.race_variants()
        search.decide_plans()
        graphs.race_original()
        search.race_more_variants()
        graphs.race_variants()
        self.save()
        mixes.mix()
        mixes.refit_head()
        search.race_further_sets()
        search.judge_last(search.until + rest_s / 2)
        search.skipped += undecided_at_the_end(search)
        self._confirmation = Confirmation(search, began + budget - writing_s)
        self._chosen = self._confirmation.choose(proof_s)
        search.skipped = without_chosen(search.skipped, self._chosen.trial.id)
        self._show()
        self.save(final=True)
        self.progress(1.0, "done")

    def save(self, *, final: bool = False) -> None:
        """Put the best so far where the user looks for it: the bundle first, then the line that says what it is."""
        search = self._running()
        search.candidates.refuse_changed()
        if final:
            search.elimination.explain_limits()
        search.candidates.refresh()
        entrant = self._chosen or search.best
        if final:
            self._took_s = search.candidates.elapsed_s
        found = self.found()
        if final:
            search.keep_best(entrant, confirmed=found.is_confirmed)
        self.folder.keep("result", TUNE.command, document(found))
        if final:
            for finding in found.findings:
                self.folder.keep("finding", finding.practice, to_data(finding))
        bundle = self._write_bundle(entrant, found)
        self._files = [MODEL_FILE, PLAN_FILE]
        if self.companions is not None and (final or self.interrupted):
            self._write_companions(self.companions(bundle, read_session(self.folder.path / SESSION)))

    def _save_best(self) -> None:
        """A better answer is there: whatever happens to this process, the folder has it."""
        if self.has_answer and self._chosen is None and not self.interrupted:
            self.save()

    def conclude(self) -> None:
        """After an interruption: the best so far as a bundle, and a last line that says that it was cut short."""
        self.interrupted = True
        self.save(final=True)

    def found(self) -> TuneFound:
        """What there is now."""
        search, extras = self._running(), self._extras
        first = search.candidates.base.candidate
        entrant, base = self._chosen or search.best, search.candidates.base.trial
        trials = [entry.trial for entry in search.candidates.entrants.values()]
        proof = self._confirmation.proof if self._confirmation is not None and self._chosen is not None else None
        goal, asked = self.settings.goal, self.settings.limit.asked
        untried = self._untried(search)
        ended = self._chosen is not None and not self.interrupted and not lacked_time(untried)
        limits = limit_remarks(entrant.trial, asked, ended=ended)
        found = TuneFound(
            model=self.store.candidate.model.path,
            original=base,
            best=entrant.trial,
            path=str(self.folder.path / MODEL_FILE),
            findings=(),
            front=front_of(trials, [goal, *asked]),
            steps=proof.steps if proof is not None else (),
            final=proof.comparison if proof is not None else None,
            # Of all runs of this session, as the seconds are: one that goes on enters no trial without rounds.
            trials=sum(trial.latency is not None for trial in self.folder.trials.values()),
            seconds=search.candidates.elapsed_s if self._took_s is None else self._took_s,
            interrupted=self.interrupted,
            unreachable=tuple(one for one in limits if one.code in _BROKEN_LIMITS),
            notes=(
                *self.folder.notes,
                *(one for one in limits if one.code not in _BROKEN_LIMITS),
                *goal_notes(goal),
                *stand_in_notes(trials, search.machine.stand_ins),
                *self._over_budget(),
            ),
            folder=str(self.folder.path),
            files=tuple(self._files),
            command=self.settings.command,
            max_drop=self.settings.max_drop,
            floor=self.folder.floor,
            goal=goal,
            timed=None if proof is None or goal is Goal.LATENCY else proof.result.comparison,
            raced=None if goal is Goal.LATENCY else search.candidates.compared(search.candidates.base, entrant),
            untried=untried,
            kernels=self.store.kernels.libraries_of(self.store.variant(entrant.trial.variant).rewrites),
        )
        known = Evidence(
            trials,
            entrant.trial,
            base,
            steps=found.steps,
            confirmed=found.is_confirmed,
            already=self.store.already,
            profiles=extras.profiles_of(first, entrant.candidate) if extras else (None, None),
            given=extras.findings_about(entrant.candidate) if extras else {},
            goal=goal,
            limits=asked,
        )
        return replace(found, findings=tuple(nine_findings(known)))

    def _untried(self, search: Search) -> tuple[Remark, ...]:
        """What was left untried; nothing before the end, as its turn may come."""
        if self._chosen is None and not self.interrupted:
            return ()
        return left_untried(search, self._extras.skipped if self._extras else ())

    def _over_budget(self) -> list[Remark]:
        """That even the least answer took far longer than the budget."""
        if self._took_s is None or self.interrupted:
            return []
        return over_budget(self.budget_s, self._took_s - self.folder.elapsed_s)

    def _running(self) -> Search:
        assert self._search is not None, "nothing was timed yet"
        return self._search

    def _show(self) -> None:
        """The profiles, and whatever else the budget still holds."""
        search, extras = self._running(), self._extras
        if extras is None or self._chosen is None:
            return
        search.stage = "report"
        base, chosen, graph = search.candidates.base.candidate, self._chosen.candidate, self.store.graph
        if "choose" in self.settings.also:
            extras.choose(chosen, graph, self.store.data.given, self.settings)
        if not self.settings.extras:
            return
        extras.profile(base, chosen, graph)
        self._fill_front(extras.until)
        extras.rest(base, chosen, graph)

    def _fill_front(self, until: float) -> None:
        """The accuracy of variants that are slower than the choice: some are smaller, and belong on the front."""
        search = self._running()
        entrants = [entrant for entrant in search.candidates.entrants.values() if entrant.trial.latency is not None]
        for entrant in sorted(entrants, key=search.candidates.order):
            if not entrant.trial.floor and entrant.trial.plan.accelerator != "gpu" and search.has_data:
                if time.monotonic() > until - _FOR_THE_REST_S:
                    return
                search.tell(f"accuracy of {entrant.trial.id}")
                search.elimination.guard.judge(entrant)
        # More samples decide more; nothing hangs on these any more.
        for entrant in entrants:
            if entrant.trial.floor is FloorState.UNDECIDED and entrant.trial.may_be_chosen:
                if entrant.trial.reported is not None or time.monotonic() > until - _FOR_THE_REST_S:
                    continue
                search.tell(f"{entrant.trial.id} on the reporting part of the data")
                search.elimination.guard.report(entrant, choosing=False)

    def _write_bundle(self, entrant: Entrant, found: TuneFound) -> Bundle:
        candidate, data = entrant.candidate, self.store.data
        preprocess = data.preprocess.describe()
        inputs, outputs = bundle_tensors(
            read_graph(candidate.path), candidate.workload, self._running().load_of(entrant)
        )
        bundle = Bundle(
            self.folder.path,
            plan=candidate.plan,
            workload=candidate.workload,
            inputs=inputs,
            outputs=outputs,
            preprocess="" if preprocess == "raw" else preprocess,
            label_offset=data.given.label_offset,
            labels=tuple(data.dataset.classes or packed_labels(self.store.graph)),
            measured=_measured(found),
        )
        try:
            return write_bundle(candidate.path, bundle)
        except DataError as error:
            if isinstance(error.__cause__, OSError):
                raise self.folder.trouble(error.__cause__) from error
            raise

    def _write_companions(self, texts: Mapping[str, str]) -> None:
        try:
            write_texts(self.folder.path, texts)
        except OSError as error:
            raise self.folder.trouble(error) from error
        self._files += texts


def _measured(found: TuneFound) -> dict[str, Any]:
    best = document(found)["best"]
    return {key: best[key] for key in ("variant", "latency_ms", "speedup", "ci95", "confirmed", "accuracy")}


def limit_remarks(trial: Trial, asked: Mapping[Goal, float], *, ended: bool) -> list[Remark]:
    """The limits that a result breaks, and those of which that is undecided. `ended`: whether everything was tried;
    before that, nobody knows whether a limit can be kept."""
    found = []
    for goal, most in asked.items():
        amount = trial.amount(goal)
        kept = keeps_limit(goal, most, amount)
        if kept is False and amount is not None:
            code = UNREACHABLE if ended else NOT_REACHED
            found.append(remark(code, limit=goal.value, asked=most, nearest=amount.value))
        elif kept is None:
            known: dict[str, Any] = {}
            if amount is not None:
                known = {"value": amount.value, "ci95": [finite(end) for end in amount.ci95]}
            found.append(remark("tune.limit-undecided", limit=goal.value, asked=most, **known))
    return found


def goal_notes(goal: Goal) -> list[Remark]:
    """What to know about figures of a goal other than latency."""
    codes = {
        Goal.ENERGY: ["tune.energy-counter"],
        Goal.THROUGHPUT: ["tune.throughput-crew"],
        Goal.START: ["tune.start-fresh"],
    }
    notes = [remark(code) for code in codes.get(goal, [])]
    return notes if goal is Goal.LATENCY else [*notes, remark("tune.practices-by-latency", goal=goal.value)]


def stand_in_notes(trials: Sequence[Trial], stand_ins: Mapping[str, str]) -> list[Remark]:
    """What really ran where accelerators were timed that this machine does not have."""
    timed = {trial.plan.accelerator for trial in trials if trial.latency is not None}
    return [remark("tune.stand-in", name=name, what=what) for name, what in stand_ins.items() if name in timed]


def over_budget(budget_s: float, took_s: float) -> list[Remark]:
    """That the budget was shorter than the least that a tuning does, if it was."""
    short = budget_s < _SHORTEST_BUDGET_S and took_s > _FAR_OVER * budget_s
    return [remark("tune.over-budget", budget_s=budget_s, took_s=took_s)] if short else []


def nine_findings(known: Evidence) -> list[Finding]:
    """A finding for each section of the guide, in its order: what brought something, what ran in full, or what is
    known."""
    improved = _improved(known)
    return [improved.get(name) or known.given.get(name) or practice_named(name).verdict(known) for name in NAMES]


def _improved(known: Evidence) -> dict[str, Finding]:
    """What brought something, as the final rounds measured it."""
    faster = [step for step in known.steps if known.confirmed and step.verdict is Verdict.FASTER]
    found = {}
    for step in sorted(faster, key=lambda step: -step.ratio):  # of two steps of a practice, the one that brought more
        ratio = ratio_facts(step.ratio, step.ci95)
        told = remark("tune.improved", what=to_data(step.what), ratio=ratio, **goal_fact(step.goal))
        found[step.practice] = Finding(step.practice, Standing.IMPROVED, told)
    return found
