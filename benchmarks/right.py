"""Right: `compare` of a model with itself, and with one that truly has 5 % more of the same work.

Wanted: at most 2 of 40 verdicts other than same or undecided for equal models; the slower one found in at least 18 of
20, within 20 s each.
"""

from __future__ import annotations

import collections
import sys
import tempfile
from pathlib import Path

from tests.example_models import repeated

from benchmarks.common import hasten, record

_EQUAL, _SLOWER = 40, 20


def main() -> int:
    """Compare equal models and truly different ones, many times."""
    with tempfile.TemporaryDirectory() as folder:
        base, same, slower = (Path(folder) / name for name in ("base.tflite", "same.tflite", "slower.tflite"))
        base.write_bytes(repeated(40))
        same.write_bytes(repeated(40))
        slower.write_bytes(repeated(42))
        equal = [_compare(base, same, f"equal {i + 1}/{_EQUAL}") for i in range(_EQUAL)]
        found = [_compare(base, slower, f"slower {i + 1}/{_SLOWER}") for i in range(_SLOWER)]
    wrong = sum(verdict in ("faster", "slower") for verdict, _, _ in equal)
    right = sum(verdict == "slower" and seconds <= 20 for verdict, _, seconds in found)
    figures = {
        "equal_verdicts": dict(collections.Counter(verdict for verdict, _, _ in equal)),
        "equal_wrong": wrong,
        "equal_ratios": [round(ratio, 4) for _, ratio, _ in equal],
        "slower_verdicts": dict(collections.Counter(verdict for verdict, _, _ in found)),
        "slower_found": right,
        "slower_ratios": [round(ratio, 4) for _, ratio, _ in found],
        "longest_seconds": round(max(seconds for _, _, seconds in (*equal, *found)), 1),
    }
    return record("right", figures, passed=wrong <= 2 and right >= 18)


def _compare(first: Path, second: Path, title: str) -> tuple[str, float, float]:
    found = hasten("compare", str(first), str(second))
    print(f"{title}: {found['verdict']} {found['ratio']:.4f} in {found['seconds']:.1f} s", flush=True)
    return found["verdict"], found["ratio"], found["seconds"]


if __name__ == "__main__":
    sys.exit(main())
