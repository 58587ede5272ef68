"""Tune against an exhaustive grid of the same candidates: how far its choice is from the best, and what it costs.

For the embedded model and the real ones that are there, every variant is timed with every plan in fresh processes of
its own, and evaluated on both parts of the data wherever it could be the best. Then `hasten tune` gets less than a
fifth of the time that the grid took. The two choices are confirmed against each other.

Wanted: a choice within 3 % of the grid's best that keeps the floor (regret), in at most 25 % of its time (cost).
Six models: on a seventh alike, a choice this far from the best would be a surprise, but no more than that. With the
defaults a model takes two to three minutes, the six about 16 on a quiet machine of two cores.
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.cases import CASES, USUAL_CASES, Case
from benchmarks.common import record
from hasten.api import Data, Effort, SearchSettings, compare, document, tune
from hasten.core.errors import HastenError
from hasten.core.failure import Failure
from hasten.core.plan import Plan, plan_from_mapping
from hasten.core.trial import ORIGINAL, trial_id
from hasten.data.metrics import metric_from_text
from hasten.data.preprocess import preprocess_from_text
from hasten.data.sources import open_dataset
from hasten.evaluate.evaluation import EvaluationData, EvaluationOptions, compare_evaluations
from hasten.evaluate.run import evaluate
from hasten.evaluate.split import CALIBRATION_SAMPLES, calibration_samples, parts
from hasten.measure.bench import bench
from hasten.measure.opening import open_model
from hasten.search.plans import numbers_of, plans_to_try
from hasten.targets.local import LocalTarget
from hasten.variants.maker_process import VariantMaker
from hasten.variants.recipes import RECIPES

if TYPE_CHECKING:
    from hasten.data.dataset import Dataset
    from hasten.evaluate.evaluation import Evaluation
    from hasten.measure.rounds import Candidate

_MAX_DROP = 0.01
_REGRET, _COST = 0.03, 0.25
_SECONDS_A_CELL = 3.0
# What takes so many times as long as a cell that keeps the floor is not the best, and its accuracy need not be known.
_FAR = 2.0
_CONFIRM_SECONDS = 12.0
# A tuning may take a little longer than its budget: a round under way is finished, and the bundle is written.
_BUDGET_SHARE = 0.18


@dataclass(slots=True)
class _Cell:
    variant: str
    candidate: Candidate
    median_ms: float | None = None
    drop: float | None = None
    why: str = ""

    @property
    def id(self) -> str:
        return trial_id(self.variant, self.candidate.plan)


def main() -> int:
    """Each model that is asked for, or the usual ones that are there."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", default=[], choices=list(CASES), help="may be repeated")
    parser.add_argument("--seconds-a-cell", type=float, default=_SECONDS_A_CELL, help="default: %(default)s")
    arguments = parser.parse_args()
    if len(USUAL_CASES) == 1:
        print("The real models are not there: only the embedded one is examined.")
    models = {name: _examined(CASES[name], arguments.seconds_a_cell) for name in arguments.only or USUAL_CASES}
    passed = all(found["regret"] <= _REGRET and found["cost"] <= _COST for found in models.values())
    worst = {key: max(found[key] for found in models.values()) for key in ("regret", "cost")}
    figures = {"models": models, "worst": worst, "wanted": {"regret": _REGRET, "cost": _COST}}
    whole = not arguments.only
    return record("grid", figures, whole=whole, passed=passed)


def _examined(case: Case, seconds_a_cell: float) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="hasten-") as folder:
        place = Path(folder)
        (place / "data").mkdir()
        data, calibration = case.prepared(place / "data")
        begin = time.monotonic()
        cells = _timed_grid(case, calibration or data, place, seconds_a_cell)
        _evaluate_promising(case, cells, data)
        best = min((cell for cell in cells if _keeps_floor(cell)), key=_milliseconds)
        grid_s = time.monotonic() - begin
        begin = time.monotonic()
        settings, effort = SearchSettings(max_drop=_MAX_DROP, extras=False), Effort(_BUDGET_SHARE * grid_s)
        found = tune(
            case.model,
            place / "tuned",
            data=Data(data, calibration, case.preprocess, case.metric, label_offset=case.label_offset),
            settings=settings,
            effort=effort,
        )
        tune_s = time.monotonic() - begin
        chosen = document(found)["best"]
        regret = _regret(best, Path(chosen["model"]), plan_from_mapping(chosen["plan"]))
    figures = {
        "grid_best": best.id,
        "tune_chose": found.best.id,
        **regret,
        "grid_seconds": round(grid_s, 1),
        "tune_seconds": round(tune_s, 1),
        "cost": round(tune_s / grid_s, 3),
        "cells": len(cells),
        "tune_trials": found.trials,
        "verdict": document(found)["verdict"],
        "cells_ms": {cell.id: {"median_ms": cell.median_ms, "drop": cell.drop, "why": cell.why} for cell in cells},
    }
    told = f"regret {figures['regret']:.1%}, cost {figures['cost']:.0%}"
    print(f"{case.name}: grid {best.id}, tune {found.best.id}: {told} ({grid_s:.0f} s + {tune_s:.0f} s)", flush=True)
    return figures


