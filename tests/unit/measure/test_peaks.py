"""The machine's peaks: measured once, kept, and measured again when what was kept is of no use."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from simulated import Behaviour, SimulatedTarget, install_clock
from tests.unit.fake_target import MACHINE

from hasten.core.failure import Failure
from hasten.core.profile import Peaks
from hasten.measure.peaks import measure_peaks

if TYPE_CHECKING:
    from pathlib import Path

    from simulated import Clock


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return install_clock(monkeypatch)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "hasten"


def peaks_of(target: SimulatedTarget, threads: int = 1) -> Peaks:
    found = measure_peaks(target, threads)
    assert isinstance(found, Peaks)
    return found


def test_peaks_are_work_over_time(clock: Clock, cache: Path) -> None:
    found = peaks_of(SimulatedTarget(clock, {"0": Behaviour(10.0, block_noise=0), "1": Behaviour(5.0, block_noise=0)}))
    assert found.float_gflops == pytest.approx(2 * 256 * 512 * 512 / 10e-3 / 1e9)
    assert found.int8_gops == pytest.approx(2 * found.float_gflops)
    sizes = [size for size, _ in found.bandwidth]
    assert sizes == sorted(sizes)
    assert found.gbs_for(1) == found.bandwidth[0][1]
    assert found.gbs_for(10**12) == found.bandwidth[-1][1]


def test_second_time_is_answered_from_the_cache(clock: Clock, cache: Path) -> None:
    first = peaks_of(SimulatedTarget(clock))
    again = SimulatedTarget(clock)
    assert peaks_of(again) == first
    assert not again.runners


def test_peaks_beside_other_programs_are_kept_for_minutes_only(clock: Clock, cache: Path) -> None:
    busy = {"0": Behaviour(10.0, other_cores_busy=2.0)}
    first = peaks_of(SimulatedTarget(clock, busy))
    again = SimulatedTarget(clock, busy)
    assert peaks_of(again) == first
    assert not again.runners
    (kept,) = cache.glob("peaks-*.json")
    an_hour_ago = kept.stat().st_mtime - 3600
    os.utime(kept, (an_hour_ago, an_hour_ago))
    peaks_of(later := SimulatedTarget(clock))
    assert later.runners


def test_other_threads_machine_or_engine_are_measured_anew(clock: Clock, cache: Path) -> None:
    peaks_of(SimulatedTarget(clock))
    more_threads, other_machine = SimulatedTarget(clock), SimulatedTarget(clock)
    other_machine.device = replace(MACHINE, cpu="Another")
    peaks_of(more_threads, threads=2)
    peaks_of(other_machine)
    assert more_threads.runners
    assert other_machine.runners
    assert len(list(cache.glob("peaks-*.json"))) == 3


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"\xff\xff",
        b'{"peaks": {"threads": 1}, "quiet": true}',
        b'{"peaks": {"threads": 1, "float_gflops": 0, "int8_gops": 1, "bandwidth": [[1, 1]]}, "quiet": true}',
        b'{"peaks": {"threads": 1, "float_gflops": "fast", "int8_gops": 1, "bandwidth": [[1, 1]]}, "quiet": true}',
        b'{"peaks": {"threads": 1, "float_gflops": 1, "int8_gops": 1, "bandwidth": []}, "quiet": true}',
        b'{"peaks": {"threads": 1, "float_gflops": NaN, "int8_gops": 1, "bandwidth": [[1, 1]]}, "quiet": true}',
    ],
)
def test_damaged_cache_is_measured_again_and_mended(clock: Clock, cache: Path, content: bytes) -> None:
    first = peaks_of(SimulatedTarget(clock))
    (kept,) = cache.glob("peaks-*.json")
    kept.write_bytes(content)
    target = SimulatedTarget(clock)
    assert peaks_of(target) == first
    assert len(target.runners) > 1
    assert json.loads(kept.read_text())["peaks"]["threads"] == 1


def test_cache_that_cannot_be_written_costs_time_and_nothing_else(
    clock: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocked = tmp_path / "file"
    blocked.touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(blocked))
    assert peaks_of(SimulatedTarget(clock)) == peaks_of(SimulatedTarget(clock))
    assert blocked.stat().st_size == 0


def test_failure_while_measuring_is_a_value_and_leaves_no_cache(clock: Clock, cache: Path) -> None:
    assert isinstance(measure_peaks(SimulatedTarget(clock, {"1": Behaviour(fails={0: "load"})}), 1), Failure)
    assert not cache.exists() or not list(cache.iterdir())


def test_target_out_of_reach_is_a_value(clock: Clock, cache: Path) -> None:
    target = SimulatedTarget(clock)
    target.refuses = Failure("start", "target", "out of reach")
    assert measure_peaks(target, 1) == target.refuses


def test_progress_rises(clock: Clock, cache: Path) -> None:
    shares: list[float] = []
    measure_peaks(SimulatedTarget(clock), 1, lambda share, text: shares.append(share))
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
