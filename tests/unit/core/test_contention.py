"""Verdicts on a machine that others use too: simulated runs whose truth is known."""

from __future__ import annotations

import math
from array import array
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from hasten.core.block import Block, Conditions
from hasten.core.comparison import Verdict
from hasten.core.contention import compare_measurements
from hasten.core.goal import Goal
from hasten.core.measurement import Effective, Measurement, Model
from hasten.core.plan import Plan, Workload
from hasten.core.samples import Samples

Runs = np.ndarray[tuple[int], np.dtype[np.float64]]
ROUNDS, BLOCKS, RUNS, CORES = 8, 6, 12, 2


def measured(
    threads: int, rounds: list[list[np.ndarray[tuple[int], np.dtype[np.float64]]]], busy: float, **usable: Any
) -> Measurement:
    """Runs in milliseconds, by round and block."""
    blocks = [
        Block(
            number,
            0.0,
            array("q", (runs * 1e6).astype(int).tolist()),
            replace(Conditions(1.0, min(threads, CORES - busy / 2), busy, cores=CORES), **usable),
        )
        for number, blocks in enumerate(rounds)
        for runs in blocks
    ]
    plan = Plan(threads=threads)
    effective = Effective("cpu", threads, "CompiledModel", zero_copy=True, fully_accelerated=True)
    return Measurement(
        Model("m.tflite", 1, "0"), plan, Workload(), effective, Samples(tuple(blocks)), 1.0, 1.0, 1, None
    )


def simulated(
    source: np.random.Generator, latencies: tuple[float, float], slowdowns: tuple[float, float], share: float
) -> list[list[list[Runs]]]:
    """Two plans that take turns; in this share of the blocks something else slows each by its own factor."""
    found: list[list[list[Runs]]] = [[], []]
    for _ in range(ROUNDS):
        held_up = source.random(BLOCKS) < share
        for side, (latency, slowdown) in enumerate(zip(latencies, slowdowns, strict=True)):
            process = np.exp(source.normal(0, 0.005))
            blocks = []
            for disturbed in held_up:
                factor = slowdown * source.uniform(0.8, 1.4) if disturbed else 1.0
                blocks.append(latency * process * max(factor, 1.0) * np.exp(source.normal(0, 0.01, RUNS)))
            found[side].append(blocks)
    return found


def verdicts(
    latencies: tuple[float, float], slowdowns: tuple[float, float], share: float, busy: float = 0.0
) -> Counter[Verdict]:
    source, found = np.random.default_rng(3), Counter[Verdict]()
    for _ in range(60):
        one, two = simulated(source, latencies, slowdowns, share)
        found[compare_measurements(measured(1, one, busy), measured(2, two, busy)).verdict] += 1
    return found


@pytest.mark.parametrize("share", [0.0, 0.3, 0.6, 0.8])
def test_two_threads_that_suffer_more_are_not_called_slower(share: float) -> None:
    """In truth two threads take 0.6 of the time; disturbed, they take twice as long and one thread 1.2 times."""
    found = verdicts((2.0, 1.2), (1.2, 2.0), share)
    assert found[Verdict.SLOWER] == 0
    assert found[Verdict.SAME] == 0
    if share <= 0.6:
        assert found[Verdict.FASTER] >= 54


def test_steady_load_on_a_core_leaves_more_threads_undecided() -> None:
    """Always disturbed: no run shows the truth, and only the load itself tells."""
    found = verdicts((2.0, 1.2), (1.05, 2.5), 1.0, busy=1.0)
    assert found[Verdict.UNDECIDED] == 60


def test_a_plan_that_is_faster_in_spite_of_the_load_is_faster() -> None:
    assert verdicts((2.0, 0.6), (1.05, 2.0), 1.0, busy=1.0)[Verdict.FASTER] >= 54


def test_no_load_explains_a_latency_that_is_many_times_another() -> None:
    assert verdicts((2.0, 682.0), (1.05, 1.5), 1.0, busy=1.0)[Verdict.SLOWER] == 60