def _timed_grid(case: Case, calibration: str, place: Path, seconds: float) -> list[_Cell]:
    """Every variant with every plan."""
    target = LocalTarget()
    plans = plans_to_try(target.machine(), Plan())
    cells = []
    for variant, path in {ORIGINAL: case.model, **_variants(case, calibration, place)}.items():
        candidate, _ = open_model(path)
        for plan in plans:
            cell = _Cell(variant, replace(candidate, plan=plan))
            found = bench(target, cell.candidate, seconds)
            if isinstance(found, Failure):
                cell.why = found.message
            else:
                cell.median_ms = found.samples.median_ms
            cells.append(cell)
    return cells


def _variants(case: Case, calibration: str, place: Path) -> dict[str, Path]:
    candidate, graph = open_model(case.model)
    samples, _ = calibration_samples(
        graph,
        candidate.workload,
        open_dataset(calibration),
        preprocess_from_text(case.preprocess),
        limit=CALIBRATION_SAMPLES,
        skip_bad=False,
    )
    maker, made = VariantMaker(case.model), {}
    try:
        for recipe in RECIPES:
            path = place / f"{recipe.name}.tflite"
            try:
                maker.make(recipe.name, path, samples if recipe.needs_calibration else None)
            except HastenError as error:
                print(f"{case.name}: no {recipe.name}: {error.message}", flush=True)
                continue
            made[recipe.name] = path
    except HastenError as error:
        print(f"{case.name} has no variants: {error.message}", flush=True)
    finally:
        maker.close()
    return made


def _evaluate_promising(case: Case, cells: list[_Cell], data: str) -> None:
    """What each variant loses, on whatever computes it; not where it cannot be the best."""
    judge = HalvesJudge(case, data)
    known: dict[tuple[str, str], float | None] = {(ORIGINAL, numbers_of(Plan())): 0.0}
    fastest_kept = math.inf
    for cell in sorted(cells, key=_milliseconds):
        key = (cell.variant, numbers_of(cell.candidate.plan))
        if cell.median_ms is None or (cell.median_ms > _FAR * fastest_kept and key not in known):
            continue
        if key not in known:
            try:
                known[key] = judge.drop_of(cell.candidate)
            except HastenError as error:
                known[key], cell.why = None, error.message
        cell.drop = known[key]
        if cell.drop is not None and cell.drop <= _MAX_DROP + 1e-9:
            fastest_kept = min(fastest_kept, cell.median_ms)


class HalvesJudge:
    """The floor as `tune` has it: kept on the half of the data to choose by, and on the one to report on."""

    def __init__(self, case: Case, data: str) -> None:
        self._case = case
        self._parts = parts(open_dataset(data), None)
        plain, _ = open_model(case.model)
        self._originals = [self._evaluated(plain, part, None) for part in self._parts]

    def drop_of(self, candidate: Candidate) -> float:
        """What it loses against the original, on the half where it loses more."""
        pairs = zip(self._parts, self._originals, strict=True)
        return max(
            compare_evaluations(original, self._evaluated(candidate, half, original)).drop for half, original in pairs
        )

    def _evaluated(self, candidate: Candidate, half: Dataset, original: Evaluation | None) -> Evaluation:
        case = self._case
        metric = metric_from_text(case.metric) if case.metric else None
        found = evaluate(
            LocalTarget(),
            candidate,
            EvaluationData(
                half, preprocess_from_text(case.preprocess), metric if original is None else original.metric
            ),
            options=EvaluationOptions(label_offset=case.label_offset),
            against=None if half.labelled else original,
        )
        if isinstance(found, Failure):
            raise found.error(candidate.plan)
        return found


def _keeps_floor(cell: _Cell) -> bool:
    return cell.median_ms is not None and cell.drop is not None and cell.drop <= _MAX_DROP + 1e-9


def _milliseconds(cell: _Cell) -> float:
    return float("inf") if cell.median_ms is None else cell.median_ms


def _regret(best: _Cell, model: Path, plan: Plan) -> dict[str, Any]:
    """How much longer the choice takes than the grid's best, in interleaved rounds of fresh processes."""
    same = plan == best.candidate.plan and model.read_bytes() == best.candidate.path.read_bytes()
    if same:
        return {"regret": 0.0, "regret_ci95": [0.0, 0.0], "confirmed": "the same"}
    effort = Effort(_CONFIRM_SECONDS)
    found = compare((best.candidate.path, best.candidate.plan), (model, plan), effort=effort).comparison
    low, high = found.ci95
    return {
        "regret": round(found.ratio - 1, 4),
        "regret_ci95": [round(low - 1, 4), round(high - 1, 4)],
        "confirmed": found.verdict.value,
        "plan": asdict(plan),
    }


if __name__ == "__main__":
    sys.exit(main())
