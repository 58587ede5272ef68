"""The work beside a model: it keeps cores busy, and it ends with whoever started it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from hasten.core.failure import RunnerFailed
from hasten.runner.background_load import KINDS, READY, copied_bytes
from hasten.targets.background_load import ProcessLoad, load_arguments
from hasten.targets.link import Program
from hasten.targets.local import LocalTarget, local_program

_TICKS_OF_WORK = 10
_needs_proc = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs Linux's /proc")


def _workers(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _ticks(pid: int) -> int:
    """CPU time of a process, in the system's ticks."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def _is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@_needs_proc
@pytest.mark.timeout(60)
@pytest.mark.parametrize("kind", KINDS)
def test_every_worker_works_until_it_is_closed(kind: str) -> None:
    with LocalTarget().start_load(kind, 2) as load:
        workers = _workers(load.pid)
        assert len(workers) == 2
        while min(_ticks(worker) for worker in workers) < _TICKS_OF_WORK:
            load.check()
    assert not any(_is_running(pid) for pid in (load.pid, *workers))
    load.close()


@_needs_proc
@pytest.mark.timeout(60)
def test_workers_end_when_their_parent_is_killed() -> None:
    load = LocalTarget().start_load("compute", 1)
    workers = _workers(load.pid)
    os.kill(load.pid, signal.SIGKILL)
    while any(_is_running(pid) for pid in workers):
        pass
    with pytest.raises(RunnerFailed, match="ended by itself"):  # noqa: PT012 - until the system has told
        while True:
            load.check()
    load.close()


@_needs_proc
@pytest.mark.timeout(60)
def test_work_ends_when_hasten_is_killed() -> None:
    command = local_program("hasten.runner.background_load", *load_arguments("compute", 1)).command
    script = (
        "import subprocess, sys, os, signal\n"
        f"p = subprocess.Popen({command!r}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)\n"
        "p.stdout.readline(); print(p.pid, flush=True); os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    finished = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    load = int(finished.stdout)
    while _is_running(load):
        pass


@pytest.mark.timeout(60)
def test_it_is_a_program_of_its_own() -> None:
    command = [sys.executable, "-m", "hasten.runner.background_load", "--kind", "memory", "--workers", "1"]
    finished = subprocess.run(command, input=b"", capture_output=True, check=True)
    assert finished.stdout == READY


def test_a_load_that_cannot_begin_is_a_failure() -> None:
    with pytest.raises(RunnerFailed, match="does not start: No such file"):
        ProcessLoad(Program(("/no/such/program",)), 10.0)
    with pytest.raises(RunnerFailed, match="did not start"):
        ProcessLoad(Program((sys.executable, "-c", "raise SystemExit('out of luck')")), 10.0)
    with pytest.raises(RunnerFailed, match="did not start within"):
        ProcessLoad(Program((sys.executable, "-c", "import sys; sys.stdin.read()")), 0.0)


def test_copies_reach_beyond_the_largest_cache_but_not_beyond_the_memory(tmp_path: Path) -> None:
    for index, size in enumerate(("32K", "1024K", "32768K")):
        folder = tmp_path / f"cpu0/cache/index{index}"
        folder.mkdir(parents=True)
        (folder / "size").write_text(size + "\n")
    assert copied_bytes(2, tmp_path, 2**40) == 64 * 2**20
    assert 2 * 4 * copied_bytes(4, tmp_path, 2**29) <= 2**26
    assert copied_bytes(1, tmp_path / "none", 0) == 16 * 2**20
    assert copied_bytes(64, tmp_path, 2**20) > 0
