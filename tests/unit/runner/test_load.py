"""The work beside a model: it keeps cores busy, and it ends with whoever started it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from hasten.core.errors import UsageError
from hasten.core.failure import RunnerFailed
from hasten.runner.cores import describe_clusters, keep_to_cores, usable_core_numbers
from hasten.runner.load import KINDS, copied_bytes, load_command, memory
from hasten.targets.load import ProcessLoad
from hasten.targets.local import LocalTarget

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
    command = load_command(sys.executable, "compute", 1)
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
    command = [sys.executable, "-m", "hasten.runner.load", "--kind", "memory", "--workers", "1"]
    finished = subprocess.run(command, input=b"", capture_output=True, check=True)
    assert finished.stdout == b"ready\n"


def test_a_load_that_cannot_begin_is_a_failure() -> None:
    with pytest.raises(RunnerFailed, match="cannot be started"):
        ProcessLoad(["/no/such/program"], 10.0)
    with pytest.raises(RunnerFailed, match="did not begin"):
        ProcessLoad([sys.executable, "-c", "raise SystemExit('out of luck')"], 10.0)
    with pytest.raises(RunnerFailed, match="did not begin within"):
        ProcessLoad([sys.executable, "-c", "import sys; sys.stdin.read()"], 0.0)


def test_copies_reach_beyond_the_largest_cache_but_not_beyond_the_memory(tmp_path: Path) -> None:
    for index, size in enumerate(("32K", "1024K", "32768K")):
        folder = tmp_path / f"cpu0/cache/index{index}"
        folder.mkdir(parents=True)
        (folder / "size").write_text(size + "\n")
    assert copied_bytes(2, tmp_path, 2**40) == 64 * 2**20
    assert 2 * 4 * copied_bytes(4, tmp_path, 2**29) <= 2**26
    assert copied_bytes(1, tmp_path / "none", 0) == 16 * 2**20
    assert copied_bytes(64, tmp_path, 2**20) > 0


def test_memory_work_copies_piece_by_piece_round_and_round() -> None:
    work = memory(4 * 2**20)
    for _ in range(5):
        work()


def _tree(folder: Path, values: list[str], name: str) -> Path:
    for core, value in zip(sorted(usable_core_numbers()), values, strict=False):
        path = folder / f"cpu{core}" / name
        path.parent.mkdir(parents=True)
        path.write_text(value + "\n")
    return folder


@pytest.fixture
def eight_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hasten.runner.cores.usable_core_numbers", lambda: set(range(8)))
    monkeypatch.setitem(globals(), "usable_core_numbers", lambda: set(range(8)))


@pytest.mark.usefixtures("eight_cores")
@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("cpu_capacity", ["462"] * 4 + ["871"] * 3 + ["1024"]),
        ("cpufreq/cpuinfo_max_freq", ["1800000"] * 4 + ["2500000"] * 3 + ["3000000"]),
    ],
)
def test_big_and_little_cores_are_told_apart(tmp_path: Path, name: str, values: list[str]) -> None:
    clusters = describe_clusters(_tree(tmp_path, values, name))
    assert [cluster["cores"] for cluster in clusters] == [[7], [4, 5, 6], [0, 1, 2, 3]]
    assert clusters[0]["strength"] == 1.0
    assert clusters[2]["strength"] < clusters[1]["strength"] < 1.0


@pytest.mark.usefixtures("eight_cores")
@pytest.mark.parametrize(
    "values", [["1024"] * 8, ["5000", "5100"] * 4, ["1024"] * 4, ["nonsense"] * 8], ids=["equal", "near", "half", "odd"]
)
def test_like_cores_are_one_kind_and_so_are_those_nobody_tells_of(tmp_path: Path, values: list[str]) -> None:
    clusters = describe_clusters(_tree(tmp_path, values, "cpu_capacity"))
    assert [cluster["cores"] for cluster in clusters] == [list(range(8))]


def test_a_core_that_does_not_exist_is_a_sentence() -> None:
    with pytest.raises(UsageError, match="no core 8000"):
        keep_to_cores((8000,))
    keep_to_cores(())
