"""How fast the cores are right now: the same small piece of work on all of them at once, by the CPU time that it takes.

A virtual core can share a physical one with another machine of the host, or with its second hardware thread (SMT).
Work there takes up to 1.8 times as long, for seconds or minutes on end, and no counter of the system shows it. Time
slices that other programs of this machine take do not count here: they do not slow a core, and `Conditions` has them.
"""

from __future__ import annotations

import hashlib
import os
import threading
import time
from typing import Final

from hasten.runner.machine import describe_clusters, usable_core_numbers

# With more cores than this, threads find one that is free.
_MOST_CORES: Final = 4
_TRIES: Final = 2
# SHA-3 of so much keeps a core's arithmetic busy for about 0.25 ms, as a model does: what shares the core shows. It
# runs without Python's lock, so that all cores work at once.
_WORK: Final = bytes(range(256)) * 512


def core_times_us() -> tuple[float, ...]:
    """What the work takes on each core that this process may use; nothing where that cannot be told or compared."""
    cores = usable_core_numbers()
    comparable = hasattr(os, "sched_setaffinity") and len(describe_clusters()) == 1
    if not comparable or len(cores) > _MOST_CORES:
        return ()
    times: list[float] = []
    together = threading.Barrier(len(cores))
    # Threads of their own: whoever runs the model stays where it is.
    threads = [threading.Thread(target=_time, args=(core, together, times)) for core in cores]
    try:
        for thread in threads:
            thread.start()
    except RuntimeError:  # no memory for another thread: those that wait for it go home
        together.abort()
    for thread in threads:
        if thread.ident is not None:
            thread.join()
    return tuple(times) if len(times) == len(cores) else ()


def _time(core: int, together: threading.Barrier, times: list[float]) -> None:
    """Add what the work takes on a core; nothing if one of them cannot be had."""
    try:
        os.sched_setaffinity(0, {core})
        together.wait()
    except OSError:
        together.abort()
    except threading.BrokenBarrierError:
        return
    else:
        times.append(min(_work_ns() for _ in range(_TRIES)) / 1e3)


def _work_ns() -> int:
    begin = time.thread_time_ns()
    hashlib.sha3_256(_WORK)
    return time.thread_time_ns() - begin
