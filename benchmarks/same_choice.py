"""Tune three times with the same seed: the same choice each time, or choices that `compare` does not tell apart.

Wanted: on the embedded model and the six real ones every choice is the first one, or what `compare` calls the same as
the first one; where it is undecided, `compare` gets four times as long. A tuning that chose something else every third
time would be caught in four of five cases. How far apart the cores are before and after each tuning stands beside it
(`benchmarks.core_distance`): two threads are worth less where a host has moved them apart.

Each model is saved as it ends; a new start with the same code goes on. About three minutes a model with the defaults,
25 in all.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any, Final

from benchmarks.cases import CASES, Case, data_of
from benchmarks.common import Models
from benchmarks.core_distance import round_trip_ns
from hasten.api import Effort, SearchSettings, compare, document, tune
from hasten.core.comparison import Verdict
from hasten.core.plan import Plan, plan_from_mapping

_RUNS: Final = 3
_BUDGET_S: Final = 60.0
_COMPARE_S: Final = (15.0, 60.0)
IDENTICAL: Final = "identical"


def main() -> int:
    """Each model that is asked for, or all that are there."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", default=[], choices=list(CASES), help="may be repeated")
    parser.add_argument("--budget", type=float, default=_BUDGET_S, help="of each tuning (default: %(default)s s)")
    parser.add_argument("--anew", action="store_true", help="forget what an earlier start has found")
    arguments = parser.parse_args()
    settings = "" if arguments.budget == _BUDGET_S else f"budget {arguments.budget:g} s"
    models = Models.opened("same_choice", CASES, settings, anew=arguments.anew)
    for name in arguments.only or CASES:
        models.examine(name, partial(_examined, CASES[name], arguments.budget))
    passed = all(found["reached"] for found in models.figures.values())
    return models.record({"budget_s": arguments.budget}, passed=passed)


def _examined(case: Case, budget_s: float) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="hasten-") as folder:
        place = Path(folder)
        data = data_of(case, place / "data")
        settings, effort = SearchSettings(extras=False), Effort(budget_s)
        found, apart_ns = [], [round_trip_ns()]
        for number in range(_RUNS):
            found.append(tune(case.model, place / f"run{number}", data=data, settings=settings, effort=effort))
            apart_ns.append(round_trip_ns())
        choices = [_choice(document(entry)["best"]) for entry in found]
        verdicts = [_against(choices[0], choice) for choice in choices[1:]]
    figures = {
        "choices": [entry.best.id for entry in found],
        "against_the_first": verdicts,
        "cores_apart_ns": apart_ns,
        "reached": is_reached(verdicts),
    }
    print(f"{case.name}: {figures}", flush=True)
    return figures


def is_reached(verdicts: list[dict[str, Any]]) -> bool:
    """Whether all are the first one, or called the same."""
    return all(verdict["is"] in (IDENTICAL, Verdict.SAME.value) for verdict in verdicts)


def _choice(best: dict[str, Any]) -> tuple[Path, Plan]:
    return Path(best["model"]), plan_from_mapping(best["plan"])


def _against(first: tuple[Path, Plan], other: tuple[Path, Plan]) -> dict[str, Any]:
    if first[1] == other[1] and first[0].read_bytes() == other[0].read_bytes():
        return {"is": IDENTICAL, "ratio": 1.0, "ci95": [1.0, 1.0]}
    for seconds in _COMPARE_S:
        found = compare(first, other, effort=Effort(seconds)).comparison
        if found.verdict is not Verdict.UNDECIDED:
            break
    return {"is": found.verdict.value, "ratio": round(found.ratio, 4), "ci95": [round(end, 4) for end in found.ci95]}


if __name__ == "__main__":
    sys.exit(main())
