"""Overhead of `hasten app`: loops of inferences of about 10 ms and 0.1 ms, watched and not, in turns.

Wanted: at most 3 % on the 10 ms loop, at most 10 % on the 0.1 ms one, in the time of the loop as the program itself
takes it: the median of the ratios of neighboring runs. The CPU time of all threads of the program, hasten's included,
stands beside it: it sees the same overhead and is less moved by what else runs. The median of 12 pairs is known to
about 1 %. `--pairs N` asks more or less.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Final

from tests import example_models

from benchmarks.common import record

_PAIRS: Final = 12
_LIMITS: Final = {"10 ms": 0.03, "0.1 ms": 0.10}
_PROGRAM: Final = """
import sys, time
import numpy as np
from ai_edge_litert.interpreter import Interpreter
interpreter = Interpreter(sys.argv[1], num_threads=1)
interpreter.allocate_tensors()
inputs, outputs = interpreter.get_input_details(), interpreter.get_output_details()
value = np.ones(inputs[0]["shape"], np.float32)
index, output = inputs[0]["index"], outputs[0]["index"]
def loop(seconds):
    count, begin, cpu = 0, time.perf_counter(), time.process_time()
    while (now := time.perf_counter()) - begin < seconds:
        interpreter.set_tensor(index, value)
        interpreter.invoke()
        count += int(interpreter.get_tensor(output).size > 0)
    return [(now - begin) / count, (time.process_time() - cpu) / count]
loop(0.3)
print(loop(float(sys.argv[2])))
"""


def main() -> int:
    """Watched and plain in turns, for both loops."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.app_overhead", description=__doc__)
    parser.add_argument("--pairs", type=int, default=_PAIRS, metavar="N", help="default: %(default)s")
    parser.add_argument("--seconds", type=float, default=2.0, metavar="S", help="of each loop; default: 2")
    arguments = parser.parse_args()
    figures: dict[str, object] = {}
    passed = True
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "loop.py").write_text(_PROGRAM)
        (folder / "10 ms.tflite").write_bytes(example_models.repeated(66))
        (folder / "0.1 ms.tflite").write_bytes(example_models.repeated(6, size=14, channels=24))
        for label, limit in _LIMITS.items():
            pairs = _pairs(folder, label, arguments.pairs, arguments.seconds)
            wall, cpu = (sorted(watched[i] / plain[i] - 1 for plain, watched in pairs) for i in (0, 1))
            figures[label] = {
                "loop_ms": round(median(plain[0] for plain, _ in pairs) * 1e3, 4),
                "overhead": round(median(wall), 4),
                "cpu_overhead": round(median(cpu), 4),
                "limit": limit,
                "all": [round(value, 4) for value in wall],
                "all_cpu": [round(value, 4) for value in cpu],
            }
            passed = passed and median(wall) <= limit
    return record("app_overhead", figures, passed=passed, whole=arguments.pairs >= _PAIRS)


def _pairs(folder: Path, label: str, pairs: int, seconds: float) -> list[tuple[list[float], list[float]]]:
    """Wall and CPU seconds of a round of the loop, (plain, watched)."""
    program = [sys.executable, str(folder / "loop.py"), str(folder / f"{label}.tflite"), str(seconds)]
    watched = [sys.executable, "-m", "hasten", "app", "--seconds", "0", "--", *program]
    found = []
    for number in range(pairs):
        order = (program, watched) if number % 2 == 0 else (watched, program)
        times = {id(command): _round_seconds(command) for command in order}
        plain, seen = times[id(program)], times[id(watched)]
        found.append((plain, seen))
        print(f"{label}: {plain[0] * 1e3:.4f} ms plain, {seen[0] / plain[0] - 1:+.1%} watched", flush=True)
    return found


def _round_seconds(command: list[str]) -> list[float]:
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    times: list[float] = json.loads(done.stdout)
    return times


if __name__ == "__main__":
    sys.exit(main())
