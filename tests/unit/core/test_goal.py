"""Goals: each has one way to be read from a measurement, one to be written, and the one rule for verdicts."""

from __future__ import annotations

import json
import math
from array import array
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hasten.core.block import Block, Conditions
from hasten.core.codec import from_data, to_data
from hasten.core.comparison import Verdict
from hasten.core.contention import compare_measurements
from hasten.core.costs import amount_of, decisive, measured_levels, size_levels
from hasten.core.errors import UsageError
from hasten.core.goal import GOALS, Amount, Goal, goal_fact, goal_in, goal_named
from hasten.core.measurement import Burst, Effective, Measurement, Model, Start
from hasten.core.plan import Plan, Workload
from hasten.core.samples import Samples
from hasten.core.session import Line, merged_rounds
from hasten.core.statistics import Interval

TIMED = (Goal.ENERGY, Goal.THROUGHPUT, Goal.START)
RUNS = 20


def measured(costs: dict[Goal, list[float]], size: int = 1000, **conditions: Any) -> Measurement:
    """A measurement with these costs in each round: milliseconds, millijoules of a run, and so on."""
    rounds = range(len(next(iter(costs.values()))))
    energy = costs.get(Goal.ENERGY)
    blocks = [
        Block(
            number,
            float(number),
            array("q", [round(costs.get(Goal.LATENCY, [1.0] * len(rounds))[number] * 1e6)] * RUNS),
            Conditions(1.0, 1.0, joules=None if energy is None else energy[number] * RUNS / 1e3, **conditions),
        )
        for number in rounds
    ]
    return Measurement(
        Model("m.tflite", size, "0"),
        Plan(),
        Workload(),
        Effective("cpu", 1, "CompiledModel", zero_copy=True, fully_accelerated=True),
        Samples(tuple(blocks)),
        1.0,
        1.0,
        1,
        None,
        starts=tuple(Start(number, 0.75 * ms, 0.25 * ms) for number, ms in enumerate(costs.get(Goal.START, ()))),
        bursts=tuple(
            Burst(number, (100, 300), (0.2 * ms, 0.6 * ms)) for number, ms in enumerate(costs.get(Goal.THROUGHPUT, ()))
        ),
    )


@pytest.mark.parametrize("goal", [Goal.LATENCY, *TIMED])
def test_each_goal_is_read_from_its_own_part_of_a_measurement(goal: Goal) -> None:
    found = measured_levels(goal, measured({goal: [1.0, 2.0, 4.0]}))
    assert list(found) == [0, 1, 2]
    assert [math.exp(level) for level in found.values()] == pytest.approx([1.0, 2.0, 4.0])
    others = [other for other in TIMED if other is not goal]
    assert all(measured_levels(other, measured({goal: [1.0]})) == {} for other in others)


def test_a_size_is_exact() -> None:
    assert measured_levels(Goal.SIZE, measured({Goal.LATENCY: [1.0]}, 500)) == size_levels(500)
    one, other = measured({Goal.LATENCY: [1.0]}, 1000), measured({Goal.LATENCY: [9.0]}, 950)
    found = compare_measurements(one, other, goal=Goal.SIZE)
    assert found.verdict is Verdict.FASTER
    assert found.ratio == pytest.approx(0.95)
    assert found.ci95 == pytest.approx((0.95, 0.95))
    assert size_levels(0) == {}


def test_files_of_one_size_are_compared_by_latency() -> None:
    assert decisive(Goal.SIZE, 1000, 1001) is Goal.LATENCY
    assert decisive(Goal.SIZE, 1000, 900) is Goal.SIZE
    assert decisive(Goal.SIZE, 0, 900) is Goal.SIZE
    assert decisive(Goal.ENERGY, 1000, 1000) is Goal.ENERGY


def test_a_round_without_a_whole_reading_of_the_counter_has_no_energy() -> None:
    blocks = [
        Block(0, 0.0, array("q", [1_000_000] * 10), Conditions(joules=0.02)),
        Block(0, 0.1, array("q", [1_000_000] * 10), Conditions(joules=0.06)),
        Block(1, 0.2, array("q", [1_000_000] * 10), Conditions(joules=0.02)),
        Block(1, 0.3, array("q", [1_000_000] * 10), Conditions()),
    ]
    assert Samples(tuple(blocks)).millijoules == {0: pytest.approx(4.0)}


def drawn(source: np.random.Generator, goal: Goal, ratio: float, noise: float) -> Measurement:
    return measured({goal: [ratio * math.exp(value) for value in source.normal(0, noise, 8)]})


