"""hasten.Runner against set_tensor + invoke + get_tensor, on models with 1 MB of inputs and 1 MB of outputs.

Wanted: on each model the Runner is at least 1.2 times faster, or within 2 % of bare inference (invoke alone). In place,
the application writes into the Runner's input and reads its output; "filled" copies an array into it first. Blocks of
all four alternate in fresh processes; a ratio is the median over blocks of the same turn, with Student's interval over
the five processes, which is about 1 % wide.
"""

from __future__ import annotations

import json
import math
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from tests.model_builder import ModelBuilder

from benchmarks.common import record
from hasten.core.statistics import mean_interval

if TYPE_CHECKING:
    from collections.abc import Callable

_PROCESSES, _TURNS, _BLOCK_SECONDS = 5, 12, 0.05
_SHAPE = (1, 64, 64, 64)  # 1 MB of float32


def main() -> int:
    """Measure both models in fresh processes."""
    figures: dict[str, Any] = {}
    passed = True
    with tempfile.TemporaryDirectory() as folder:
        for name, content in (("one_operator", _one_operator()), ("convolutions", _convolutions())):
            path = Path(folder) / f"{name}.tflite"
            path.write_bytes(content)
            rounds = [_in_fresh_process(path) for _ in range(_PROCESSES)]
            found = _figures(rounds)
            passed &= found["faster"] >= 1.2 or found["over_bare"] <= 1.02
            figures[name] = found
    return record("runner_copies", figures, passed=passed)


def _figures(rounds: list[dict[str, list[float]]]) -> dict[str, Any]:
    def ratio(above: str, below: str) -> tuple[float, list[float]]:
        logs = [
            statistics.median(math.log(a / b) for a, b in zip(turn[above], turn[below], strict=True)) for turn in rounds
        ]
        found = mean_interval(logs)
        return round(math.exp(found.estimate), 3), [round(math.exp(found.low), 3), round(math.exp(found.high), 3)]

    faster, faster_ci95 = ratio("copying", "in_place")
    over_bare, over_bare_ci95 = ratio("in_place", "bare")
    filled, filled_ci95 = ratio("copying", "filled")
    times = {name: round(statistics.median(t for turn in rounds for t in turn[name]), 1) for name in rounds[0]}
    return {
        "faster": faster,
        "faster_ci95": faster_ci95,
        "over_bare": over_bare,
        "over_bare_ci95": over_bare_ci95,
        "faster_filled": filled,
        "faster_filled_ci95": filled_ci95,
        "median_us": times,
    }


def _in_fresh_process(path: Path) -> dict[str, list[float]]:
    command = [sys.executable, "-m", "benchmarks.runner_copies", str(path)]
    found: dict[str, list[float]] = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    return found


def _measure(path: Path) -> dict[str, list[float]]:
    """Medians of blocks in microseconds, by what they timed; blocks of one turn stand at the same place."""
    from ai_edge_litert.interpreter import Interpreter

    import hasten

    interpreter = Interpreter(str(path), num_threads=1)
    interpreter.allocate_tensors()
    source, result = interpreter.get_input_details()[0]["index"], interpreter.get_output_details()[0]["index"]
    values = np.random.default_rng(0).random(_SHAPE, np.float32)
    runner = hasten.Runner(path)
    inputs, outputs = runner.inputs, runner.outputs
    runner.inputs["x"] = values
    interpreter.set_tensor(source, values)

    def copying() -> None:
        interpreter.set_tensor(source, values)
        interpreter.invoke()
        interpreter.get_tensor(result)

    def in_place() -> None:
        inputs["x"]
        runner.run()
        outputs["y"]

    def filled() -> None:
        inputs["x"] = values
        runner.run()
        outputs["y"]

    runner.run()
    interpreter.invoke()
    if not np.allclose(outputs["y"], interpreter.get_tensor(result), rtol=1e-4, atol=1e-5):
        raise AssertionError("they compute different things")
    ways = {"bare": interpreter.invoke, "copying": copying, "in_place": in_place, "filled": filled}
    found: dict[str, list[float]] = {name: [] for name in ways}
    for turn in range(_TURNS):
        for name in ways if turn % 2 == 0 else reversed(ways):
            found[name].append(_block(ways[name]))
    runner.close()
    return found


def _block(call: Callable[[], object]) -> float:
    call()
    times, end = [], time.perf_counter() + _BLOCK_SECONDS
    while time.perf_counter() < end:
        begin = time.perf_counter_ns()
        call()
        times.append(time.perf_counter_ns() - begin)
    return statistics.median(times) / 1e3


def _one_operator() -> bytes:
    g = ModelBuilder()
    g.output(g.relu(g.input("x", _SHAPE)), "y")
    return g.build()


def _convolutions() -> bytes:
    g = ModelBuilder()
    y = g.input("x", _SHAPE)
    for _ in range(3):
        y = g.depthwise_conv2d(y, 3, activation="relu6")
    g.output(y, "y")
    return g.build()


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(json.dumps(_measure(Path(sys.argv[1]))))
        sys.exit(0)
    sys.exit(main())
