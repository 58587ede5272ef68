"""Run the benchmarks one after the other, the most important first, and end with a table: `make bench-self`.

`python -m benchmarks [NAME …]` runs those that are named. `--missing` leaves out those whose results are of this very
code: a run can be split over several sittings. A miss or a crash does not keep the next from running; the exit code is
1 if there was any, in an earlier sitting as well. Trust (`make bench-trust`) is apart, because it takes as long as all
others together.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from typing import Final

from benchmarks import common

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
_KNOWN: Final = "known, "
Row = tuple[str, str, float]
"""A benchmark, what became of it, and the seconds that it took."""


def main() -> int:
    """Each in a process of its own, so that one that crashes or hangs on to memory costs only itself."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", choices=[[], *NAMES], metavar="NAME", help=f"default: {' '.join(NAMES)}")
    parser.add_argument("--missing", action="store_true", help="leave out what has a result of this very code")
    arguments = parser.parse_args()
    rows = []
    for name in arguments.names or NAMES:
        if arguments.missing and (row := known(name)):
            rows.append(row)
            continue
        print(f"--- {name}", flush=True)
        begin = time.monotonic()
        code = subprocess.run([sys.executable, "-m", f"benchmarks.{name}"], check=False).returncode
        rows.append((name, _OUTCOMES.get(code, f"FAILED ({code})"), time.monotonic() - begin))
    print(table(rows), flush=True)
    return int(not all(_is_reached(outcome) for _, outcome, _ in rows))


def known(name: str) -> Row | None:
    """What an earlier sitting has found with this very code, as it was committed."""
    path = common.RESULTS / f"{name}.json"
    result = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    if not result.get("clean") or result["commit"] != common.code_version():
        return None
    return name, f"{_KNOWN}{_OUTCOMES[int(not result['passed'])]}", float(result["took_seconds"])


def table(rows: list[Row]) -> str:
    """What became of each, and how long it took."""
    lines = [f"{name:<17} {outcome:<14} {seconds:>6.0f} s" for name, outcome, seconds in rows]
    total = sum(seconds for _, _, seconds in rows)
    reached = sum(_is_reached(outcome) for _, outcome, _ in rows)
    return "\n".join(["", *lines, f"{'all':<17} {f'{reached} of {len(rows)}':<14} {total:>6.0f} s"])


def _is_reached(outcome: str) -> bool:
    return outcome.removeprefix(_KNOWN) == _OUTCOMES[0]


if __name__ == "__main__":
    sys.exit(main())
