"""The timed loop: nothing but the engine's call stands between two readings of the clock."""

from __future__ import annotations

import gc
import time
from array import array
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hasten.engine.library import EngineError

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True, slots=True)
class LoadTimes:
    """Where the time between the file and a model ready to run went."""

    environment_ms: float
    model_ms: float
    compile_ms: float
    buffers_ms: float


def time_calls(call: Callable[[], int | None], seconds: float, most: int) -> array[int]:
    """Nanoseconds of each of many calls: until the time is up or the count is reached, at least one.

    The cyclic collector is off meanwhile: a pause of Python's own must not be booked on the model.
    """
    clock = time.perf_counter_ns
    durations = array("q", bytes(8 * most))
    deadline = clock() + int(seconds * 1e9)
    count = 0
    status: int | None = None
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        while count < most:
            start = clock()
            status = call()
            end = clock()
            if status:
                break
            durations[count] = end - start
            count += 1
            if end >= deadline:
                break
    finally:
        if was_enabled:
            gc.enable()
    if status:
        raise EngineError("LiteRtRunCompiledModel", status)
    del durations[count:]
    return durations
