"""What it takes to give back the memory of an array: a part of a copy's cost that its own call does not show."""

from __future__ import annotations

import sys
import time
from typing import Any


def cost_of_freeing_ns(nbytes: int) -> int:
    """Large arrays go back to the system page by page; measured on one of the same size."""
    numpy: Any = sys.modules["numpy"]
    spare = numpy.ones(nbytes, numpy.uint8)
    start = time.perf_counter_ns()
    del spare
    return time.perf_counter_ns() - start