@pytest.mark.parametrize("goal", [Goal.LATENCY, *TIMED])
def test_verdicts_follow_one_rule_whatever_the_goal(goal: Goal) -> None:
    """Known truth: equals are seldom told apart, a tenth is found, and nothing is ever taken for its opposite."""
    source = np.random.default_rng(3)

    def verdicts(ratio: float) -> Counter[Verdict]:
        pairs = [(drawn(source, goal, 1.0, 0.02), drawn(source, goal, ratio, 0.02)) for _ in range(200)]
        return Counter(compare_measurements(one, other, goal=goal).verdict for one, other in pairs)

    equal, better, worse = (verdicts(ratio) for ratio in (1.0, 0.88, 1.14))
    assert (equal[Verdict.FASTER] + equal[Verdict.SLOWER]) / 200 <= 0.03
    assert better[Verdict.FASTER] / 200 > 0.9
    assert worse[Verdict.SLOWER] / 200 > 0.9
    assert better[Verdict.SLOWER] == worse[Verdict.FASTER] == 0


def test_next_to_other_programs_energy_is_undecided_and_size_is_not() -> None:
    busy = {"other_cores_busy": 1.0, "cores": 4}
    one, other = (measured({Goal.ENERGY: [cost] * 6}, size, **busy) for cost, size in ((2.0, 1000), (1.0, 500)))
    found = compare_measurements(one, other, goal=Goal.ENERGY)
    assert found.verdict is Verdict.UNDECIDED
    assert found.contention == pytest.approx(1.0)
    assert compare_measurements(one, other, goal=Goal.SIZE).verdict is Verdict.FASTER


def test_names() -> None:
    assert GOALS == ("latency", "size", "energy", "throughput", "start")
    assert goal_named("speed") is Goal.LATENCY, "its older name"
    assert [goal_named(name) for name in GOALS] == list(Goal)
    with pytest.raises(UsageError, match="no goal 'joy'") as raised:
        goal_named("joy")
    assert "throughput" in raised.value.hint


@given(st.sampled_from(list(Goal)))
def test_a_goal_comes_back_from_the_facts_of_a_remark(goal: Goal) -> None:
    assert goal_in(json.loads(json.dumps(goal_fact(goal)))) is goal


@given(st.floats(0.01, 1e4), st.floats(1.0, 1.5))
def test_throughput_is_shown_as_a_rate_with_its_ends_in_order(ms: float, factor: float) -> None:
    found = amount_of(Goal.THROUGHPUT, Interval(ms, ms / factor, ms * factor))
    assert found.value == pytest.approx(1000 / ms)
    assert found.ci95[0] <= found.value * (1 + 1e-9)
    assert found.ci95[1] >= found.value * (1 - 1e-9)
    assert amount_of(Goal.THROUGHPUT, Interval(ms, -math.inf, math.inf)) == Amount(1000 / ms)


def test_gains_in_words() -> None:
    assert Goal.LATENCY.gain(0.5, (0.45, 0.55)) == "2.0× faster (95 % CI 1.8–2.2)"
    assert Goal.ENERGY.gain(0.5, (0.45, 0.55)) == "2.0× more energy-efficient (95 % CI 1.8–2.2)"
    assert Goal.THROUGHPUT.gain(2.0, (1.8, 2.2)) == "2.0× lower throughput (95 % CI 1.8–2.2)"
    assert Goal.START.gain(0.98, (0.9, 1.1)).startswith("not proven faster to start")
    assert Goal.SIZE.gain(0.26) == "74 % smaller"


@pytest.mark.parametrize(
    ("goal", "value", "text"),
    [
        (Goal.LATENCY, 1.5, "1.50 ms"),
        (Goal.SIZE, 1_434_432, "1.43 MB"),
        (Goal.ENERGY, 0.04, "40.0 µJ"),
        (Goal.ENERGY, 3.0, "3.00 mJ"),
        (Goal.ENERGY, 25_000, "25.0 J"),
        (Goal.THROUGHPUT, 812.4, "812/s"),
        (Goal.START, 55.0, "55.0 ms"),
        (Goal.ENERGY, math.nan, "unknown"),
    ],
)
def test_figures_in_words(goal: Goal, value: float, text: str) -> None:
    assert goal.written(value) == text


def test_an_older_measurement_has_no_starts_and_a_newer_one_comes_back() -> None:
    found = measured({Goal.START: [10.0, 12.0], Goal.THROUGHPUT: [1.0, 1.0]})
    data = json.loads(json.dumps(to_data(found), allow_nan=False))
    again = from_data(Measurement, data)
    assert (again.starts, again.bursts) == (found.starts, found.bursts)
    older = {name: value for name, value in data.items() if name not in ("starts", "bursts")}
    assert from_data(Measurement, older).starts == ()


def test_rounds_saved_one_by_one_are_one_measurement_with_all_starts() -> None:
    lines = []
    for number in (1, 2):
        data = to_data(measured({Goal.START: [10.0 * number], Goal.THROUGHPUT: [1.0]}))
        lines.append(Line("measurement", "a", "", {**data, "round": number}))
    (merged,) = merged_rounds(lines)
    found = from_data(Measurement, merged.data)
    assert [start.init_ms for start in found.starts] == [7.5, 15.0]
    assert len(found.bursts) == 2
