"""Whole: does a profile explain all of the time, without changing it, down to the node?

Wanted: operators add up to at least 97 % of Invoke (models of 1 ms and more); the profiled total within 3 % of the
latency without profiling (5 ms and more); every XNNPACK kernel mapped to its node for certain. Each model is one case:
four seconds are hundreds of runs, and 1 % shows.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.example_models import efficientnet_like, mobilenet_like

import hasten.demo
from benchmarks.common import hasten as run_hasten
from benchmarks.common import record

_CASES = Path(__file__).resolve().parents[2] / "shared" / "cases"


def main() -> int:
    """Profile networks that hasten makes, the demo model, and the real models beside the project if they are there."""
    with tempfile.TemporaryDirectory() as folder:
        rows = [_profile(path) for path in _models(Path(folder))]
    long_enough = [row for row in rows if row["latency_ms"] >= 1]
    longer = [row for row in rows if row["latency_ms"] >= 5]
    figures = {
        "rows": rows,
        "lowest_coverage_from_1_ms": min(row["coverage"] for row in long_enough),
        "largest_deviation_from_5_ms": max(abs(row["profiled_over_plain"] - 1) for row in longer),
        "kernels_not_exact": sum(row["not_exact"] for row in rows),
    }
    passed = (
        figures["lowest_coverage_from_1_ms"] >= 0.97
        and figures["largest_deviation_from_5_ms"] <= 0.03
        and figures["kernels_not_exact"] == 0
    )
    return record("whole", figures, passed=passed)


def _models(folder: Path) -> list[Path]:
    made = []
    for dtype in ("float32", "int8"):
        for name, build in (("mobilenet_like", mobilenet_like), ("efficientnet_like", efficientnet_like)):
            path = folder / f"{name}_{dtype}.tflite"
            path.write_bytes(build(width=32, blocks=6, size=192, dtype=dtype))
            made.append(path)
    real = [path for path in sorted(_CASES.glob("0*/*.tflite")) if "lstm" not in str(path)]
    return [*made, hasten.demo.MODEL, *real]


def _profile(path: Path) -> dict[str, Any]:
    found = run_hasten("profile", str(path), "--no-roofline", "--seconds", "4")
    row = {
        "model": f"{path.parent.name}/{path.name}" if path.is_relative_to(_CASES) else path.name,
        "latency_ms": round(found["latency_ms"], 3),
        "coverage": round(found["coverage"], 4),
        "profiled_over_plain": round(found["invoke_ms"] / found["plain_ms"], 4),
        "operators": len(found["ops"]),
        "not_exact": sum(op["mapped"] not in ("exact", "engine") for op in found["ops"]),
    }
    print(row, flush=True)
    return row


if __name__ == "__main__":
    sys.exit(main())
