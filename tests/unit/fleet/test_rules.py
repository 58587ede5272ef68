"""Which choice serves all devices: properties of both rules, and intervals held to a known truth."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from hasten.core.comparison import Comparison, Verdict
from hasten.core.errors import UsageError
from hasten.core.floor import FloorState
from hasten.core.plan import Plan
from hasten.core.trial import ORIGINAL, Trial
from hasten.fleet.facts import Choice, FleetDevice, FleetFound, FleetTrial
from hasten.fleet.rules import named_choices, same_machines, shares, with_single_choices
from tests.unit.fleet import examples

BASE = Choice("original@cpu, 1 thread", ORIGINAL, Plan(), "0")


def fleet(ratios: list[list[float]], weights: list[float] | None = None, half_width: float = 0.02) -> FleetFound:
    """Devices × choices, each a ratio to the original on that device; choice 0 is the original as it runs now."""
    names = [f"d{place}" for place in range(len(ratios))]
    choices = [BASE, *(Choice(f"c{place}", f"v{place}", Plan(), str(place)) for place in range(1, len(ratios[0])))]
    devices, trials = [], []
    for name, row in zip(names, ratios, strict=True):
        best = int(np.argmin(row))
        where, best_id = examples.place(name), choices[best].id
        devices.append(FleetDevice(where, original=Trial(ORIGINAL), best=Trial("best"), best_id=best_id))
        for place, ratio in enumerate(row[1:], 1):
            against = examples.compared(ratio, half_width)
            than_best = examples.compared(ratio / row[best], half_width)
            trials.append(
                FleetTrial(choices[place].id, name, against=against, than_best=than_best, floor=FloorState.KEPT)
            )
    given_weights = dict(zip(names, weights or [1.0] * len(names), strict=True))
    return FleetFound("m", tuple(devices), tuple(choices), tuple(trials), shares(names, given_weights))


ROWS = st.integers(2, 5).flatmap(
    lambda choices: st.lists(
        st.lists(st.floats(0.1, 3.0), min_size=choices - 1, max_size=choices - 1).map(lambda row: [1.0, *row]),
        min_size=1,
        max_size=6,
    )
)


HALF_WIDTH = -math.log(1 - 0.02)
"""Of the logarithm of each ratio in `fleet`."""


@given(ROWS)
def test_no_proven_choice_is_better_by_the_rule_than_the_one_that_it_gives(rows: list[list[float]]) -> None:
    found = with_single_choices(fleet(rows))
    assert found.weighted is not None
    assert found.worst_case is not None
    levels = [float(np.mean([math.log(row[place]) for row in rows])) for place in range(len(rows[0]))]
    half = HALF_WIDTH / math.sqrt(len(rows))
    assume(all(abs(level + half) > 1e-9 for level in levels))
    allowed = [place for place, level in enumerate(levels) if not place or level + half < 0]
    means = [math.exp(levels[place]) for place in allowed]
    worst = [max(row[place] / min(row) for row in rows) for place in allowed]
    assert found.weighted.ratio == pytest.approx(min(means))
    assert found.worst_case.worst_ratio == pytest.approx(min(worst))
    low, high = found.weighted.ci95
    assert low <= found.weighted.ratio <= high


@given(ROWS, st.floats(0.2, 5.0))
def test_how_fast_a_device_runs_the_original_decides_nothing(rows: list[list[float]], factor: float) -> None:
    """All choices a factor better against the original on one device: as long as it does not win, the choice stays."""
    scaled_rows = [[1.0, *(ratio * factor for ratio in rows[0][1:])], *rows[1:]]
    plain, scaled = (with_single_choices(fleet(one)).weighted for one in (rows, scaled_rows))
    assert plain is not None
    assert scaled is not None
    if BASE.id not in (plain.choice, scaled.choice):
        assert scaled.ratio == pytest.approx(plain.ratio * factor ** (1 / len(rows)))


@given(ROWS, st.data())
def test_with_all_the_weight_a_device_gets_its_own_best(rows: list[list[float]], data: st.DataObject) -> None:
    chosen = data.draw(st.integers(0, len(rows) - 1))
    weights = [1e-12] * len(rows)
    weights[chosen] = 1.0
    found = with_single_choices(fleet(rows, weights))
    best = min(rows[chosen])
    assume(abs(math.log(best) + HALF_WIDTH) > 1e-6)
    assert found.weighted is not None
    assert found.weighted.ratio == pytest.approx(best if math.log(best) + HALF_WIDTH < 0 else 1.0, rel=1e-6)


@given(ROWS, st.data())
def test_what_breaks_the_floor_on_one_device_serves_none(rows: list[list[float]], data: st.DataObject) -> None:
    whole = fleet(rows)
    place = data.draw(st.integers(0, len(whole.trials) - 1))
    broken = replace(whole.trials[place], floor=data.draw(st.sampled_from([FloorState.BROKEN, FloorState.FAILED])))
    found = with_single_choices(replace(whole, trials=(*whole.trials[:place], broken, *whole.trials[place + 1 :])))
    assert found.weighted is not None
    assert found.worst_case is not None
    assert broken.choice not in (found.weighted.choice, found.worst_case.choice)


def test_the_rules_may_disagree() -> None:
    found = examples.divided()
    assert found.weighted is not None
    assert found.worst_case is not None
    assert found.weighted.choice != found.worst_case.choice
    assert found.worst_case.worst_ratio < found.weighted.worst_ratio
    assert found.weighted.ratio < found.worst_case.ratio


def test_a_choice_that_was_not_timed_everywhere_serves_none() -> None:
    whole = fleet([[1.0, 0.5], [1.0, 0.6]])
    devices = tuple(replace(device, final=examples.compared(0.6, 0.02)) for device in whole.devices)
    found = with_single_choices(replace(whole, devices=devices, trials=whole.trials[:1]))
    assert found.weighted is not None
    assert found.weighted.choice == BASE.id
    nothing = with_single_choices(replace(whole, devices=()))
    assert nothing.weighted is None


def test_a_rival_within_the_interval_is_named() -> None:
    close = with_single_choices(fleet([[1.0, 0.50, 0.505], [1.0, 0.61, 0.60]], half_width=0.05))
    assert [note.code for note in close.notes] == ["fleet.close"]
    clear = with_single_choices(fleet([[1.0, 0.50, 0.80], [1.0, 0.40, 0.90]], half_width=0.01))
    assert clear.notes == ()


def test_the_interval_over_devices_covers_the_truth() -> None:
    """Three devices with known ratios and independent errors: 95 % of the intervals hold the true mean."""
    source, inside = np.random.default_rng(0), 0
    truth, errors, weights = np.log([0.4, 0.7, 0.9]), np.array([0.01, 0.05, 0.03]), [3.0, 1.0, 2.0]
    mean = float(np.average(truth, weights=weights))
    for _ in range(600):
        seen = truth + source.normal(0, errors)
        whole = fleet([[1.0, math.exp(level)] for level in seen], weights)
        trials = tuple(
            replace(trial, against=_known(level, 1.96 * error))
            for trial, level, error in zip(whole.trials, seen, errors, strict=True)
        )
        found = with_single_choices(replace(whole, trials=trials)).weighted
        assert found is not None
        inside += found.ci95[0] <= math.exp(mean) <= found.ci95[1]
    assert 0.92 <= inside / 600 <= 0.98


def _known(level: float, half: float) -> Comparison:
    return Comparison(Verdict.FASTER, math.exp(level), (math.exp(level - half), math.exp(level + half)), 0.01, 8)


def test_what_is_not_proven_faster_leaves_the_original() -> None:
    whole = fleet([[1.0, 0.5]])
    unknown = replace(whole.trials[0], against=Comparison(Verdict.UNDECIDED, 0.5, (0.0, math.inf), math.inf, 1))
    found = with_single_choices(replace(whole, trials=(unknown,)))
    assert found.weighted is not None
    assert found.weighted.choice == BASE.id
    wide = replace(whole.trials[0], against=Comparison(Verdict.UNDECIDED, 0.95, (0.85, 1.06), 0.1, 8))
    close = with_single_choices(replace(whole, trials=(wide,))).weighted
    assert close is not None
    assert close.choice == BASE.id


def test_equal_choices_are_one_and_namesakes_are_two() -> None:
    one, other = (
        replace(examples.device(name, examples._INT8, 9.0, 0.5), best=Trial("int8+float9", Plan(threads=2), sha256=sha))
        for name, sha in (("a", "1"), ("b", "2"))
    )
    twin = replace(one, device=replace(one.device, name="c"))
    found = named_choices((Plan(), "0", 10), [one, other, twin])
    assert [choice.devices for choice in found] == [(), ("a", "c"), ("b",)]
    assert len({choice.id for choice in found}) == 3
    kept = replace(one, best=Trial(ORIGINAL, Plan(), sha256="0"))
    assert named_choices((Plan(), "0", 10), [kept])[0].devices == ("a",)


def test_weights_are_shares_and_names_are_checked() -> None:
    assert shares(["a", "b"], {"b": 3}) == {"a": 0.25, "b": 0.75}
    with pytest.raises(UsageError, match="mars"):
        shares(["a"], {"mars": 1})
    with pytest.raises(UsageError, match="above 0"):
        shares(["a"], {"a": 0})


def test_two_devices_of_one_machine_are_told() -> None:
    assert [note.facts["devices"] for note in same_machines({"a": "host", "b": "host", "c": "other"})] == [["a", "b"]]
    assert same_machines({"a": "one", "b": "two"}) == []
