"""A model run by whatever release of LiteRT this Python has: a program for environments that do not have hasten.

It is started by its path and needs the standard library, NumPy and `ai_edge_litert`. The request is a JSON document on
standard input, the answer a file: native code may print on standard output. Only the classic interpreter is used,
because all releases have it.
"""

from __future__ import annotations

import base64
import json
import os
import select
import signal
import sys
import time
from pathlib import Path
from typing import Any

_WIDE = ("int16", "int32", "int64", "bool", "uint16", "uint32", "uint64")


def main() -> None:
    """Answer one request."""
    _die_with_parent()
    request = json.loads(sys.stdin.read())
    Path(request["answer"]).write_text(json.dumps(_answer(request)))


def _die_with_parent() -> None:
    """Be ended when the other end of the inherited pipe is closed, as `hasten.runner.serving` does with it."""
    import fcntl

    lifeline = int(os.environ["HASTEN_LIFELINE"])
    signal.signal(signal.SIGIO, signal.SIG_DFL)
    fcntl.fcntl(lifeline, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(lifeline, fcntl.F_SETFL, fcntl.fcntl(lifeline, fcntl.F_GETFL) | os.O_ASYNC)
    ended = select.poll()
    ended.register(lifeline, 0)  # no events but those that cannot be masked: hang-up and error
    if ended.poll(0):
        os._exit(0)


def _answer(request: dict[str, Any]) -> dict[str, Any]:
    from ai_edge_litert import interpreter as litert

    begin = time.perf_counter_ns()
    model = litert.Interpreter(
        model_path=request["model"],
        num_threads=request["threads"],
        experimental_op_resolver_type=getattr(litert.OpResolverType, request["resolver"]),
    )
    model.allocate_tensors()
    init_ms = (time.perf_counter_ns() - begin) / 1e6
    _feed(model, request["seed"])
    model.invoke()
    outputs = [_output(model, details) for details in model.get_output_details()]
    return {"init_ms": init_ms, "outputs": outputs, "nanoseconds": _timed(model, request)}


def _feed(model: Any, seed: int) -> None:
    """Floats in 0..1, bytes over their range, and wider integers of 0 or 1, as they are mostly indices."""
    import numpy as np

    source = np.random.default_rng(seed)
    for details in model.get_input_details():
        shape, dtype = tuple(int(size) for size in details["shape"]), np.dtype(details["dtype"])
        if dtype.kind == "f":
            values = source.random(shape).astype(dtype)
        elif dtype.name in ("int8", "uint8"):
            limits = np.iinfo(dtype)
            values = source.integers(limits.min, limits.max + 1, shape).astype(dtype)
        elif dtype.name in _WIDE:
            values = source.integers(0, 2, shape).astype(dtype)
        else:
            values = np.zeros(shape, dtype)
        model.set_tensor(details["index"], values)


def _output(model: Any, details: dict[str, Any]) -> tuple[str, str, int | None]:
    """Type, bytes and zero point, which is None for an output that is not quantized."""
    values = model.get_tensor(details["index"])
    scale, zero_point = details["quantization"]
    return values.dtype.name, base64.b64encode(values.tobytes()).decode(), int(zero_point) if scale else None


def _timed(model: Any, request: dict[str, Any]) -> list[int]:
    """Runs for the time asked for, after a warm-up of a third of it."""
    warm_until = time.perf_counter() + request["seconds"] / 3
    while time.perf_counter() < warm_until:
        model.invoke()
    taken: list[int] = []
    until = time.perf_counter() + request["seconds"]
    while len(taken) < request["most"] and (time.perf_counter() < until or not taken):
        begin = time.perf_counter_ns()
        model.invoke()
        taken.append(time.perf_counter_ns() - begin)
    return taken


if __name__ == "__main__":
    main()
