"""Thin: what the timed loop adds to the engine's own call, on a model of one operator.

Wanted: at most 1 µs a call over a loop in C around the same function; and a model loaded without profiling is no
slower than one in a process that never heard of it (it is loaded with profiling off, which is what `bench` does). 60
rounds of 2,000 calls in turns tell 20 ns.
"""

from __future__ import annotations

import ctypes
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.example_models import one_operator

from benchmarks.common import record
from hasten.core.plan import Plan, Workload
from hasten.engine.compiled import CompiledModel

_ROUNDS, _CALLS = 60, 2000
_LOOP = r"""
#include <stddef.h>
#include <time.h>
typedef int (*run_t)(void *, size_t, size_t, void *, size_t, void *);
double ns_per_call(run_t run, void *model, size_t signature, size_t n_in, void *in, size_t n_out, void *out, int n) {
  struct timespec a, b;
  clock_gettime(CLOCK_MONOTONIC, &a);
  for (int i = 0; i < n; i++)
    if (run(model, signature, n_in, in, n_out, out)) return -1;
  clock_gettime(CLOCK_MONOTONIC, &b);
  return ((b.tv_sec - a.tv_sec) * 1e9 + (b.tv_nsec - a.tv_nsec)) / n;
}
"""


def main() -> int:
    """Alternate the loop in C and hasten's own, in one process, on one loaded model."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "one.tflite"
        path.write_bytes(one_operator())
        bare_loop = _build_loop(Path(folder))
        model = CompiledModel(path, Plan(), Workload())
        profiled = CompiledModel(path, Plan(), Workload(), profiling=True)
        call: Any = model._call
        address = ctypes.cast(call.func, ctypes.c_void_p)
        model.time_runs(0.5, _CALLS)
        bare, ours, sleeping = [], [], []
        for _ in range(_ROUNDS):
            bare.append(bare_loop(address, *call.args, _CALLS))
            ours.append(statistics.median(model.time_runs(10.0, _CALLS)))
            sleeping.append(statistics.median(profiled.time_runs(10.0, _CALLS)))
    added = statistics.median(b - a for a, b in zip(bare, ours, strict=True))
    figures = {
        "bare_ns": round(statistics.median(bare)),
        "hasten_ns": round(statistics.median(ours)),
        "added_ns": round(added),
        "profiler_built_in_but_asleep_ratio": round(statistics.median(sleeping) / statistics.median(ours), 3),
    }
    return record("thin", figures, passed=added <= 1000)


def _build_loop(folder: Path) -> ctypes._NamedFuncPointer:
    source, library = folder / "loop.c", folder / "loop.so"
    source.write_text(_LOOP)
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", str(library), str(source)], check=True)
    function = ctypes.CDLL(str(library)).ns_per_call
    pointer, size = ctypes.c_void_p, ctypes.c_size_t
    function.argtypes = (pointer, pointer, size, size, pointer, size, pointer, ctypes.c_int)
    function.restype = ctypes.c_double
    return function


if __name__ == "__main__":
    sys.exit(main())
