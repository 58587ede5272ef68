"""The search for the fewest nodes that must stay float, on simulated models whose answer is known."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hasten.core.mixing import MixSearch, Sensitivity, sensitivity_from_data


def group(number: int, error: float, share: float) -> Sensitivity:
    return Sensitivity("static_int8", (number,), "CONV_2D", f"n{number}", error, share, "time")


def searched(order: list[Sensitivity], needed: int, drops: list[float] | None = None) -> MixSearch:
    """Search where `needed` groups suffice; `drops` by how many are float."""
    search = MixSearch(order, None if drops is None else drops[0], 0.01)
    while (tried := search.next) is not None:
        assert search.too_few < tried < search.enough
        search.tell(tried, tried >= needed, None if drops is None else drops[tried])
    return search


@given(st.integers(1, 300), st.data())
def test_the_fewest_are_found_in_logarithmic_time(count: int, data: st.DataObject) -> None:
    needed = data.draw(st.integers(1, count))
    search = searched([group(number, 0.1, 1.0) for number in range(count)], needed)
    assert search.enough == needed
    assert search.evaluations <= math.ceil(math.log2(count)) + 1


@given(st.lists(st.tuples(st.floats(0.001, 1), st.floats(0, 0.2)), min_size=2, max_size=60), st.data())
def test_what_is_found_suffices_whatever_the_drops_say(groups: list[tuple[float, float]], data: st.DataObject) -> None:
    order = sorted((group(number, *pair) for number, pair in enumerate(groups)), key=lambda entry: -entry.cost)
    needed = data.draw(st.integers(1, len(order)))
    drops = data.draw(st.lists(st.floats(-0.1, 1), min_size=len(order) + 1, max_size=len(order) + 1))
    search = searched(order, needed, drops)
    assert search.enough >= needed
    assert search.evaluations <= math.ceil(math.log2(len(order))) + 4


def test_errors_that_add_up_lead_to_the_answer_at_once() -> None:
    """Where the drop follows the squared errors that are left, the first try is nearly right."""
    order = [group(number, 0.8**number, 0.05) for number in range(20)]
    left = [math.fsum(entry.error**2 for entry in order[count:]) for count in range(21)]
    drops = [0.2 * value / left[0] for value in left]
    needed = next(count for count, drop in enumerate(drops) if drop <= 0.01)
    search = searched(order, needed, drops)
    assert search.enough - needed in (0, 1)
    assert search.evaluations <= 2


def test_groups_that_have_nothing_to_give_cost_no_evaluation() -> None:
    order = [group(number, 1.0, 0.0005) for number in range(30)] + [group(30, 0.01, 0.9)]
    search = searched(order, 3)
    assert 3 <= search.enough < 31
    assert search.evaluations <= 2


def test_a_group_that_cannot_be_quantised_at_all_does_not_end_the_search() -> None:
    order = [group(0, math.inf, 0.1), *(group(number, 0.1, 0.1) for number in range(1, 9))]
    assert searched(order, 4, [0.5] * 10).enough == 4


@pytest.mark.parametrize("error", [0.25, math.inf])
def test_a_sensitivity_survives_the_session_file(error: float) -> None:
    found = Sensitivity("static_int8", (3, 4), "CONV_2D and 1 more", "conv", error, 0.1)
    assert sensitivity_from_data(json.loads(json.dumps(found.as_data(), allow_nan=False))) == found


def test_what_hurts_most_for_its_gain_goes_back_first() -> None:
    cheap, dear = (Sensitivity("r", (node,), "CONV_2D", "", 0.1, share) for node, share in ((0, 0.5), (1, 0.01)))
    assert dear.cost > cheap.cost
