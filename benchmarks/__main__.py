"""Run the benchmarks one after the other, the most important first, and end with a table: `make bench-self`.

`python -m benchmarks [NAME …]` runs those that are named. A miss or a crash does not keep the next from running; the
exit code is 1 if there was any. Trust (`make bench-trust`) is apart, because it takes as long as all others together.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from typing import Final

NAMES: Final = (
    "repeatable",
    "instead",
    "grid",
    "held_back",
    "quantize",
    "mixing",
    "same_choice",
    "retraining",
    "whole",
    "threads",
    "accelerators",
    "kernels",
    "operators",
    "tune_rewrites",
    "choose",
    "choose_trained",
    "diff",
    "app_faults",
    "app_overhead",
    "evaluation",
    "accuracy_verdicts",
    "runner_copies",
    "robust",
    "faults",
    "damaged_files",
    "thin",
    "quick",
    "report",
    "platform_traces",
    "ssh_trial",
    "doctor",
    "catalogue",
    "fleet",
)
_OUTCOMES: Final = {0: "reached", 1: "MISSED"}


def main() -> int:
    """Each in a process of its own, so that one that crashes or hangs on to memory costs only itself."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", choices=[[], *NAMES], metavar="NAME", help=f"default: {' '.join(NAMES)}")
    asked = parser.parse_args().names or NAMES
    rows = []
    for name in asked:
        print(f"--- {name}", flush=True)
        begin = time.monotonic()
        code = subprocess.run([sys.executable, "-m", f"benchmarks.{name}"], check=False).returncode
        rows.append((name, _OUTCOMES.get(code, f"FAILED ({code})"), time.monotonic() - begin))
    print(table(rows), flush=True)
    return int(any(outcome != _OUTCOMES[0] for _, outcome, _ in rows))


def table(rows: list[tuple[str, str, float]]) -> str:
    """What became of each, and how long it took."""
    lines = [f"{name:<16} {outcome:<12} {seconds:>6.0f} s" for name, outcome, seconds in rows]
    total = sum(seconds for _, _, seconds in rows)
    reached = sum(outcome == _OUTCOMES[0] for _, outcome, _ in rows)
    return "\n".join(["", *lines, f"{'all':<16} {f'{reached} of {len(rows)}':<12} {total:>6.0f} s"])


if __name__ == "__main__":
    sys.exit(main())
