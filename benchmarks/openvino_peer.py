"""OpenVINO as a user runs it on a .tflite file: a process that times blocks of runs when it is told to.

`python -m benchmarks.openvino_peer MODEL THREADS`: each line on standard input asks for a block of so many seconds, or
with `outputs FILE FILE` for its answers to the inputs in one .npz, in another; each answer is a line of JSON.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
from typing import Any

import numpy as np

_MOST_RUNS = 400


def main() -> None:
    """Load with the latency hint, then answer until the input ends."""
    openvino: Any = importlib.import_module("openvino")
    model, threads = sys.argv[1:]
    options = {"PERFORMANCE_HINT": "LATENCY", "INFERENCE_NUM_THREADS": int(threads)}
    try:
        graph = openvino.Core().read_model(model)
        # A batch that the file leaves open is one sample, as in LiteRT.
        shapes = {
            tensor: [1 if size.is_dynamic else size.get_length() for size in tensor.partial_shape]
            for tensor in graph.inputs
        }
        graph.reshape(shapes)
        compiled = openvino.Core().compile_model(graph, "CPU", options)
    except RuntimeError as error:
        print(json.dumps({"error": str(error)}), flush=True)
        return
    request = compiled.create_infer_request()
    source = np.random.default_rng(0)
    for place in range(len(compiled.inputs)):
        values = request.get_input_tensor(place).data
        values[...] = (source.random(values.shape) * 100).astype(values.dtype)
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        word, *rest = line.split()
        print(json.dumps(_outputs(request, *rest) if word == "outputs" else _block(request, float(word))), flush=True)


def _block(request: Any, seconds: float) -> list[int]:
    """Nanoseconds of runs one after the other, on inputs that lie where the engine reads them."""
    found: list[int] = []
    request.infer()  # the first after another process's turn finds cold caches
    end = time.perf_counter_ns() + int(seconds * 1e9)
    while len(found) < _MOST_RUNS and (not found or time.perf_counter_ns() < end):
        begin = time.perf_counter_ns()
        request.infer()
        found.append(time.perf_counter_ns() - begin)
    return found


def _outputs(request: Any, inputs: str, outputs: str) -> int:
    """Run on each of the inputs in one file, write the answers to the other, and return how many they are."""
    found = []
    with np.load(inputs) as arrays:
        for values in arrays["x"]:
            target = request.get_input_tensor(0).data
            target[...] = values.reshape(target.shape)
            request.infer()
            found.append(np.array(request.get_output_tensor(0).data))
    np.savez(outputs, y=np.stack(found))
    return len(found)


if __name__ == "__main__":
    main()
