"""Tune against an exhaustive grid of the same candidates: how far its choice is from the best, and what it costs.

`benchmarks.exhaustive` says what the grid is. For the embedded model and the six real ones it is searched first. Then
`hasten tune` gets 22 % of the time that the grid took; then as much as its default budget leaves for the
search. Both choices are compared with the grid's best in fresh processes (regret), longer where the interval holds the
bar, by `benchmarks.race`, which shares no estimator with what is examined. Where the longer tuning finds a mix that is
surely faster than every cell, the mix counts as a cell, and the short tuning is measured by it.

Wanted on every model: a choice within 3 % of the best that keeps the floor in at most 25 % of the grid's time, and
within 1 % with the default budget. A grid of less than a minute, of a model with nothing to quantize, leaves no time to
save: there the time is shown and not judged. The estimates decide; where the interval of one holds its bar, so that a
repetition could decide otherwise, the model is marked as unsure. A negative regret is a choice that beats every cell: a
mix, or noise. Seven models: on an eighth alike, a choice this far from the best would be a surprise, but no more than
that.

How far apart the cores are stands beside it (`benchmarks.core_distance`): a host that moves them between a tuning and
its comparison changes what is best.

Each model is saved as it ends. A new start with the same code goes on where the last one stopped. A model takes about
seven minutes on a quiet machine of two cores, the seven about 55.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from benchmarks.cases import CASES, Case, data_of
from benchmarks.common import Models
from benchmarks.core_distance import round_trip_ns
from benchmarks.exhaustive import MAX_DROP, Grid
from benchmarks.race import duel, levels_in_rounds, of_candidate
from hasten.api import Effort, SearchSettings, document, tune
from hasten.core.errors import HastenError
from hasten.core.failure import RunnerFailed
from hasten.core.plan import Plan, plan_from_mapping
from hasten.measure.opening import open_model
from hasten.search.settings import TUNE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hasten.api import Data

REGRET, COST, REGRET_BY_DEFAULT = 0.03, 0.25, 0.01
WANTED: Final = {"regret": REGRET, "cost": COST, "default_regret": REGRET_BY_DEFAULT}
# Whoever has a grid of less needs no search: a tuning compiles for accelerators, and proves its choice.
_SHORT_GRID_S: Final = 60.0
# Of a regret, in fresh processes: about 20 s, and a minute more where the bar lies within the interval.
_ROUNDS, _FURTHER_ROUNDS, _SECONDS_EACH = 12, 36, 0.5
# A tuning may take a little longer than its budget: a round under way is finished, and the bundle is written.
_BUDGET_SHARE: Final = 0.22
# Without extras, the search has as much time of this as of the default budget with them.
_DEFAULT_SECONDS: Final = TUNE_SECONDS - 25.0

Choice = tuple[str, Path, Plan]
"""The id of a trial, its model and its plan."""


def main() -> int:
    """Each model that is asked for, or all that are there."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", default=[], choices=list(CASES), help="may be repeated")
    add_options(parser)
    arguments = parser.parse_args()
    if len(CASES) == 1:
        print("The real models are not there: only the embedded one is examined.")
    models = Models.opened("grid", CASES, settings_of(arguments), anew=arguments.anew)
    for name in arguments.only or CASES:
        models.examine(name, partial(_examined_case, CASES[name], arguments))
    return concluded(models)


def _examined_case(case: Case, arguments: argparse.Namespace) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="hasten-") as folder:
        data = data_of(case, Path(folder) / "data")
        return examined(case.name, case.model, data, Path(folder), arguments)


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of everything that is examined against a grid."""
    parser.add_argument("--anew", action="store_true", help="forget what an earlier start has found")
    parser.add_argument("--seconds-a-cell", type=float, default=0.0, help="default: by the model, 2.5 to 5")
    parser.add_argument(
        "--budget", type=float, default=_DEFAULT_SECONDS, help="of the longer tuning; 0 for none (default: %(default)s)"
    )


def settings_of(arguments: argparse.Namespace) -> str:
    """What differs from the defaults; empty where nothing does."""
    usual = (arguments.seconds_a_cell, arguments.budget) == (0.0, _DEFAULT_SECONDS)
    return "" if usual else f"{arguments.seconds_a_cell:g} s a cell, budget {arguments.budget:g} s"


def concluded(models: Models, **figures: Any) -> int:
    """The result of all models that are there."""
    found = models.figures
    told = [one for one in found.values() if "error" not in one]
    worst = {key: max((one[key] for one in told if key in one), default=None) for key in WANTED}
    passed = bool(found) and all(one["reached"] for one in found.values())
    unsure = [name for name, one in found.items() if one.get("unsure")]
    return models.record({**figures, "worst": worst, "unsure": unsure, "wanted": WANTED}, passed=passed)


def examined(name: str, model: Path, data: Data, place: Path, arguments: argparse.Namespace) -> dict[str, Any]:
    """The grid of a model, two tunings of it, and their regrets. What hasten refuses is a miss, with its reason."""
    try:
        figures = _against_grid(model, data, place, arguments)
    except (HastenError, RunnerFailed) as error:
        why = error.failure.message if isinstance(error, RunnerFailed) else error.message
        print(f"{name}: {why}", flush=True)
        return {"error": why, "reached": False}
    figures |= {"reached": is_reached(figures), "unsure": is_unsure(figures)}
    print(f"{name}: {told(figures)}", flush=True)
    return figures


def is_reached(figures: dict[str, Any]) -> bool:
    """Whether a model's figures are all that is wanted."""
    return all(figures[key] <= most for key, most in WANTED.items() if key in figures and is_judged(key, figures))


