"""Tune with rewrites against tune without them: trying rewritten models must not cost a tuning its choice.

Each model of the grid benchmark is tuned twice with the same bounded budget, once with `--no-rewrites`. The two choices
are then compared in interleaved rounds of fresh processes. Wanted: the choice with rewrites is nowhere slower by more
than 3 %, which is what a choice may differ by from one tuning to the next (see `benchmarks.grid`).
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

from benchmarks.cases import CASES, Case, data_of
from benchmarks.common import record
from hasten.api import Effort, SearchSettings, compare, document, tune
from hasten.core.plan import Plan, plan_from_mapping

_BUDGET_S: Final = 30.0
_COMPARE_S: Final = 10.0
_MOST_SLOWER: Final = 0.03


def main() -> int:
    """Each model that is asked for, or all that are there."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", default=[], choices=list(CASES), help="may be repeated")
    parser.add_argument("--budget", type=float, default=_BUDGET_S, help="seconds of a tuning (default: %(default)s)")
    arguments = parser.parse_args()
    if len(CASES) == 1:
        print("The real models are not there: only the embedded one is examined.")
    models = {name: _both(CASES[name], arguments.budget) for name in arguments.only or CASES}
    passed = all(found["verdict"] != "slower" or found["ratio"] <= 1 + _MOST_SLOWER for found in models.values())
    worst = max(found["ratio"] for found in models.values())
    figures = {"models": models, "worst_ratio": worst, "budget_s": arguments.budget}
    return record("tune_rewrites", figures, passed=passed, whole=not arguments.only)


def _both(case: Case, budget_s: float) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="hasten-") as folder:
        place = Path(folder)
        data = data_of(case, place / "data")
        chosen: dict[bool, tuple[Path, Plan, str]] = {}
        for rewrites in (False, True):
            settings = SearchSettings(extras=False, rewrites=rewrites)
            effort = Effort(budget_s)
            found = tune(case.model, place / f"tuned-{rewrites}", data=data, settings=settings, effort=effort)
            best = document(found)["best"]
            chosen[rewrites] = Path(best["model"]), plan_from_mapping(best["plan"]), found.best.id
        figures: dict[str, Any] = {"without": chosen[False][2], "with": chosen[True][2], **_compared(chosen)}
    print(f"{case.name}: {figures}", flush=True)
    return figures


def _compared(chosen: dict[bool, tuple[Path, Plan, str]]) -> dict[str, Any]:
    """The choice with rewrites over the one without."""
    (before, plan, _), (after, new_plan, _) = chosen[False], chosen[True]
    if plan == new_plan and before.read_bytes() == after.read_bytes():
        return {"ratio": 1.0, "ci95": [1.0, 1.0], "verdict": "same choice"}
    found = compare((before, plan), (after, new_plan), effort=Effort(_COMPARE_S)).comparison
    ends = [round(end, 4) for end in found.ci95]
    return {"ratio": round(found.ratio, 4), "ci95": ends, "verdict": found.verdict.value}


if __name__ == "__main__":
    sys.exit(main())
