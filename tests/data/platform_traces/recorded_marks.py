"""An application with marks in the kernel's trace around its calls, in the form that TFLite gives them on Android."""

import os
import sys
from typing import Any

import numpy as np
from ai_edge_litert.interpreter import Interpreter


class Section:
    """A section in the kernel's trace."""

    def __init__(self, marker: int, name: str) -> None:
        self._marker, self._name = marker, name

    def __enter__(self) -> None:
        os.write(self._marker, f"B|{os.getpid()}|{self._name}".encode())

    def __exit__(self, *_: Any) -> None:
        os.write(self._marker, f"E|{os.getpid()}".encode())


def main(path: str, frames: int, marker_path: str) -> None:
    """So many frames."""
    marker = os.open(marker_path, os.O_WRONLY)
    interpreter = Interpreter(path, num_threads=1)
    with Section(marker, "AllocateTensors@0/0"):
        interpreter.allocate_tensors()
    given, wanted = interpreter.get_input_details()[0], interpreter.get_output_details()[0]
    rng = np.random.default_rng(0)
    for _ in range(frames):
        with Section(marker, "processFrame"):
            with Section(marker, "convertToBitmap"):
                data = rng.random(tuple(given["shape"]), np.float32)
            interpreter.set_tensor(given["index"], data)
            with Section(marker, "Invoke@0/0"):
                interpreter.invoke()
            with Section(marker, "showResult"):
                int(np.argmax(interpreter.get_tensor(wanted["index"])))


main(sys.argv[1], int(sys.argv[2]), sys.argv[3])
