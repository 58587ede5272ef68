"""The search for the fewest nodes that must stay float, on simulated models whose answer is known."""

from __future__ import annotations

import json
import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hasten.core.codec import from_data, to_data
from hasten.practices.quantize.facts import Sensitivity
from hasten.search.mixing import MixSearch

_MANY = 5_000
"""So many samples that a drop is known to about 0.003."""


def group(number: int, error: float, share: float) -> Sensitivity:
    return Sensitivity("static_int8", (number,), "CONV_2D", f"n{number}", error, share, "time")


def searched(
    order: list[Sensitivity], needed: int, drops: list[float] | None = None, samples: int | None = None
) -> MixSearch:
    """Search where `needed` groups suffice; `drops` by how many are float."""
    search = MixSearch(order, None if drops is None else drops[0], 0.01, samples=samples)
    tried: list[int] = []
    while (count := search.next) is not None:
        assert count not in tried
        assert count < search.enough
        # Where only the outcome is known, it is taken to be certain.
        assert drops is not None or count > max((before for before in tried if before < needed), default=0)
        search.tell(count, count >= needed, None if drops is None else drops[count])
        tried.append(count)
    return search


def left_of(order: list[Sensitivity]) -> list[float]:
    """The sum of squared errors that so many float groups leave."""
    return [math.fsum(entry.error**2 for entry in order[count:]) for count in range(len(order) + 1)]


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(-0.1, 0.2)), min_size=1, max_size=200), st.data())
def test_what_is_found_suffices_whatever_the_drops_say(groups: list[tuple[float, float]], data: st.DataObject) -> None:
    order = sorted((group(number, *pair) for number, pair in enumerate(groups)), key=lambda entry: -entry.cost)
    needed = data.draw(st.integers(1, len(order)))
    drops = data.draw(st.none() | st.lists(st.floats(-1, 1), min_size=len(order) + 1, max_size=len(order) + 1))
    search = searched(order, needed, drops)
    assert search.enough >= needed
    assert search.evaluations <= 8 + math.ceil(math.log2(len(order) + 1))


def test_errors_that_add_up_lead_near_the_answer_at_once() -> None:
    """Where the drop follows the squared errors that are left, two tries come near the fewest."""
    order = [group(number, 0.8**number, 0.05) for number in range(20)]
    left = left_of(order)
    drops = [0.2 * value / left[0] for value in left]
    needed = next(count for count, drop in enumerate(drops) if drop <= 0.01)
    search = searched(order, needed, drops, _MANY)
    assert 0 <= search.enough - needed <= 2
    assert search.evaluations <= 3


def test_simulated_models_take_a_quarter_of_the_evaluations_of_giving_back_one_by_one() -> None:
    """The drop follows what is left in a way that the search does not know, and is seen through noise."""
    source = random.Random(0)
    ours = theirs = 0
    slower = []
    for _ in range(100):
        order = sorted((group(n, source.lognormvariate(-3, 1.2), source.random() / 40) for n in range(50)), key=_worst)
        left, power, whole = left_of(order), source.choice((0.5, 0.75, 1.0)), source.uniform(0.05, 0.5)
        drops = [whole * (value / left[0]) ** power + source.gauss(0, 0.003) for value in left]
        one_by_one = next(count for count, drop in enumerate(drops) if drop <= 0.01)
        search = MixSearch(order, drops[0], 0.01, samples=_MANY)
        while (tried := search.next) is not None:
            search.tell(tried, drops[tried] <= 0.01, drops[tried])
        ours, theirs = ours + search.evaluations, theirs + one_by_one
        slower.append(sum(entry.share for entry in order[one_by_one : search.enough]))
    assert ours <= theirs / 4
    assert sum(slower) / len(slower) <= 0.06


