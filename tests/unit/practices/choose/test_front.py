"""Who is on the front, who is off it for sure, and whose times are worth more rounds."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from hasten.core.comparison import FEWEST_ROUNDS, Verdict
from hasten.core.statistics import Interval
from hasten.practices.choose.facts import ModelRow, Place
from hasten.practices.choose.front import MOST_ROUNDS, Front

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass
class World:
    """Models with known accuracies, sizes and times; what is not sure is said so."""

    accuracies: Mapping[str, float | None]
    sizes: dict[str, int] = field(default_factory=dict)
    times: dict[str, float] = field(default_factory=dict)
    half_width: float = 0.0
    """Of the interval of a difference of accuracies."""
    undecided: frozenset[frozenset[str]] = frozenset()
    size_limit: float = math.inf
    references: dict[str, str] = field(default_factory=dict)

    def front(self) -> Front:
        rows = [
            ModelRow(name, name, "float32", self.sizes.get(name, 100), reference=self.references.get(name, ""))
            for name in self.accuracies
        ]
        return Front(rows, self.gain, self.speed, self.size_limit)

    def gain(self, name: str, over: str) -> Interval | None:
        one, other = self.accuracies[name], self.accuracies[over]
        if one is None or other is None:
            return None
        return Interval(one - other, one - other - self.half_width, one - other + self.half_width)

    def speed(self, name: str, than: str) -> Verdict:
        if frozenset((name, than)) in self.undecided:
            return Verdict.UNDECIDED
        one, other = self.times.get(name, 1.0), self.times.get(than, 1.0)
        return Verdict.SAME if one == other else Verdict.FASTER if one < other else Verdict.SLOWER

    def places(self) -> dict[str, Place]:
        front = self.front()
        return {row.name: front.place(row) for row in front.rows}


def pair(one: str, other: str) -> frozenset[frozenset[str]]:
    return frozenset((frozenset((one, other)),))


def test_what_is_slower_and_no_better_is_off() -> None:
    world = World({"good": 0.7, "bad": 0.6, "large": 0.8}, {"large": 900}, {"good": 1.0, "bad": 2.0, "large": 5.0})
    assert world.places() == {"good": Place.ON, "bad": Place.OFF, "large": Place.ON}


def test_a_model_that_is_too_large_beats_none_that_is_not() -> None:
    accuracies, sizes, times = {"fast": 0.7, "small": 0.6}, {"fast": 900, "small": 100}, {"fast": 1.0, "small": 50.0}
    assert World(accuracies, sizes, times).places()["small"] is Place.OFF
    limited = World(accuracies, sizes, times, size_limit=500)
    assert limited.places() == {"fast": Place.ON, "small": Place.ON}
    both = World({**accuracies, "tiny": 0.65}, {**sizes, "tiny": 50}, {**times, "tiny": 2.0}, size_limit=500)
    assert both.places() == {"fast": Place.ON, "small": Place.OFF, "tiny": Place.ON}


def test_undecided_times_make_a_place_possible_and_are_worth_rounds() -> None:
    world = World({"a": 0.7, "b": 0.6}, undecided=pair("a", "b"))
    assert world.places() == {"a": Place.ON, "b": Place.POSSIBLE}
    assert set(world.front().open(lambda name: 4)) == {"a", "b"}
    assert world.front().open(lambda name: MOST_ROUNDS) == []


def test_accuracies_that_cannot_be_told_apart_leave_a_place_open_and_cost_no_rounds() -> None:
    world = World({"a": 0.7, "b": 0.69}, times={"a": 1.0, "b": 2.0}, half_width=0.05)
    front = world.front()
    assert world.places() == {"a": Place.ON, "b": Place.POSSIBLE}
    assert [row.name for row in front.rivals_of(front.rows[1])] == ["a"]
    assert front.open(lambda name: FEWEST_ROUNDS) == []


def test_of_two_that_are_as_fast_the_better_one_is_enough() -> None:
    assert World({"a": 0.7, "b": 0.6}).places() == {"a": Place.ON, "b": Place.OFF}
    assert World({"a": 0.7, "b": 0.7}, {"a": 90}).places() == {"a": Place.ON, "b": Place.OFF}


def test_equals_stay_side_by_side() -> None:
    assert set(World({"a": 0.7, "b": 0.7}).places().values()) == {Place.ON}


def test_small_differences_do_not_add_up_along_a_chain() -> None:
    """b is as fast as a, and c as fast as b, but c is faster than a: to drop c for the sake of b would lose it."""
    world = World({"a": 0.8, "b": 0.7, "c": 0.6})

    def speed(name: str, than: str) -> Verdict:
        if {name, than} == {"a", "c"}:
            return Verdict.FASTER if name == "c" else Verdict.SLOWER
        return Verdict.SAME

    front = Front(world.front().rows, world.gain, speed)
    assert [front.place(row) for row in front.rows] == [Place.ON, Place.OFF, Place.ON]


def test_many_that_are_as_fast_as_each_other_are_placed_at_once() -> None:
    """Checkpoints of one architecture. To look for each one's winner anew would take 2 to the 60th steps."""
    world = World({f"m{place}": place / 100 for place in range(60)})
    assert [name for name, place in world.places().items() if place is not Place.OFF] == ["m59"]
    front = world.front()
    winners = [front.winner_over(row) for row in front.rows]
    assert {winner.name for winner in winners if winner is not None} == {"m59"}


