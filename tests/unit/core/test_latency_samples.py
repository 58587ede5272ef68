"""Samples: every doubt fires when its cause is planted, none on a quiet machine, and nothing is thrown away."""

from __future__ import annotations

import json
from array import array
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hasten.core import doubts
from hasten.core.block import Block, Conditions
from hasten.core.codec import from_data, to_data
from hasten.core.doubts import DOUBTS
from hasten.core.remark import remark
from hasten.core.samples import Samples

QUIET = Conditions(0.05, 0.05, 0.0, 0.0, 0, 2000.0, 50.0, 0.5)


def quiet_blocks(processes: int = 5, blocks: int = 8, runs: int = 20, seed: int = 0) -> list[Block]:
    source = np.random.default_rng(seed)
    return [
        Block(process, process + block / 100, array("q", source.normal(1e6, 5e3, runs).astype(int).tolist()), QUIET)
        for process in range(processes)
        for block in range(blocks)
    ]


def slowed(block: Block, factor: float) -> Block:
    return replace(block, nanoseconds=array("q", [round(value * factor) for value in block.nanoseconds]))


def test_what_a_board_reports_about_its_clock_is_a_doubt() -> None:
    held = [under(block, held_back=bits) for block, bits in zip(quiet_blocks(), [0, 0b1, 0b100] * 20, strict=False)]
    (doubt,) = (doubt for doubt in Samples(tuple(held)).doubts() if doubt.code == doubts.HELD_BACK)
    assert doubt.facts["causes"] == ["under-voltage", "throttled"]
    assert "power supply" in DOUBTS.hint(doubt)
    fine = [under(block, held_back=0) for block in quiet_blocks()]
    earlier = [under(block, held_back=0xF0000) for block in quiet_blocks()]
    assert doubts.HELD_BACK not in reasons(fine) | reasons(earlier)


def under(block: Block, **conditions: Any) -> Block:
    return replace(block, conditions=replace(block.conditions, **conditions))


def reasons(blocks: list[Block], timer_step_ns: int = 50) -> set[str]:
    return {doubt.code for doubt in Samples(tuple(blocks), timer_step_ns).doubts()}


@pytest.mark.parametrize("seed", range(5))
def test_quiet_samples_raise_no_doubt(seed: int) -> None:
    assert reasons(quiet_blocks(seed=seed)) == set()


def test_silent_machine_raises_no_doubt() -> None:
    """One that tells nothing of its surroundings: no counters at all."""
    assert reasons([replace(block, conditions=Conditions()) for block in quiet_blocks()]) == set()


def test_noise() -> None:
    source = np.random.default_rng(3)
    noisy = [slowed(block, float(source.lognormal(0, 0.2))) for block in quiet_blocks()]
    assert doubts.NOISY in reasons(noisy)


def test_other_load() -> None:
    assert reasons([under(block, other_cores_busy=0.8) for block in quiet_blocks()]) == {doubts.OTHER_LOAD}


def test_stolen_time() -> None:
    assert reasons([under(block, stolen_share=0.1) for block in quiet_blocks()]) == {doubts.STOLEN_TIME}


def at_speed(block: Block, slowest_us: float, quickest_us: float = 255.0) -> Block:
    return under(block, quickest_core_us=quickest_us, slowest_core_us=slowest_us)


def test_slowed_cores() -> None:
    quiet = [at_speed(block, 262.0) for block in quiet_blocks()]
    assert reasons(quiet) == set()
    shared = [at_speed(block, 450.0) if block.runner % 2 else block for block in quiet]
    (doubt,) = Samples(tuple(shared), 50).doubts()
    assert doubt.code == doubts.SLOWED_CORES
    assert doubt.facts["share"] == pytest.approx(0.5, abs=0.2)


def test_cores_that_nobody_has_seen_at_full_speed_raise_no_doubt() -> None:
    assert reasons([at_speed(block, 450.0, 440.0) for block in quiet_blocks()]) == set()


