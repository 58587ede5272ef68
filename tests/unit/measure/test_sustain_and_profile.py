"""Long runs, and profiled runs in alternation with plain ones, on a simulated clock."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from simulated import Behaviour, SimulatedTarget, candidate, install_clock
from tests.example_models import one_operator

from hasten.core.codec import to_data
from hasten.core.errors import Interrupted
from hasten.core.failure import Failure
from hasten.core.sustained import Sustained
from hasten.measure.bench import sustain
from hasten.measure.effort import Effort
from hasten.measure.profiling import RawProfile, collect_profile
from hasten.model.reader import read_graph
from hasten.practices.profile.run import run

if TYPE_CHECKING:
    from pathlib import Path

    from simulated import Clock


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return install_clock(monkeypatch)


def test_long_run_has_a_row_for_each_minute(clock: Clock) -> None:
    shares: list[float] = []
    found = sustain(SimulatedTarget(clock), candidate("a"), 6.0, lambda share, text: shares.append(share))
    assert isinstance(found, Sustained)
    assert found.slice_seconds == 60
    assert 6 <= len(found.minutes) <= 7
    assert found.onset is None
    assert shares == sorted(shares)
    assert 0.0 <= shares[0] <= shares[-1] <= 1.0


def test_short_run_has_five_slices(clock: Clock) -> None:
    found = sustain(SimulatedTarget(clock), candidate("a"), 0.5)
    assert isinstance(found, Sustained)
    assert found.slice_seconds == pytest.approx(6.0)
    assert 5 <= len(found.minutes) <= 6


def test_model_slower_to_load_than_the_whole_run_is_still_timed(clock: Clock) -> None:
    target = SimulatedTarget(clock, {"a": Behaviour(latency_ms=5000, init_ms=(60_000.0,))})
    found = sustain(target, candidate("a"), 0.01)
    assert isinstance(found, Sustained)
    assert found.minutes[0].runs == 1


def test_crash_in_a_long_run_keeps_what_was_measured_and_is_told(clock: Clock) -> None:
    found = sustain(SimulatedTarget(clock, {"a": Behaviour(fails={0: "block 150"})}), candidate("a"), 10.0)
    assert isinstance(found, Sustained)
    assert 2 <= len(found.minutes) <= 3
    assert found.cut_short == "a died"
    assert to_data(found)["cut_short"] == "a died"


def test_crash_before_the_first_block_is_a_failure(clock: Clock) -> None:
    target = SimulatedTarget(clock, {"a": Behaviour(fails={0: "load"})})
    assert isinstance(sustain(target, candidate("a"), 1.0), Failure)
    assert all(runner.closed for runner in target.runners)


def test_profiled_runs_alternate_with_plain_ones(clock: Clock) -> None:
    target = SimulatedTarget(clock)
    raw = collect_profile(target, candidate("a"), 2.0)
    assert isinstance(raw, RawProfile)
    turns = [what for what, _, _ in target.log if what != "load"]
    assert turns[0] == "profile"  # the cold ones, which do not count
    assert turns[1:] == ["block", "profile"] * ((len(turns) - 1) // 2)
    assert len(raw.runs) == sum(runs - 1 for what, _, runs in target.log if what == "profile") - 1
    assert raw.plain.median_ms == pytest.approx(1.0, rel=0.02)
    assert all(runner.closed for runner in target.runners)


@pytest.mark.parametrize("latency_ms", [0.01, 1.0, 4000.0])
def test_profile_keeps_to_its_time_and_has_one_run_at_least(clock: Clock, latency_ms: float) -> None:
    begin = clock.now
    raw = collect_profile(SimulatedTarget(clock, {"a": Behaviour(latency_ms=latency_ms)}), candidate("a"), 3.0)
    assert isinstance(raw, RawProfile)
    assert 1 <= len(raw.runs) <= 1020
    # two starts, a warm-up of two blocks, two cold profiled runs, then turns of one block and two profiled runs
    assert clock.now - begin < 4.0 + 10 * latency_ms / 1e3


@pytest.mark.parametrize("stage", ["load", "block 1", "profile"])
def test_profile_that_fails_is_a_value(clock: Clock, stage: str) -> None:
    target = SimulatedTarget(clock, {"a": Behaviour(fails=dict.fromkeys(range(2), stage))})
    assert isinstance(collect_profile(target, candidate("a")), Failure)
    assert all(runner.closed for runner in target.runners)


@pytest.mark.parametrize("turns", [0, 1, 3])
def test_ctrl_c_leaves_the_profile_of_the_runs_until_then(clock: Clock, tmp_path: Path, turns: int) -> None:
    (tmp_path / "a.tflite").write_bytes(one_operator())
    told: list[str] = []

    def press(share: float, text: str) -> None:
        told.append(text)
        if len(told) > turns:
            raise KeyboardInterrupt

    target = SimulatedTarget(clock)
    with pytest.raises(KeyboardInterrupt) as raised:
        run(candidate("a"), read_graph(tmp_path / "a.tflite"), Effort(9.0, target, press), roofline=False)
    assert isinstance(raised.value, Interrupted) == (turns > 0)
    if isinstance(raised.value, Interrupted):
        assert raised.value.found.interrupted
        assert raised.value.found.runs == 12 * turns
    assert all(runner.closed for runner in target.runners)
