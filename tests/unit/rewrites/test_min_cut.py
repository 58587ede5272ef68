"""The cut is the cheapest of all, as trying every one of them shows."""

from __future__ import annotations

from itertools import pairwise, product

from hypothesis import given
from hypothesis import strategies as st

from hasten.rewrites.min_cut import SINK, SOURCE, Network


def paid(ties: list[tuple[set[int], int]], source_side: set[int]) -> int:
    """What a cut costs: a tie whose nodes are on both sides is paid once."""
    return sum(cost for nodes, cost in ties if nodes & source_side and nodes - source_side)


@given(st.lists(st.tuples(st.sets(st.integers(0, 6), min_size=1), st.integers(0, 9)), max_size=9))
def test_no_cut_is_cheaper(ties: list[tuple[set[int], int]]) -> None:
    network = Network()
    free = [network.add_node() for _ in range(5)]
    assert free == [2, 3, 4, 5, 6]
    for nodes, cost in ties:
        network.tie(nodes, cost)
    cost, source_side = network.cut()
    sides = [{SOURCE, *(node for node, is_in in zip(free, chosen, strict=True) if is_in)} for chosen in _choices()]
    assert SOURCE in source_side
    assert SINK not in source_side
    assert cost == min(paid(ties, side) for side in sides) == paid(ties, source_side & set(range(7)))


def _choices() -> list[tuple[bool, ...]]:
    return list(product((False, True), repeat=5))


def test_a_long_chain_needs_no_deep_recursion() -> None:
    network = Network()
    nodes = [SOURCE, *(network.add_node() for _ in range(3000)), SINK]
    for number, (start, end) in enumerate(pairwise(nodes)):
        network.tie({start, end}, 7 if number != 1234 else 3)
    cost, source_side = network.cut()
    assert cost == 3
    assert {node for node in nodes if node in source_side} == set(nodes[:1235])


def test_of_equal_cuts_the_source_keeps_the_fewest() -> None:
    network = Network()
    middle = network.add_node()
    network.tie({SOURCE, middle}, 5)
    network.tie({middle, SINK}, 5)
    cost, source_side = network.cut()
    assert cost == 5
    assert middle not in source_side
