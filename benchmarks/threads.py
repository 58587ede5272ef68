"""Threads: is the recommendation the same when asked again, and is it right where that can be told?

Wanted: the embedded model gets the same recommendation in at least 9 of 10 reruns; next to other work all cores are
never recommended where they measured slower than fewer, in none of the reruns; a model of a single addition gets one
thread. Each study measures all situations, so that ten of them also judge each situation ten times. `--reruns N` asks
less.
"""

from __future__ import annotations

import argparse
import collections
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.example_models import one_operator

from benchmarks.common import hasten, record
from hasten.demo import MODEL

_RERUNS = 10
_SAME = 0.9
_LOADS = ("shared", "busy")


def main() -> int:
    """Ask again and again, then for a tiny model."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.threads", description=__doc__)
    parser.add_argument("--reruns", type=int, default=_RERUNS, metavar="N", help=f"default: {_RERUNS}")
    parser.add_argument("--seconds", type=float, default=0.0, metavar="S", help="for each study; default: hasten's own")
    arguments = parser.parse_args()
    reruns, seconds = arguments.reruns, arguments.seconds
    studies = [_study(MODEL, f"rerun {number + 1}/{reruns}", seconds) for number in range(reruns)]
    with tempfile.TemporaryDirectory() as folder:
        tiny = Path(folder) / "tiny.tflite"
        tiny.write_bytes(one_operator())
        small = _study(tiny, "tiny model", seconds)
    recommended = [found["recommended"] for found in studies]
    most = max(collections.Counter(recommended).values())
    wrong = [load for found in studies for load in _LOADS if _is_wrong(found, load)]
    figures = {
        "recommended": recommended,
        "same": f"{most} of {reruns}",
        "sure": sum(found["by_load"]["quiet"]["sure"] for found in studies),
        "medians_ms": {load: _medians(studies[-1], load) for load in ("quiet", "shared", "busy")},
        "beside_other_work": {load: [found["by_load"][load]["threads"] for found in studies] for load in _LOADS},
        "all_cores_though_slower": wrong,
        "tiny_model": small["recommended"],
        "longest_seconds": round(max(found["seconds"] for found in (*studies, small)), 1),
        "other_cores_busy": round(max(_others(found) for found in studies), 2),
    }
    passed = most >= _SAME * reruns and not wrong and small["recommended"] == 1
    return record("threads", figures, passed=passed, whole=reruns >= _RERUNS)


def _study(model: Path, title: str, seconds: float) -> dict[str, Any]:
    time_given = ("--seconds", str(seconds)) if seconds else ()
    found = hasten("threads", str(model), *time_given)
    print(f"{title}: {found['recommended']} in {found['seconds']:.0f} s; {found['why']}", flush=True)
    return found


def _is_wrong(found: dict[str, Any], load: str) -> bool:
    """All cores recommended, though under some load of this situation fewer threads had a lower median."""
    rows = [row for row in found["rows"] if row["load"] == load]
    if found["by_load"][load]["threads"] < found["cores"]:
        return False
    for kind in {row["load_kind"] for row in rows}:
        medians = {row["threads"]: row["median_ms"] for row in rows if row["load_kind"] == kind}
        if any(median < medians[found["cores"]] for threads, median in medians.items() if threads < found["cores"]):
            return True
    return False


def _medians(found: dict[str, Any], load: str) -> dict[str, float]:
    """By number of threads and kind of load."""
    rows = [row for row in found["rows"] if row["load"] == load]
    return {f"{row['threads']} {row['load_kind'] or 'alone'}": round(row["median_ms"], 3) for row in rows}


def _others(found: dict[str, Any]) -> float:
    """How many cores other programs kept busy, in the rows that were to be alone."""
    return max(row["other_cores_busy"] or 0.0 for row in found["rows"] if row["load"] == "quiet")


if __name__ == "__main__":
    sys.exit(main())