def test_a_model_that_is_beaten_itself_is_no_rival() -> None:
    """What beats it is compared with the third one anyway."""
    world = World(
        {"best": 0.8, "beaten": 0.7, "third": 0.6},
        times={"best": 1.0, "beaten": 2.0, "third": 0.5},
        undecided=pair("beaten", "third"),
    )
    assert world.places() == {"best": Place.ON, "beaten": Place.OFF, "third": Place.ON}


def test_unknown_accuracy_has_no_place_and_beats_nobody() -> None:
    world = World({"known": 0.7, "fast": None}, times={"known": 9.0, "fast": 1.0})
    assert world.places() == {"known": Place.ON, "fast": Place.UNKNOWN}


def test_a_model_of_unknown_accuracy_is_timed_next_to_its_original() -> None:
    references = {"int8": "float"}
    world = World({"float": 0.7, "int8": None}, undecided=pair("float", "int8"), references=references)
    assert set(world.front().open(lambda name: 3)) == {"float", "int8"}
    assert world.front().open(lambda name: FEWEST_ROUNDS) == []
    beaten = World(
        {"float": 0.7, "int8": None, "better": 0.8},
        times={"float": 2.0, "better": 1.0},
        undecided=pair("float", "int8"),
        references=references,
    )
    assert "int8" not in beaten.front().open(lambda name: 3)


def test_without_any_accuracy_each_gets_rounds_enough_for_an_interval() -> None:
    world = World({"a": None, "b": None})
    assert set(world.front().open(lambda name: 1)) == {"a", "b"}
    assert world.front().open(lambda name: FEWEST_ROUNDS) == []
    assert world.front().open(lambda name: 0) == []


_MODEL = st.tuples(st.integers(0, 6), st.integers(1, 4), st.integers(1, 6))


@given(st.lists(_MODEL, min_size=1, max_size=9))
def test_with_sure_times_the_front_is_the_pareto_front(models: list[tuple[int, int, int]]) -> None:
    """Of models with the same accuracy and latency the smallest stay."""
    names = [str(number) for number in range(len(models))]
    world = World(
        {name: float(model[0]) for name, model in zip(names, models, strict=True)},
        {name: model[1] for name, model in zip(names, models, strict=True)},
        {name: float(model[2]) for name, model in zip(names, models, strict=True)},
    )
    for name, (accuracy, size, time) in zip(names, models, strict=True):
        beaten = any(
            one[0] >= accuracy and one[2] <= time and ((one[0], one[2]) != (accuracy, time) or one[1] < size)
            for one in models
        )
        assert world.places()[name] is (Place.OFF if beaten else Place.ON)


@given(st.lists(_MODEL, min_size=2, max_size=8), st.floats(0.0, 3.0))
def test_what_is_unsure_drops_nobody_that_may_be_on_the_front(
    models: list[tuple[int, int, int]], half_width: float
) -> None:
    """A model that is off by uncertain accuracies is off by the estimates, too."""
    names = [str(number) for number in range(len(models))]
    sure, unsure = (
        World(
            {name: float(model[0]) for name, model in zip(names, models, strict=True)},
            {name: model[1] for name, model in zip(names, models, strict=True)},
            {name: float(model[2]) for name, model in zip(names, models, strict=True)},
            width,
        ).places()
        for width in (0.0, half_width)
    )
    assert all(sure[name] is Place.OFF for name in names if unsure[name] is Place.OFF)