def test_frequency_change() -> None:
    blocks = [under(block, frequency_mhz=2000.0 + 400 * (i % 2)) for i, block in enumerate(quiet_blocks())]
    assert reasons(blocks) == {doubts.FREQUENCY_CHANGE}


def rising() -> list[Block]:
    return [slowed(block, 1 + 0.2 * i / 40) for i, block in enumerate(quiet_blocks())]


def test_throttling_needs_a_rise_and_heat() -> None:
    hot = [under(block, temperature_c=50 + i / 2) for i, block in enumerate(rising())]
    assert doubts.THROTTLING in reasons(hot)
    slower_clock = [under(block, frequency_mhz=2000 - 10 * i) for i, block in enumerate(rising())]
    assert doubts.THROTTLING in reasons(slower_clock)
    assert doubts.THROTTLING not in reasons(rising())
    only_heat = [under(block, temperature_c=50 + i / 2) for i, block in enumerate(quiet_blocks())]
    assert doubts.THROTTLING not in reasons(only_heat)


def test_few_samples() -> None:
    assert doubts.FEW_SAMPLES in reasons(quiet_blocks(processes=2, blocks=2, runs=5))


def test_coarse_timer() -> None:
    assert reasons(quiet_blocks(), timer_step_ns=100_000) == {doubts.COARSE_TIMER}


def test_outliers() -> None:
    blocks = quiet_blocks()
    for block in blocks:
        block.nanoseconds[3] = block.nanoseconds[7] = 5_000_000
    assert reasons(blocks) == {doubts.OUTLIERS}


def test_a_run_that_is_a_little_slower_than_very_steady_ones_is_no_outlier() -> None:
    """25.6 ms for all but three of 40, which take 1.2 ms more."""
    times = [25_600_000 + 1_000 * number for number in range(40)]
    times[7] = times[23] = times[31] = 26_800_000
    samples = Samples((Block(0, 0.0, array("q", times)),))
    assert doubts.OUTLIERS not in {doubt.code for doubt in samples.doubts()}


def test_no_page_is_told_of_a_p95_that_it_may_not_show() -> None:
    for doubt in (remark(doubts.OUTLIERS, share=0.1), remark(doubts.DISTURBED, share=0.3, slowdown=1.0)):
        assert "p95" not in DOUBTS.text(doubt) + DOUBTS.hint(doubt)


def test_processes_differ() -> None:
    blocks = [slowed(block, 1.12 if block.runner % 2 else 1.0) for block in quiet_blocks(processes=6)]
    assert doubts.PROCESSES_DIFFER in reasons(blocks)


def test_one_process_cannot_differ() -> None:
    assert doubts.PROCESSES_DIFFER not in reasons(quiet_blocks(processes=1))


def test_clock_that_never_moved_is_a_doubt_and_no_crash() -> None:
    assert doubts.COARSE_TIMER in reasons(
        [replace(block, nanoseconds=array("q", [0] * 20)) for block in quiet_blocks()]
    )


def test_figures_are_those_of_the_raw_times() -> None:
    samples = Samples((Block(0, 0.0, array("q", range(1_000_000, 101_000_000, 1_000_000))),))
    assert samples.count == 100
    assert samples.min_ms == 1.0
    assert samples.p95_ms == pytest.approx(95.05)
    assert samples.plain_median_ms == pytest.approx(50.5)


def test_outliers_stay_in_the_samples_and_out_of_the_median() -> None:
    blocks = quiet_blocks()
    blocks[4].nanoseconds[0] = 10**9
    samples = Samples(tuple(blocks))
    assert samples.milliseconds.max() == 1000.0
    assert samples.count == 5 * 8 * 20
    assert samples.median_ms == pytest.approx(1.0, rel=0.01)


