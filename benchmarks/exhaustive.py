"""The grid: an exhaustive search of the candidates that `tune` has. It shares how variants are made and what the floor
means, and nothing of the search itself.

Its variants: the model as it is and rewritten; every recipe of it, and of the rewritten model where that is faster on
some plan; static and dynamic int8 without the nodes that integers slow down there, by a profile for each number of
threads, on the CPU; and whatever of these keeps the floor near the best with its own graph rewritten. Each other one is
timed with every plan, all in fresh processes of their own. A cell is cut short after its first second where it takes
more than three times as long as the original on its best CPU plan, which keeps the floor. Accuracies are measured
wherever a cell could be the best: in the order of their times, until cells are slower than the fastest that keeps the
floor by more than the noise of their times. Of variants without slow nodes, recipes with the same kernels follow where
the first one would be the best and breaks the floor. The fastest that keep it meet once more in interleaved rounds, one
of each kind, as recipes with the same kernels would fill all places with copies of one candidate: the winner is the
grid's best.

Mixes for the sake of the floor are no cells: there are as many as subsets of the nodes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from benchmarks.race import levels_in_rounds, of_candidate, usual
from hasten.api import SearchSettings
from hasten.core.errors import HastenError
from hasten.core.failure import Failure
from hasten.core.floor import FloorState
from hasten.core.plan import Plan, Workload
from hasten.core.trial import NOTHING, ORIGINAL, Purpose, Trial, trial_id
from hasten.data.request import open_data
from hasten.data.tensor_forms import forms_from_graph
from hasten.measure.bench import bench
from hasten.measure.opening import open_model
from hasten.search.accuracy import AccuracyJudge
from hasten.search.folder import QUANTIZE, SearchFolder
from hasten.search.plans import alike_in_speed, numbers_of, plans_to_try
from hasten.search.rewriting import Rewriter
from hasten.search.settings import compared_settings
from hasten.search.variant_store import VariantRequest, VariantStore
from hasten.targets.local import LocalTarget
from hasten.variants.recipes import RECIPE_NAMES, recipe_from_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from hasten.data.request import Data
    from hasten.measure.rounds import Candidate

MAX_DROP: Final = 0.01
_GLANCE_SECONDS: Final = 1.0
_HOPELESS: Final = 3.0
# Enough runs for a median, with bounds: fresh processes take most of the time of a quick model.
_RUNS_A_CELL: Final = 150
_FEWEST_SECONDS, _MOST_SECONDS = 2.5, 5.0
# The noise of a cell's time: what is slower than one that keeps the floor by more is not the best.
_NEAR: Final = 1.25
# A rewritten model that is faster by less, variants of it are not either.
_FASTER: Final = 0.98
_FINALISTS, _FINAL_NEAR = 6, 1.1
_FINAL_ROUNDS, _FINAL_SECONDS = 6, 0.4
# The first of each kind is profiled: those with the same kernels have the same slow nodes.
_PROFILED: Final = ("static_int8", "dynamic_int8")


@dataclass(slots=True, eq=False)
class Cell:
    """A variant with a plan, and what is known of the two."""

    trial: Trial
    candidate: Candidate
    median_ms: float = math.inf
    """Infinite where it does not run."""
    is_cut: bool = False
    """Whether a second was enough to see that it is hopeless."""
    is_kept: bool | None = None
    """Whether the floor allows to choose it; None where that was not asked."""
    drop: float | None = None
    why: str = ""

    @property
    def id(self) -> str:
        """As in `tune`."""
        return trial_id(self.trial.variant, self.candidate.plan)

    @property
    def numbers(self) -> tuple[str, str]:
        """Cells that agree in this give the same answers."""
        return self.trial.variant, numbers_of(self.candidate.plan)

    def as_data(self) -> dict[str, Any]:
        """For the result."""
        known = None if math.isinf(self.median_ms) else self.median_ms
        return {"median_ms": known, "cut": self.is_cut, "kept": self.is_kept, "drop": self.drop, "why": self.why}


def fastest_kept(cells: Sequence[Cell]) -> float:
    """The shortest time of those that keep the floor."""
    return min((cell.median_ms for cell in cells if cell.is_kept), default=math.inf)


def next_to_judge(cells: Sequence[Cell]) -> Cell | None:
    """The fastest whose accuracy is not known and that could be the best."""
    most = _NEAR * fastest_kept(cells)
    waiting = [cell for cell in cells if cell.is_kept is None and math.isfinite(cell.median_ms)]
    return min((cell for cell in waiting if cell.median_ms <= most), key=lambda cell: cell.median_ms, default=None)


def near_the_best(cells: Sequence[Cell], within: float) -> list[Cell]:
    """Those that keep the floor and take at most so many times as long as the fastest of them, the fastest first."""
    most = within * fastest_kept(cells)
    return sorted((one for one in cells if one.is_kept and one.median_ms <= most), key=lambda one: one.median_ms)


def finalists_of(cells: Sequence[Cell]) -> list[Cell]:
    """The fastest of each kind near the best. Cells of a kind differ in numbers only, and in noise."""
    trials = {cell.trial.variant: cell.trial for cell in cells}
    of_kinds: dict[object, Cell] = {}
    for cell in near_the_best(cells, _FINAL_NEAR):
        recipe = recipe_from_name(cell.trial.recipe).kernels if cell.trial.recipe else None
        kind = recipe, cell.trial.float_nodes, _rewritten_when(cell.trial, trials), cell.candidate.plan
        of_kinds.setdefault(kind, cell)
    return list(of_kinds.values())[:_FINALISTS]


def _rewritten_when(trial: Trial, trials: Mapping[str, Trial]) -> tuple[bool, ...]:
    """For each step from the original on, whether it rewrote the graph: before or after quantizing is not the same."""
    source = trials.get(trial.source)
    return *(_rewritten_when(source, trials) if source else ()), trial.purpose is Purpose.REWRITE


class Floor:
    """What `tune` may choose, decided as `tune` decides it, on both parts of the data."""

    def __init__(self, judge: AccuracyJudge) -> None:
        self._judge = judge
        self._known: dict[object, tuple[bool, float | None, str]] = {}

    def of(self, trial: Trial, candidate: Candidate, key: object) -> tuple[bool, float | None, str]:
        """Whether a candidate may be chosen, what it loses, and why it fails; asked once for a key."""
        if key not in self._known:
            self._known[key] = self._found(trial, candidate)
        return self._known[key]

    def _found(self, trial: Trial, candidate: Candidate) -> tuple[bool, float | None, str]:
        try:
            found = self._judge.judged(trial, candidate)
            if found.may_be_chosen:
                found = self._judge.reported(found, candidate)
        except HastenError as error:
            return False, None, error.message
        why = str(found.why.facts.get("message", found.why.code))
        return found.may_be_chosen, found.lost, why


class Grid:
    """All cells of a model. The folder is for its variants, and has to outlive it."""

    def __init__(self, model: Path, data: Data, folder: Path, seconds_a_cell: float = 0.0) -> None:
        """`seconds_a_cell` of 0 is what the model's runs take."""
        candidate, graph = open_model(model)
        opened = open_data(data, forms_from_graph(graph, Workload()).inputs)
        settings = SearchSettings(max_drop=MAX_DROP)
        place = SearchFolder(folder, QUANTIZE, compared_settings(candidate, opened, settings))
        self.target = LocalTarget()
        self.store = VariantStore(self.target, candidate, graph, opened, settings, place)
        self.plans = plans_to_try(self.target.machine(), Plan())
        self.cells: list[Cell] = []
        self.finals: dict[str, float] = {}
        """What the finalists take in interleaved rounds."""
        self._seconds = seconds_a_cell
        self._hopeless_ms = math.inf
        self._floor = Floor(self.store.judge)
        self._rewriter = Rewriter(self.store)

    def run(self) -> Cell:
        """Time everything, judge what could be the best, and find it."""
        try:
            self._time_original()
            rewritten = self._rewritten(self.store.original)
            if self.store.already == NOTHING:
                self._time_recipes()
                if rewritten is not None and self._pays(rewritten):
                    self.store.build_on(rewritten)
                    self._time_recipes()
            self._judge()
            while made := [*self._like_those_without_slow_nodes(), *self._rewritten_of_the_best()]:
                for trial, plans in made:
                    self._time(trial, plans)
                self._judge()
            return self._best()
        finally:
            self.store.close()

    def _time_original(self) -> None:
        original = self.store.original
        self._time(original, [Plan()])
        if math.isinf(self.cells[0].median_ms):
            raise RuntimeError(f"the original does not run: {self.cells[0].why}")
        wanted_s = _RUNS_A_CELL * self.cells[0].median_ms / 1000
        self._seconds = self._seconds or min(_MOST_SECONDS, max(_FEWEST_SECONDS, wanted_s))
        # The CPU's plans first: what is hopeless is told by them.
        for plan in sorted(self.plans, key=lambda plan: not plan.runs_on_cpu):
            if plan != Plan():
                self._time(original, [plan])
            as_original = [one.median_ms for one in self.cells if numbers_of(one.candidate.plan) == numbers_of(Plan())]
            self._hopeless_ms = _HOPELESS * min(as_original)

    def _time_recipes(self) -> None:
        """All recipes, then int8 without slow nodes."""
        made = [self.store.make(VariantRequest(name)) for name in RECIPE_NAMES]
        for trial in made:
            self._time(trial, self.plans)
        for trial in made:
            if trial.path and trial.recipe in _PROFILED:
                plans = [plan for plan in self.plans if plan.runs_on_cpu and plan.kernel == "delegate"]
                for nodes in [nodes for plan in plans for nodes in self.store.slow_nodes(trial, plan)]:
                    request = VariantRequest(trial.recipe, nodes, Purpose.SLOW_NODES, trial.variant)
                    self._time(self.store.make(request), plans)

    def _time(self, trial: Trial, plans: Sequence[Plan]) -> None:
        """A variant on plans, unless it has those cells; one that cannot be made has none."""
        if not trial.path or trial.floor is FloorState.FAILED:
            return
        known = {cell.id for cell in self.cells}
        cells = [Cell(trial, self.store.candidate_of(trial, plan)) for plan in plans]
        for cell in (one for one in cells if one.id not in known):
            self._bench(cell, _GLANCE_SECONDS)
            cell.is_cut = self._hopeless_ms < cell.median_ms < math.inf
            if not cell.is_cut and not cell.why:
                self._bench(cell, (self._seconds or _FEWEST_SECONDS) - _GLANCE_SECONDS)
            self.cells.append(cell)
            shown = cell.why or f"{cell.median_ms:.4g} ms{' (cut short)' if cell.is_cut else ''}"
            print(f"  {cell.id}: {shown}", flush=True)

    def _bench(self, cell: Cell, seconds: float) -> None:
        found = bench(self.target, cell.candidate, max(seconds, _GLANCE_SECONDS / 2))
        if isinstance(found, Failure):
            cell.median_ms, cell.why = math.inf, found.message
        else:
            cell.median_ms = found.samples.median_ms

    def _rewritten(self, source: Trial) -> Trial | None:
        """The source rewritten, timed on all plans; None if nothing applies, or its outputs differ."""
        made = self._rewriter.rewritten(source)
        if made is None or made.floor is FloorState.FAILED:
            return None
        self._time(made, self.plans)
        return made

    def _pays(self, rewritten: Trial) -> bool:
        by_plan = {one.candidate.plan: one.median_ms for one in self.cells if one.trial.variant == ORIGINAL}
        of_it = [cell for cell in self.cells if cell.trial.variant == rewritten.variant and not cell.is_cut]
        return any(cell.median_ms < _FASTER * by_plan[cell.candidate.plan] for cell in of_it)

    def _judge(self) -> None:
        while (cell := next_to_judge(self.cells)) is not None:
            if cell.trial.computes_as_original and numbers_of(cell.candidate.plan) == numbers_of(Plan()):
                cell.is_kept, cell.drop = True, 0.0
            else:
                cell.is_kept, cell.drop, cell.why = self._floor.of(cell.trial, cell.candidate, cell.numbers)
                lost = cell.why if cell.drop is None else f"loses {cell.drop:.2%}"
                print(f"  {cell.id}: {'keeps' if cell.is_kept else 'breaks'} the floor, {lost}", flush=True)

    def _like_those_without_slow_nodes(self) -> Iterator[tuple[Trial, list[Plan]]]:
        """Recipes with the same kernels and the same nodes in float, where the first would be the best."""
        best, source = fastest_kept(self.cells), self.store.source.variant
        broken = [one for one in self.cells if one.is_kept is False and one.median_ms < best]
        wanted = [one for one in broken if one.trial.purpose is Purpose.SLOW_NODES]
        for cell in (one for one in wanted if (one.trial.source or ORIGINAL) == source):
            for name in alike_in_speed(cell.trial.recipe):
                request = VariantRequest(name, cell.trial.float_nodes, Purpose.SLOW_NODES, name)
                if recipe_from_name(name).is_int8 and self.store.known(request) is None:
                    yield self.store.make(request), [cell.candidate.plan]

    def _rewritten_of_the_best(self) -> Iterator[tuple[Trial, list[Plan]]]:
        """Variants near the best with their own graphs rewritten, on the plans where they are near it."""
        near = near_the_best(self.cells, _NEAR)
        for variant in dict.fromkeys(cell.trial.variant for cell in near if cell.trial.purpose is not Purpose.REWRITE):
            source = self.store.variant(variant)
            plans = [cell.candidate.plan for cell in near if cell.trial.variant == variant]
            made = None if variant == ORIGINAL else self._rewriter.rewritten(source)
            known = {cell.id for cell in self.cells}
            if made is not None and any(trial_id(made.variant, plan) not in known for plan in plans) and made.path:
                yield made, plans

    def _best(self) -> Cell:
        finalists = finalists_of(self.cells)
        if len(finalists) == 1:
            return finalists[0]
        levels = levels_in_rounds([of_candidate(one.candidate) for one in finalists], _FINAL_ROUNDS, _FINAL_SECONDS)
        self.finals = {one.id: math.exp(usual(found)) for one, found in zip(finalists, levels, strict=True)}
        return min(finalists, key=lambda one: self.finals[one.id])


def floor_of(model: Path, data: Data) -> tuple[Floor, AccuracyJudge]:
    """The floor of a model by itself, for candidates of any origin, and the judge behind it."""
    candidate, graph = open_model(model)
    opened = open_data(data, forms_from_graph(graph, Workload()).inputs)
    settings = SearchSettings(max_drop=MAX_DROP)
    judge = AccuracyJudge(LocalTarget(), (candidate, graph), opened, settings, lambda text: None, lambda note: None)
    return Floor(judge), judge


def as_trial(name: str, candidate: Candidate) -> Trial:
    """A candidate of another origin as what a judge takes."""
    return Trial(name, candidate.plan, path=str(candidate.path))
