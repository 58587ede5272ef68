"""Quick: how long a person waits for `hasten --help`, and for the latency of the embedded model.

Wanted: --help in at most 10 times what `python -c pass` takes; `hasten bench` of the demo model in under 10 s. Medians
of 20 runs in turns are known to a few percent, far from the limit.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time

import hasten.demo
from benchmarks.common import hasten as run_hasten
from benchmarks.common import record

_ROUNDS = 20


def main() -> int:
    """Time both in turn."""
    helps, passes = [], []
    for _ in range(_ROUNDS):
        passes.append(_seconds(sys.executable, "-c", "pass"))
        helps.append(_seconds(sys.executable, "-m", "hasten", "--help"))
    ratio = statistics.median(helps) / statistics.median(passes)
    begin = time.monotonic()
    run_hasten("bench", str(hasten.demo.MODEL))
    bench_seconds = time.monotonic() - begin
    figures = {
        "help_over_python_pass": round(ratio, 2),
        "help_ms": round(statistics.median(helps) * 1e3, 1),
        "bench_demo_seconds": round(bench_seconds, 2),
    }
    return record("quick", figures, passed=ratio <= 10 and bench_seconds < 10)


def _seconds(*command: str) -> float:
    begin = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    return time.perf_counter() - begin


if __name__ == "__main__":
    sys.exit(main())