def test_outliers_show_in_p95() -> None:
    blocks = quiet_blocks()
    for block in blocks:
        block.nanoseconds[3] = block.nanoseconds[7] = 5_000_000
    assert Samples(tuple(blocks)).p95_ms == 5.0


def test_latency_never_reaches_below_no_time() -> None:
    times = (1_000_000, 1_140_000)
    samples = Samples(tuple(Block(runner, 0.0, array("q", [time])) for runner, time in enumerate(times)))
    assert 0.0 <= samples.latency.low <= samples.median_ms


def test_runs_that_something_else_disturbed_move_p95_and_not_the_latency() -> None:
    """Half of the runs take twice their time, in stretches and in single runs, as on a core with a busy neighbor."""
    source = np.random.default_rng(0)
    blocks = []
    for number in range(40):
        times = source.normal(5e6, 2e4, 20)
        times[source.random(20) < (0.9 if number % 3 == 0 else 0.3)] *= 2
        blocks.append(Block(number // 8, number * 0.05, array("q", times.astype(int).tolist())))
    samples = Samples(tuple(blocks))
    assert samples.median_ms == pytest.approx(5.0, rel=0.01)
    assert samples.latency.relative_half_width < 0.02
    assert samples.p95_ms > 9.5
    assert samples.disturbed_share == pytest.approx(0.5, abs=0.05)
    (doubt,) = (doubt for doubt in samples.doubts() if doubt.code == doubts.DISTURBED)
    assert "100 %" in DOUBTS.text(doubt)


def test_latency_of_quiet_runs_is_their_plain_median() -> None:
    samples = Samples(tuple(quiet_blocks()))
    assert samples.disturbed_share == 0.0
    assert samples.median_ms == pytest.approx(samples.plain_median_ms, rel=0.005)


def test_energy_of_a_run() -> None:
    samples = Samples(tuple(quiet_blocks()))
    assert samples.joules == pytest.approx(0.5 / 20)


def test_cpu_time_of_a_run_leaves_out_what_lies_between_runs() -> None:
    """Runs of 5 µs on one thread, with 7 µs of measuring between them."""
    wall = 1000 * 12e-6
    block = Block(0, 0.0, array("q", [5000] * 1000), Conditions(wall_seconds=wall, cpu_seconds=wall))
    samples = Samples((block, block))
    assert samples.cpu_ms == pytest.approx(0.005)
    assert samples.cores_busy == pytest.approx(1.0)
    waited = array("q", [5000] * 999 + [40_000_000])
    disturbed = Block(0, 0.0, waited, Conditions(wall_seconds=wall + 0.04, cpu_seconds=wall))
    assert Samples((block, block, disturbed)).cpu_ms == pytest.approx(0.005), "waiting for a core takes no CPU time"
    both = replace(block, conditions=Conditions(wall_seconds=wall, cpu_seconds=2 * wall))
    assert Samples((both,)).cpu_ms == pytest.approx(0.010)


def test_energy_is_unknown_if_one_block_lacks_it() -> None:
    blocks = quiet_blocks()
    blocks[3] = under(blocks[3], joules=None)
    assert Samples(tuple(blocks)).joules is None


def test_no_times_are_refused() -> None:
    with pytest.raises(ValueError, match="without a single timed run"):
        from_data(Samples, {"blocks": [None]})
    with pytest.raises(ValueError, match="without a single timed run"):
        Samples(())
    with pytest.raises(ValueError, match="without a single timed run"):
        Samples((Block(0, 0.0, array("q")),))


OPTIONAL = st.none() | st.floats(0, 1e6)
CONDITIONS = st.builds(
    Conditions,
    wall_seconds=st.floats(0, 1e3),
    cpu_seconds=st.floats(0, 1e3),
    other_cores_busy=OPTIONAL,
    stolen_share=OPTIONAL,
    involuntary_switches=st.none() | st.integers(0, 10**6),
    frequency_mhz=OPTIONAL,
    temperature_c=st.none() | st.floats(-50, 200),
    joules=OPTIONAL,
)
BLOCKS = st.builds(
    Block,
    runner=st.integers(0, 20),
    at_seconds=st.integers(0, 10**6).map(lambda value: value / 1000),
    nanoseconds=st.lists(st.integers(0, 2**62), min_size=1, max_size=6).map(lambda values: array("q", values)),
    conditions=CONDITIONS,
)


@settings(deadline=None)
@given(st.lists(BLOCKS, min_size=1, max_size=5), st.integers(0, 10**6))
def test_samples_come_back_from_json_as_they_were(blocks: list[Block], step: int) -> None:
    samples = Samples(tuple(blocks), step)
    assert from_data(Samples, json.loads(json.dumps(to_data(samples), allow_nan=False))) == samples


@settings(deadline=None)
@given(st.lists(BLOCKS, min_size=1, max_size=5))
def test_any_samples_can_be_summed_up(blocks: list[Block]) -> None:
    samples = Samples(tuple(blocks), 50)
    assert samples.min_ms <= samples.p95_ms
    for doubt in samples.doubts():
        assert DOUBTS.text(doubt)
        assert DOUBTS.hint(doubt)


def test_a_clock_coarser_than_the_run_still_gives_its_latency() -> None:
    """A run of 2.5 ms by a clock that ticks every 10 ms: three of four seem to take no time at all."""
    starts = np.arange(400) * 2_500_000 + 1_234_567
    seen = ((starts + 2_500_000) // 10_000_000 - starts // 10_000_000) * 10_000_000
    blocks = [Block(process, 0.0, array("q", part.tolist()), QUIET) for process, part in enumerate(np.split(seen, 4))]
    samples = Samples(tuple(blocks), 10_000_000)
    assert samples.median_ms == pytest.approx(2.5, rel=0.05)
    assert doubts.COARSE_TIMER in {doubt.code for doubt in samples.doubts()}
    assert "2.5" in DOUBTS.text(next(doubt for doubt in samples.doubts() if doubt.code == doubts.COARSE_TIMER))


def test_a_clock_that_went_backwards_is_told() -> None:
    blocks = quiet_blocks()
    assert doubts.CLOCK_BACKWARDS in reasons([*blocks[:-1], under(blocks[-1], clock_backwards=2)])


def processes_at(*milliseconds: float, every_run: bool = False) -> Samples:
    source = np.random.default_rng(0)
    blocks = [
        Block(process, process + turn / 100, array("q", source.normal(ms * 1e6, ms * 2e3, 20).astype(int).tolist()))
        for process, ms in enumerate(milliseconds)
        for turn in range(4)
    ]
    return Samples(tuple(blocks), 50, every_run=every_run)


def test_next_to_a_load_on_purpose_every_round_counts() -> None:
    """A round that the load slowed down is what was to be measured, not a disturbance of it."""
    beside = processes_at(10.0, 14.0, 15.0, 16.0, 20.0, every_run=True)
    assert beside.median_ms == pytest.approx(14.64, rel=0.01)
    assert beside.latency.low < 13
    assert beside.latency.high > 16
    assert beside.counted == 5
    twice = processes_at(20.0, 28.0, 30.0, 32.0, 40.0, every_run=True)
    assert twice.beside(beside).median_ms == pytest.approx(2 * beside.median_ms, rel=0.01)


def test_a_latency_that_stands_on_one_of_several_processes_is_doubted() -> None:
    samples = processes_at(10.0, 13.0, 13.1, 13.2)
    assert samples.counted == 1
    (doubt,) = (doubt for doubt in samples.doubts() if doubt.code == doubts.ONE_PROCESS)
    assert "1 of 4 processes" in DOUBTS.text(doubt)
    (single,) = (doubt for doubt in processes_at(10.0).doubts() if doubt.code == doubts.ONE_PROCESS)
    assert DOUBTS.text(single).startswith("All runs are from one process.")
