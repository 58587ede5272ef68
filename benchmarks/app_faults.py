"""The planted faults: is the cost that `hasten app` names what removing the fault saves?

Each stage of tests/system/apps/planted.py runs faulty and repaired in turns, unwatched; the time saved is the median of
the differences, in CPU time where the stage computes in one thread: that is the same on a quiet machine, and less moved
by what else runs on another. Wanted: every fault is named with its line, and its cost is within 20 % of that for all
but one of them; the repaired form has no finding. Nine pairs and three watched runs let one disturbed run in three go
by. `--pairs N` and `--only STAGE,…` ask more or less.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any, Final

from benchmarks.common import record

_SYSTEM: Final = Path(__file__).parents[1] / "tests" / "system"
_PLANTED: Final = _SYSTEM / "apps" / "planted.py"
_RULES: Final = {
    "reload": "model loaded again",
    "resize": "resized on every frame",
    "convert": "input converted",
    "stride": "input converted",
    "unused": "output never used",
    "copied": "output copied",
    "preprocess": "pre-processing dominates",
    "threads": "more threads than cores",
    "fight": "interpreters fight for cores",
    "event_loop": "inference on the event loop",
    "cold": "first run not warmed up",
}
_WITHIN: Final = 0.2
_BY_WALL: Final = ("threads", "fight", "event_loop", "cold")
_SECONDS_AFTERWARDS: Final = {"reload": 4.0, "threads": 15.0, "fight": 10.0}
"""What has to be measured after the program's end; the other faults show by themselves."""


def main() -> int:
    """Every stage: cost named against time saved."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.app_faults", description=__doc__)
    parser.add_argument("--pairs", type=int, default=9, metavar="N", help="default: 9")
    parser.add_argument("--only", default=",".join(_RULES), metavar="STAGE,…", help="default: all")
    arguments = parser.parse_args()
    sys.path.insert(0, str(_SYSTEM))
    from app_models import make_models

    figures: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as name:
        models = make_models(Path(name))
        for stage in arguments.only.split(","):
            figures[stage] = _stage(models, stage, arguments.pairs)
            print(f"{stage}: {figures[stage]}", flush=True)
        repaired = _watched(models, "--repaired", "all", "--only", arguments.only)
    figures["repaired"] = [f"{fault['rule']} at {fault['line']}" for fault in repaired["findings"]]
    stages = [figures[stage] for stage in arguments.only.split(",")]
    within = sum(entry["within"] for entry in stages)
    passed = all(entry["named"] for entry in stages) and within >= len(stages) - 1 and not figures["repaired"]
    figures["within"] = f"{within} of {len(stages)}"
    return record("app_faults", figures, passed=passed, whole=len(stages) == len(_RULES))


def _stage(models: Path, stage: str, pairs: int) -> dict[str, Any]:
    """Costs from three watched runs, between plain pairs, so that all see the same machine."""
    line = _line_of(stage)
    saved, faults = [], []
    for number in range(pairs):
        if number % max(1, pairs // 3) == 0:
            found = _watched(models, "--only", stage, seconds=_SECONDS_AFTERWARDS.get(stage, 0.0))["findings"]
            faults += [fault for fault in found if (fault["rule"], fault["line"]) == (_RULES[stage], line)]
        # The repair is the one that was advised.
        advised = faults[-1]["evidence_facts"].get("threads", 1) if faults else 1
        faulty, repaired = _plain(models, stage, ""), _plain(models, stage, stage, advised)
        saved.append((faulty - repaired) * 1e3)
    costs = [fault["cost_ms"] for fault in faults]
    cost, gain = (median(costs) if costs else 0.0), median(saved)
    return {
        "named": bool(costs),
        "line": line,
        "cost_ms": round(cost, 1),
        "saved_ms": round(gain, 1),
        "ratio": round(cost / gain, 3) if gain > 0 else None,
        "within": gain > 0 and abs(cost / gain - 1) <= _WITHIN,
        "costs_ms": [round(value, 1) for value in costs],
        "all_saved_ms": [round(value, 1) for value in sorted(saved)],
    }


def _line_of(stage: str) -> int:
    """The marked line of a stage: the first after the start of its function; a helper of its own comes before it."""
    lines = _PLANTED.read_text().splitlines()
    helpers = {"preprocess": "def normalised(", "event_loop": "def event_loop("}
    start = next(i for i, line in enumerate(lines) if line.startswith(helpers.get(stage, f"def {stage}(")))
    return next(i for i, line in enumerate(lines[start:], start + 1) if "  # fault: " in line)


def _plain(models: Path, stage: str, repaired: str, threads: int = 1) -> float:
    done = subprocess.run(
        [
            sys.executable,
            str(_PLANTED),
            str(models),
            "--only",
            stage,
            "--repaired",
            repaired,
            "--rounds",
            "2",
            "--threads",
            str(threads),
            *(() if stage in _BY_WALL else ("--cpu",)),
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    return float(json.loads(done.stdout)[stage])


def _watched(models: Path, *options: str, seconds: float = 10.0) -> dict[str, Any]:
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "hasten",
            "app",
            "--seconds",
            f"{seconds:g}",
            "--json",
            "--",
            sys.executable,
            str(_PLANTED),
            str(models),
            "--rounds",
            "2",
            *options,
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


if __name__ == "__main__":
    sys.exit(main())
