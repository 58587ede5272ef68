"""Repeatable: independent runs of `hasten bench` in alternation with the benchmark that LiteRT's own wheel brings.

Wanted: medians of 12 runs at most a third as far apart as the other tool's, or at most 1.5 %. What `bench` reports
is the median of undisturbed runs; the other tool's is that of all its runs, so hasten's plain median stands beside it.
A spread of 12 runs is about 3.3 standard deviations of one run.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.example_models import repeated

from benchmarks.common import hasten, record, spread

_RUNS = 12
_WANTED = 0.015


def main() -> int:
    """Run both tools in turn and compare the spread of their medians."""
    ours, plain, theirs = [], [], []
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder) / "model.tflite"
        model.write_bytes(repeated(60))
        for number in range(_RUNS):
            latency = hasten("bench", str(model))["latency"]
            ours.append(latency["median_ms"])
            plain.append(latency["plain_median_ms"])
            theirs.append(_wheel_median_ms(model, Path(folder) / "result.json"))
            print(f"{number + 1:>2}: hasten {ours[-1]:.3f} ms, benchmark_litert_model {theirs[-1]:.3f} ms", flush=True)
    figures = {
        "hasten_ms": ours,
        "hasten_plain_ms": plain,
        "wheel_ms": theirs,
        "hasten_spread": round(spread(ours), 4),
        "hasten_plain_spread": round(spread(plain), 4),
        "wheel_spread": round(spread(theirs), 4),
        "ratio_of_spreads": round(spread(ours) / spread(theirs), 3),
    }
    return record("repeatable", figures, passed=spread(ours) <= max(_WANTED, spread(theirs) / 3))


def _wheel_median_ms(model: Path, result: Path) -> float:
    command = [sys.executable, "-m", "ai_edge_litert.tools.benchmark_litert_model"]
    subprocess.run([*command, f"--model={model}", f"--result_json={result}"], capture_output=True, check=True)
    found = json.loads(result.read_text())
    return float(_find(found, "median"))


def _find(data: object, word: str) -> float:
    """The first number under a key with this word in it, wherever the tool put it."""
    if isinstance(data, dict):
        for key, value in data.items():
            if word in key.lower() and isinstance(value, int | float):
                return float(value)
        for value in data.values():
            if isinstance(value, dict):
                return _find(value, word)
    raise KeyError(word)


if __name__ == "__main__":
    sys.exit(main())
