"""What nothing beats in every respect."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hasten.core.pareto import pareto_front

POINTS = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5), st.integers(0, 5)), max_size=25)


def identity(point: tuple[int, ...]) -> tuple[float, ...]:
    return point


def test_keeps_what_is_best_in_something() -> None:
    assert pareto_front([(3, 1), (1, 3), (2, 2), (3, 3), (2, 3)], identity) == [(1, 3), (2, 2), (3, 1)]


def test_equals_stay_side_by_side() -> None:
    assert pareto_front([("b", 1.0), ("a", 1.0)], lambda pair: (pair[1],)) == [("b", 1.0), ("a", 1.0)]


@given(POINTS)
def test_front_is_what_no_other_beats(points: list[tuple[int, ...]]) -> None:
    def beaten(point: tuple[int, ...]) -> bool:
        return any(other != point and all(a <= b for a, b in zip(other, point, strict=True)) for other in points)

    assert sorted(pareto_front(points, identity)) == sorted(point for point in points if not beaten(point))