def test_the_reason_is_kept_with_the_comparison() -> None:
    one, two = simulated(np.random.default_rng(1), (2.0, 1.2), (1.05, 2.5), 1.0)
    found = compare_measurements(measured(1, one, 1.0), measured(2, two, 1.0))
    assert found.contention == pytest.approx(1.0)
    assert found.is_withheld
    assert found.smallest_detectable == math.inf, "no difference is detectable"
    quiet = compare_measurements(measured(1, one, 0.0), measured(1, one, 0.0))
    assert quiet.contention == 0.0
    assert not quiet.is_withheld


def test_quickest_runs_that_say_the_opposite_are_a_reason_of_their_own() -> None:
    """The second is slower in all rounds but one, which alone is undisturbed, and quicker there."""
    source = np.random.default_rng(1)
    steady = [[2.0 * np.exp(source.normal(0, 0.001, RUNS)) for _ in range(BLOCKS)] for _ in range(ROUNDS)]
    held_up = [
        [runs * ((1.13 if block % 2 else 3.0) if number else 0.98) for block, runs in enumerate(blocks)]
        for number, blocks in enumerate(steady)
    ]
    found = compare_measurements(measured(1, steady, 0.0), measured(1, held_up, 0.0))
    assert found.verdict is Verdict.UNDECIDED
    assert found.quickest_disagree
    assert found.is_withheld
    assert found.contention == 0.0, "nobody has seen other programs"
    assert found.smallest_detectable == math.inf


@pytest.mark.parametrize("share", [0.0, 0.5])
def test_equal_plans_are_never_told_apart_by_load(share: float) -> None:
    source, wrong = np.random.default_rng(9), 0
    for _ in range(60):
        one, two = simulated(source, (1.0, 1.0), (1.5, 1.5), share)
        found = compare_measurements(measured(1, one, 0.9), measured(1, two, 0.9))
        wrong += found.verdict in (Verdict.FASTER, Verdict.SLOWER)
    assert wrong <= 2


@pytest.mark.parametrize(("busy", "verdict"), [(1.0, Verdict.UNDECIDED), (0.1, Verdict.SLOWER)])
def test_load_counts_on_the_cores_that_a_plan_may_use(busy: float, verdict: Verdict) -> None:
    """Two cores of sixteen, as in a container: what others do on the other fourteen takes nothing from the plan."""
    one, two = simulated(np.random.default_rng(1), (1.0, 1.3), (1.0, 1.0), 0.0)
    usable = {"cores": 16, "usable_cores": 2, "usable_cores_busy": busy}
    first, second = measured(1, one, 5.0, **usable), measured(2, two, 5.0, **usable)
    found = compare_measurements(first, second)
    assert found.verdict is verdict
    assert found.contention == pytest.approx(busy if verdict is Verdict.UNDECIDED else 0.0)
    # Energy is counted for the whole machine.
    less, more = (replace(it, samples=with_joules(it.samples, size)) for it, size in ((first, 1.0), (second, 2.0)))
    assert compare_measurements(less, more, goal=Goal.ENERGY).contention == pytest.approx(5.0)


def with_joules(samples: Samples, joules: float) -> Samples:
    blocks = (replace(block, conditions=replace(block.conditions, joules=joules)) for block in samples.blocks)
    return Samples(tuple(blocks))


def test_those_that_never_met_undisturbed_are_undecided() -> None:
    one, two = simulated(np.random.default_rng(1), (1.0, 1.0), (1.0, 1.0), 0.0)
    first, second = measured(1, one, 0.0), measured(1, two, 0.0)
    elsewhere = tuple(replace(block, runner=block.runner + 100) for block in second.samples.blocks)
    found = compare_measurements(first, replace(second, samples=Samples(elsewhere)))
    assert found.verdict is Verdict.UNDECIDED
    assert found.rounds == 0
