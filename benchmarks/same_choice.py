"""Tune three times with the same seed: the same choice each time, or choices that `compare` does not tell apart.

Wanted: on the embedded model and on a real one (visual wake words, if it is there) every choice is the first one, or
called the same as the first one. A tuning that chose something else every third time would be caught in four of five
cases. About two minutes a model with the defaults.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.cases import CASES, Case
from benchmarks.common import record
from hasten.api import Data, Effort, SearchSettings, compare, document, tune
from hasten.core.comparison import Verdict
from hasten.core.plan import Plan, plan_from_mapping

_RUNS = 3
_BUDGET_S = 30.0
# What nobody would care about, though enough rounds tell it apart.
_CLOSE = 0.03


def main() -> int:
    """Each model that is asked for; by default two."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", default=[], choices=list(CASES), help="may be repeated")
    parser.add_argument("--budget", type=float, default=_BUDGET_S, help="of each tuning (default: %(default)s s)")
    arguments = parser.parse_args()
    names = arguments.only or [name for name in ("demo", "05") if name in CASES]
    models = {name: _examined(CASES[name], arguments.budget) for name in names}
    passed = all(found["reached"] for found in models.values())
    return record("same_choice", {"models": models}, passed=passed, whole=not arguments.only)


def _examined(case: Case, budget_s: float) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="hasten-") as folder:
        place = Path(folder)
        (place / "data").mkdir()
        data, calibration = case.prepared(place / "data")
        settings, effort = SearchSettings(extras=False), Effort(budget_s)
        found = [
            tune(
                case.model,
                place / f"run{number}",
                data=Data(data, calibration, case.preprocess, case.metric, label_offset=case.label_offset),
                settings=settings,
                effort=effort,
            )
            for number in range(_RUNS)
        ]
        choices = [_choice(document(entry)["best"]) for entry in found]
        verdicts = [_against(choices[0], choice) for choice in choices[1:]]
    figures = {
        "choices": [entry.best.id for entry in found],
        "against_the_first": verdicts,
        "reached": all(verdict["is"] in ("identical", Verdict.SAME.value) or verdict["close"] for verdict in verdicts),
    }
    print(f"{case.name}: {figures}", flush=True)
    return figures


def _choice(best: dict[str, Any]) -> tuple[Path, Plan]:
    return Path(best["model"]), plan_from_mapping(best["plan"])


def _against(first: tuple[Path, Plan], other: tuple[Path, Plan]) -> dict[str, Any]:
    if first[1] == other[1] and first[0].read_bytes() == other[0].read_bytes():
        return {"is": "identical", "ratio": 1.0, "close": True}
    found = compare(first, other).comparison
    low, high = found.ci95
    return {"is": found.verdict.value, "ratio": found.ratio, "close": max(abs(low - 1), abs(high - 1)) < _CLOSE}


if __name__ == "__main__":
    sys.exit(main())
