"""The search for the smallest set: it ends with a set that shows the problem and has no node to spare."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hasten.practices.help.minimize.reduction import reductions

if TYPE_CHECKING:
    from collections.abc import Callable

    from hasten.practices.help.minimize.reduction import Nodes


def smallest(nodes: Nodes, shows: Callable[[Nodes], bool]) -> tuple[Nodes, list[Nodes]]:
    """The last set, and all that were asked about."""
    asked: list[Nodes] = []

    def ask(part: Nodes) -> bool:
        asked.append(part)
        return shows(part)

    found = nodes
    for found in reductions(nodes, ask):  # noqa: B007 - the last one counts
        pass
    return found, asked


@given(total=st.integers(1, 200), data=st.data())
def test_needed_nodes_are_found_wherever_they_are(total: int, data: st.DataObject) -> None:
    needed = data.draw(st.sets(st.integers(0, total - 1), min_size=1, max_size=4))
    found, _ = smallest(tuple(range(total)), lambda part: needed <= set(part))
    assert set(found) == needed


@given(total=st.integers(1, 40), seed=st.integers(0, 10_000))
def test_whatever_the_test_answers_the_result_shows_the_problem(total: int, seed: int) -> None:
    """A test that is not monotone: any set may show the problem, by a fixed rule."""
    whole = tuple(range(total))

    def shows(part: Nodes) -> bool:
        return part == whole or hash((seed, part)) % 3 == 0

    found, _ = smallest(whole, shows)
    assert shows(found)
    assert list(found) == sorted(set(found))
    if len(found) > 1:
        assert not any(shows(found[:place] + found[place + 1 :]) for place in range(len(found)))


@pytest.mark.parametrize("bad", [0, 17, 37, 59])
def test_one_node_of_sixty_takes_few_tests(bad: int) -> None:
    found, asked = smallest(tuple(range(60)), lambda part: bad in part)
    assert found == (bad,)
    assert len(asked) <= 12
    assert all(asked)


def test_the_same_questions_are_asked_each_time() -> None:
    first, second = (smallest(tuple(range(33)), lambda part: {4, 30} <= set(part))[1] for _ in range(2))
    assert first == second