def test_an_unlucky_drop_does_not_rule_out_mixes_with_fewer_groups_in_float() -> None:
    """On 500 samples a true drop of 0.3 points is seen as more than one point every fourth time."""
    order = [group(number, 0.8**number, 0.03) for number in range(30)]
    search = MixSearch(order, 0.04, 0.01, samples=500)
    search.tell(15, False, 0.014)
    search.tell(19, True, 0.004)
    assert search.next is not None
    assert search.next < 15


def test_on_few_samples_mixes_are_nearly_as_fast_as_if_their_drops_were_known() -> None:
    """A floor of one point, 500 samples: drops are seen with a standard deviation of a point."""
    source = random.Random(0)
    wasted, beyond = [], []
    order = [group(number, 0.85**number, 0.025) for number in range(30)]
    left = left_of(order)
    for _ in range(300):
        whole = source.uniform(0.03, 0.08)
        drops = [whole * (value / left[0]) ** 2 for value in left]
        best = next(count for count, drop in enumerate(drops) if drop <= 0.01)
        search = MixSearch(order, whole, 0.01, samples=500)
        while (tried := search.next) is not None:
            seen = drops[tried] + source.gauss(0, 0.01)
            search.tell(tried, seen <= 0.01, seen)
        wasted.append(max(0.0, sum(entry.share for entry in order[best : search.enough])))
        beyond.append(max(0.0, drops[search.enough] - 0.01))
    assert sum(wasted) / len(wasted) <= 0.06
    assert sum(beyond) / len(beyond) <= 0.005


def _worst(entry: Sensitivity) -> float:
    return -entry.cost


def test_what_neighbors_share_is_not_counted_twice() -> None:
    """Two groups with the same large error, which is that of the tensor between them: the recipe has it once."""
    order = [group(0, 0.5, 0.01), group(1, 0.5, 0.01), *(group(number, 0.1, 0.05) for number in range(2, 20))]
    knowing, guessing = MixSearch(order, 0.05, 0.01, error=0.5), MixSearch(order, 0.05, 0.01)
    assert knowing.next is not None
    assert guessing.next is not None
    assert knowing.next >= guessing.next


def test_groups_that_have_nothing_to_give_cost_few_evaluations() -> None:
    order = [group(number, 1.0, 0.0005) for number in range(30)] + [group(30, 0.01, 0.9)]
    search = searched(order, 3)
    assert 3 <= search.enough < 31
    assert search.evaluations <= 2


def test_a_group_that_cannot_be_quantized_at_all_does_not_end_the_search() -> None:
    order = [group(0, math.inf, 0.1), *(group(number, 0.1, 0.1) for number in range(1, 9))]
    assert 4 <= searched(order, 4, [0.5, *[0.5] * 3, *[0.0] * 6]).enough < len(order)


@pytest.mark.parametrize("error", [0.25, math.inf])
def test_a_sensitivity_survives_the_session_file(error: float) -> None:
    found = Sensitivity("static_int8", (3, 4), "CONV_2D and 1 more", "conv", error, 0.1, "time", 0.3)
    assert from_data(Sensitivity, json.loads(json.dumps(to_data(found), allow_nan=False))) == found


def test_what_hurts_most_for_its_gain_goes_back_first() -> None:
    cheap, dear = (Sensitivity("r", (node,), "CONV_2D", "", 0.1, share) for node, share in ((0, 0.5), (1, 0.01)))
    assert dear.cost > cheap.cost


def test_of_two_that_take_as_long_the_one_with_fewer_weights_goes_back_first() -> None:
    small, large = (
        Sensitivity("r", (node,), "CONV_2D", "", 0.1, 0.02, "time", share) for node, share in ((0, 0), (1, 0.5))
    )
    assert small.cost > large.cost


def test_the_search_ends_after_eight_mixes_that_all_keep_the_floor() -> None:
    search = MixSearch([group(number, 0.1, 0.05) for number in range(200)], 0.5, 0.01)
    for count in range(190, 182, -1):
        search.tell(count, True, 0.0)
    assert search.next is None
    assert search.enough == 183
