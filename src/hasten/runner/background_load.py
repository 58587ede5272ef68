"""`python -m hasten.runner.background_load`: synthetic work next to the model, a process for each core to keep busy.

Says that it is ready on standard output when all workers run, and ends with them when standard input is closed.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hasten.runner.memory import memory_bytes as machine_memory_bytes
from hasten.runner.serving import die_with_parent

if TYPE_CHECKING:
    from collections.abc import Callable

KINDS: Final = ("compute", "memory")
READY: Final = b"\0hasten load ready\n"
"""On a device, what a login prints may come before it."""
_CPU: Final = Path("/sys/devices/system/cpu")
_HASHED_BYTES: Final = 64 * 1024  # stays in the caches nearest to the core
_SMALLEST_COPY: Final = 16 * 2**20
_LARGEST_COPY: Final = 256 * 2**20
_COPIED_AT_ONCE: Final = 2 * 2**20
_UNITS: Final = {"K": 2**10, "M": 2**20, "G": 2**30}


def main() -> None:
    """Keep cores busy until standard input is closed."""
    parser = argparse.ArgumentParser(prog="python -m hasten.runner.background_load")
    parser.add_argument("--kind", choices=KINDS, required=True)
    parser.add_argument("--workers", type=int, required=True)
    parser.add_argument("--lifeline", default="", help="named pipe of the agent that this program ends with")
    arguments = parser.parse_args()
    if arguments.lifeline:
        die_with_parent(arguments.lifeline)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what an interruption means
    workers = [_start_worker(arguments.kind, arguments.workers) for _ in range(arguments.workers)]
    try:
        os.write(sys.stdout.fileno(), READY)
        while os.read(sys.stdin.fileno(), 4096):
            pass
    finally:
        for worker in workers:
            os.kill(worker, signal.SIGKILL)
        for worker in workers:
            os.waitpid(worker, 0)


def _start_worker(kind: str, workers: int) -> int:
    """Fork a worker. There are no threads here that a fork could tear."""
    parent = os.getpid()
    if worker := os.fork():
        return worker
    with contextlib.suppress(BaseException):  # whatever happens, this copy must not go on as its parent
        work = compute() if kind == "compute" else memory(copied_bytes(workers))
        # A process whose parent is gone gets another one.
        while os.getppid() == parent:
            work()
    os._exit(1)


def compute() -> Callable[[], None]:
    """Work for the arithmetic units: hashing, in C, of what the nearest cache holds."""
    data = bytes(_HASHED_BYTES)

    def work() -> None:
        for _ in range(16):
            hashlib.sha256(data).digest()

    return work


def memory(size: int) -> Callable[[], None]:
    """Work for the memory: copying, in C, from one buffer far beyond the caches to another, a piece at a call."""
    source, copy = memoryview(bytearray(b"\1") * size), memoryview(bytearray(size))
    position = 0

    def work() -> None:
        nonlocal position
        copy[position : position + _COPIED_AT_ONCE] = source[position : position + _COPIED_AT_ONCE]
        position = (position + _COPIED_AT_ONCE) % size

    return work


def copied_bytes(workers: int, root: Path = _CPU, memory_bytes: int | None = None) -> int:
    """The size of a buffer: twice the largest cache, but all workers' buffers together an eighth of the memory at most.

    Two buffers take turns, so nothing that was read is still in a cache when its turn comes again.
    """
    caches = [_size(path) for path in root.glob("cpu[0-9]*/cache/index*/size")]
    wanted = min(max(2 * max(caches, default=0), _SMALLEST_COPY), _LARGEST_COPY)
    total = machine_memory_bytes() if memory_bytes is None else memory_bytes
    allowed = total // 8 // (2 * max(workers, 1)) if total else wanted
    pieces = min(wanted, allowed) // _COPIED_AT_ONCE
    return max(pieces, 1) * _COPIED_AT_ONCE


def _size(path: Path) -> int:
    """`32768K` as bytes, 0 where it cannot be read."""
    try:
        text = path.read_text().strip()
        return int(text[:-1]) * _UNITS[text[-1]] if text[-1:] in _UNITS else int(text)
    except (OSError, ValueError):
        return 0


if __name__ == "__main__":
    main()