def is_judged(key: str, figures: dict[str, Any]) -> bool:
    """Whether a figure has a bar: the share of time has none of a grid that takes none."""
    return key != "cost" or figures["grid_seconds"] >= _SHORT_GRID_S


def is_unsure(figures: dict[str, Any]) -> bool:
    """Whether the interval of a regret holds its bar."""
    intervals = {key: figures[f"{key}_ci95"] for key in WANTED if f"{key}_ci95" in figures}
    return any(holds(interval, WANTED[key]) for key, interval in intervals.items())


def holds(interval: Sequence[float], bar: float) -> bool:
    """Whether the bar lies within the interval."""
    return interval[0] <= bar <= interval[1]


def told(figures: dict[str, Any]) -> str:
    """A line for a model."""
    parts = [
        f"grid {figures['grid_best']} ({figures['cells']} cells, {figures['grid_seconds']:.0f} s)",
        f"tune {figures['tune_chose']}: regret {figures['regret']:.1%}, cost {figures['cost']:.0%}",
    ]
    if "default_regret" in figures:
        took = f"{figures['default_seconds']:.0f} s"
        parts.append(f"by default {figures['default_chose']}: regret {figures['default_regret']:.1%}, {took}")
    outcome = "reached" if figures["reached"] else "MISSED"
    return "; ".join([*parts, f"{outcome}, but unsure: an interval holds its bar" if figures["unsure"] else outcome])


def _against_grid(model: Path, data: Data, place: Path, arguments: argparse.Namespace) -> dict[str, Any]:
    grid = Grid(model, data, place / "grid", arguments.seconds_a_cell)
    begin = time.monotonic()
    cell = grid.run()
    grid_s = time.monotonic() - begin
    apart_ns = {"after the grid": round_trip_ns()}
    best: Choice = (cell.id, cell.candidate.path, cell.candidate.plan)
    short, seconds = _tuned(model, data, place / "short", _BUDGET_SHARE * grid_s)
    apart_ns["after the short tuning"] = round_trip_ns()
    figures: dict[str, Any] = {
        "grid_best": cell.id,
        "tune_chose": short[0],
        "grid_seconds": round(grid_s, 1),
        "tune_seconds": round(seconds, 1),
        "cost": round(seconds / grid_s, 3),
        "cells": len(grid.cells),
        "cut": sum(one.is_cut for one in grid.cells),
        "floor": MAX_DROP,
    }
    if arguments.budget:
        longer, seconds = _tuned(model, data, place / "default", arguments.budget)
        apart_ns["after the default tuning"] = round_trip_ns()
        found = regret_of(best, longer, REGRET_BY_DEFAULT)
        figures |= {"default_chose": longer[0], "default_seconds": round(seconds, 1)}
        figures |= {f"default_{key}": value for key, value in found.items()}
        if beats_every_cell(longer[0], found, [one.id for one in grid.cells]):
            best = longer
    figures |= {"measured_by": best[0], **regret_of(best, short, REGRET), "plan": asdict(short[2])}
    figures["cores_apart_ns"] = {**apart_ns, "at the end": round_trip_ns()}
    return figures | {"finals_ms": grid.finals, "cells_ms": {one.id: one.as_data() for one in grid.cells}}


def beats_every_cell(choice: str, regret: dict[str, Any], cells: list[str]) -> bool:
    """Whether a tuning's choice is none of the cells, and surely faster than the best of them."""
    return choice not in cells and regret["regret_ci95"][1] < 0


def _tuned(model: Path, data: Data, folder: Path, budget_s: float) -> tuple[Choice, float]:
    begin = time.monotonic()
    settings = SearchSettings(max_drop=MAX_DROP, extras=False)
    found = tune(model, folder, data=data, settings=settings, effort=Effort(budget_s))
    seconds = time.monotonic() - begin
    best = document(found)["best"]
    return (found.best.id, Path(best["model"]), plan_from_mapping(best["plan"])), seconds


def regret_of(best: Choice, choice: Choice, bar: float) -> dict[str, Any]:
    """How much longer a choice takes than the best, in interleaved rounds of fresh processes; in more of them where the
    first leave open on which side of the bar that is."""
    if best[2] == choice[2] and best[1].read_bytes() == choice[1].read_bytes():
        return {"regret": 0.0, "regret_ci95": [0.0, 0.0], "confirmed": "identical"}
    rivals = [of_candidate(open_model(path, plan)[0]) for _, path, plan in (choice, best)]
    ours, theirs = list[float](), list[float]()
    for rounds in (_ROUNDS, _FURTHER_ROUNDS):
        for levels, found in zip((ours, theirs), levels_in_rounds(rivals, rounds, _SECONDS_EACH), strict=True):
            levels += found
        against = duel(ours, theirs)
        if not holds((against.low - 1, against.high - 1), bar):
            break
    return {
        "regret": round(against.ratio - 1, 4),
        "regret_ci95": [round(against.low - 1, 4), round(against.high - 1, 4)],
        "confirmed": against.outcome,
    }


if __name__ == "__main__":
    sys.exit(main())
