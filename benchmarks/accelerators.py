"""Accelerators: `hasten accelerators` on the embedded model and four real ones, with outputs checked.

Wanted: rows of CPU, GPU and NPU from real runs with checked outputs on every model, within two minutes each; at least
one model where the NPU is surely faster than XNNPACK (its interval of ratios lies below 1), and one where it is surely
slower or runs a part only: an accelerator that always wins was not measured. XNNPACK is the faster one of that with one
thread and that with all cores. Five models are five cases, no rate.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.common import hasten, record

_CASES = Path(__file__).resolve().parents[2] / "shared" / "cases"
_MODELS: dict[str, str | Path] = {
    "demo": "demo",
    "mobilenet_v1_025": _CASES / "01_mobilenet_v1_025_imagenet" / "model_float.tflite",
    "resnet8_large": _CASES / "03_resnet8_cifar10" / "model_large_float.tflite",
    "person_detection": _CASES / "05_vww_person" / "model_float.tflite",
    "mobilenet_v2_ptq": _CASES / "08_mobilenet_v2_imagenet_uint8" / "model_tf2_ptq.tflite",
}
_WANTED = ("xnnpack", "builtin", "reference", "gpu", "npu")
_MOST_SECONDS = 120.0


def main() -> int:
    """Examine each model that is there, and judge the rows."""
    models = {name: _examined(name, str(path)) for name, path in _MODELS.items() if _is_there(path)}
    absent = [name for name, path in _MODELS.items() if not _is_there(path)]
    complete = all(_is_complete(found["rows"]) for found in models.values())
    wins = [name for name, found in models.items() if _verdict(found, "npu") == "faster"]
    loses = [name for name, found in models.items() if _falls_short(found["rows"].get("npu", {}))]
    longest = max(found["seconds"] for found in models.values())
    figures = {
        "models": models,
        "absent": absent,
        "rows_complete": complete,
        "npu_surely_faster": wins,
        "npu_slower_or_in_part": loses,
        "longest_seconds": longest,
    }
    return record("accelerators", figures, passed=complete and bool(wins and loses) and longest <= _MOST_SECONDS)


def _is_there(path: str | Path) -> bool:
    return isinstance(path, str) or path.exists()


def _examined(name: str, path: str) -> dict[str, Any]:
    begin = time.monotonic()
    found = hasten("accelerators", path, "--seconds", "60")
    seconds = time.monotonic() - begin
    rows = {row["name"]: _figures(row) for row in found["rows"] if row["name"] in _WANTED}
    print(f"{name}: {found['why']} ({seconds:.0f} s)", flush=True)
    return {"recommended": found["recommended"], "seconds": round(seconds, 1), "rows": rows}


def _figures(row: dict[str, Any]) -> dict[str, Any]:
    """What a table of results needs of a row."""
    latency, against = row["latency"] or {}, row["against_all_cores"] or row["against_cpu"] or {}
    return {
        "status": row["status"],
        "placed": f"{row['placed_ops']}/{row['total_ops']}",
        "max_error": row["max_error"],
        "median_ms": latency.get("median_ms"),
        "ci95_ms": latency.get("ci95_ms"),
        "ratio": against.get("ratio"),
        "ratio_ci95": against.get("ci95"),
        "verdict": against.get("verdict"),
        "init_ms": row["init_ms"],
        "break_even_runs": row["break_even_runs"],
    }


def _is_complete(rows: dict[str, dict[str, Any]]) -> bool:
    timed = all(name in rows and rows[name]["median_ms"] for name in _WANTED)
    # One of them, which is named, is what the outputs of the others are compared with.
    checked = [name for name in _WANTED if timed and rows[name]["max_error"] is not None]
    return timed and len(checked) >= len(_WANTED) - 1


def _verdict(found: dict[str, Any], name: str) -> str:
    return str(found["rows"].get(name, {}).get("verdict"))


def _falls_short(row: dict[str, Any]) -> bool:
    placed, _, total = str(row.get("placed", "0/0")).partition("/")
    return row.get("verdict") == "slower" or row.get("status") == "partial" or placed != total


if __name__ == "__main__":
    sys.exit(main())
