"""A small application around a model, to be recorded: prepares frames slowly, infers, picks the best class."""

import sys
import time
from typing import Any

import numpy as np
from ai_edge_litert.interpreter import Interpreter


def prepare(frame: Any) -> Any:
    """Numbers one by one, as nobody should."""
    rows = [[float(value) / 255.0 for value in row] for row in frame.tolist()]
    return np.array(rows, np.float32)


def best(scores: Any) -> int:
    """The class with the highest score."""
    order = sorted(range(len(scores)), key=lambda index: -float(scores[index]))
    return order[0]


def main(path: str, seconds: float) -> None:
    """Frames for so many seconds."""
    interpreter = Interpreter(path, num_threads=1)
    interpreter.allocate_tensors()
    given, wanted = interpreter.get_input_details()[0], interpreter.get_output_details()[0]
    rng = np.random.default_rng(0)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        frame = rng.integers(0, 255, (224, 224 * 3))
        data = prepare(frame)
        interpreter.set_tensor(given["index"], np.resize(data, tuple(given["shape"])))
        interpreter.invoke()
        best(interpreter.get_tensor(wanted["index"]).ravel())


main(sys.argv[1], float(sys.argv[2]))
