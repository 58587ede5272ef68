"""The Pareto front: what nothing else beats in every respect at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

T = TypeVar("T")


def pareto_front(candidates: Iterable[T], goals: Callable[[T], tuple[float, ...]]) -> list[T]:
    """The candidates that no other is at least as good as in all goals and better in one. Smaller goals are better.

    They come in the order of their goals, the best of the first goal first; equals stay side by side.
    """
    ranked = sorted(((goals(candidate), candidate) for candidate in candidates), key=lambda pair: pair[0])
    front: list[tuple[tuple[float, ...], T]] = []
    # In this order, whatever beats a candidate is on the front before it.
    for mine, candidate in ranked:
        if not any(other != mine and _covers(other, mine) for other, _ in front):
            front.append((mine, candidate))
    return [candidate for _, candidate in front]


def _covers(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    return all(a <= b for a, b in zip(one, other, strict=True))
