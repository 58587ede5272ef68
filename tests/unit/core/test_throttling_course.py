"""Speed that lasts: planted throttling is found in its minute, and nothing else is taken for it."""

from __future__ import annotations

import json
from array import array
from typing import TYPE_CHECKING

import numpy as np
import pytest

from hasten.core.block import Block, Conditions
from hasten.core.codec import to_data
from hasten.core.sustained import Sustained, sustained_from_blocks

if TYPE_CHECKING:
    from collections.abc import Callable


def course(factor_at: Callable[[float], float], minutes: int = 8, seed: int = 0) -> Sustained:
    """A run with a block every two seconds, whose latency follows `factor_at(minute)`."""
    source = np.random.default_rng(seed)
    blocks = []
    for second in range(0, minutes * 60, 2):
        latency_ns = 1e6 * factor_at(second / 60) * source.lognormal(0, 0.01)
        times = array("q", source.normal(latency_ns, latency_ns / 200, 10).astype(int).tolist())
        blocks.append(Block(0, 100.0 + second, times, Conditions(temperature_c=40 + second / 60)))
    return sustained_from_blocks(blocks, 60.0)


@pytest.mark.parametrize("minute", [2, 4, 7])
@pytest.mark.parametrize("loss", [0.1, 0.5])
def test_throttling_is_found_in_its_minute(minute: int, loss: float) -> None:
    found = course(lambda at: 1 + loss if at >= minute - 1 else 1.0)
    assert found.onset == minute
    assert found.slowdown == pytest.approx(loss, abs=0.02)


@pytest.mark.parametrize("seed", range(6))
def test_steady_run_has_none(seed: int) -> None:
    found = course(lambda at: 1.0, seed=seed)
    assert found.onset is None
    assert abs(found.slowdown) < 0.02
    assert [minute.minute for minute in found.minutes] == list(range(1, 9))


def test_short_spike_is_not_throttling() -> None:
    assert course(lambda at: 3.0 if 3.2 < at < 3.5 else 1.0).onset is None


def test_slow_minute_that_passes_is_not_throttling() -> None:
    assert course(lambda at: 1.5 if 3 <= at < 4 else 1.0).onset is None


def test_small_wandering_of_the_clock_is_not_throttling() -> None:
    assert course(lambda at: 1.03 if at >= 4 else 1.0).onset is None


def test_run_that_gets_faster_is_not_throttling() -> None:
    found = course(lambda at: 1.0 if at < 1 else 0.8)
    assert found.onset is None
    assert found.slowdown == pytest.approx(-0.2, abs=0.02)


def test_slow_decline_begins_where_it_can_be_seen() -> None:
    found = course(lambda at: 1 + 0.05 * at)
    assert found.onset in (2, 3)


def test_single_block_makes_a_course_that_json_holds() -> None:
    found = sustained_from_blocks([Block(0, 5.0, array("q", [1_000_000]))], 12.0)
    data = json.loads(json.dumps(to_data(found), allow_nan=False))
    assert data["minutes"][0]["ci95_ms"] == [None, None]
    assert data["minutes"][0]["median_ms"] == 1.0
    assert data["throttling_onset"] is None


def test_minutes_carry_what_the_device_told() -> None:
    minute = course(lambda at: 1.0).minutes[2]
    assert minute.runs == 300
    assert minute.temperature_c == pytest.approx(42.5, abs=0.1)
    assert minute.frequency_mhz is None
    assert minute.median_ms <= minute.p95_ms


def test_clock_that_never_moved_gives_no_error() -> None:
    assert sustained_from_blocks([Block(0, at, array("q", [0])) for at in range(5)], 1.0).slowdown == 0.0
