"""A function's samples are paired by position, call after call: other samples are refused, the same ones never."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from hasten.core.errors import DataError
from hasten.data.dataset import Sample
from hasten.data.functions import SamePasses

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

COUNT = 300
IMAGES = np.random.default_rng(0).random((COUNT, 8, 8, 3), np.float32)


def passes(make: Callable[[], Iterator[tuple[Any, Any]]]) -> SamePasses:
    return SamePasses("mine:data", lambda: (Sample("s", (inputs,), label) for inputs, label in make()))


def changing(change: Callable[[np.random.Generator, int], tuple[Any, Any]]) -> SamePasses:
    """Samples that one source of random numbers has a hand in, from call to call."""
    source = np.random.default_rng(1)
    return passes(lambda: (change(source, number) for number in range(COUNT)))


def shuffled() -> SamePasses:
    source = np.random.default_rng(1)
    return passes(lambda: ((IMAGES[number], number) for number in source.permutation(COUNT)))


def shuffled_in_a_buffer() -> SamePasses:
    """As tf.data does it: near samples change places."""
    source = np.random.default_rng(1)

    def make() -> Iterator[tuple[Any, Any]]:
        for begin in range(0, COUNT, 4):
            for number in source.permutation(range(begin, begin + 4)):
                yield IMAGES[number], None

    return passes(make)


@pytest.mark.parametrize(
    "function",
    [
        shuffled(),
        shuffled_in_a_buffer(),
        changing(lambda source, number: (IMAGES[number][:, :: source.choice((-1, 1))], number)),
        changing(lambda source, number: (IMAGES[number] + source.normal(0, 0.01, (8, 8, 3)), number)),
        changing(lambda source, number: (Path(f"{source.integers(9)}.png"), None)),
        changing(lambda source, number: (IMAGES[0], int(source.integers(9)))),
        changing(lambda source, number: (IMAGES[0], f"class {source.integers(9)}")),
        changing(lambda source, number: (np.arange(4) + (200_000 + source.integers(9)), None)),
        changing(lambda source, number: (IMAGES[number] + 0.1 * (number >= 128) * source.random(), number)),
    ],
    ids=["shuffle", "buffer", "flip", "noise", "files", "labels", "names", "ids", "late"],
)
def test_other_samples_are_refused(function: SamePasses) -> None:
    list(function())
    with pytest.raises(DataError, match=r"mine:data gives other samples at each call \(sample \d+ is not") as caught:
        list(function())
    assert "seed" in caught.value.hint
    assert "shuffle" in caught.value.hint


def test_samples_that_are_gone_after_one_call_are_refused() -> None:
    once = iter([(image, 0) for image in IMAGES])
    function = passes(lambda: once)
    next(function())
    with pytest.raises(DataError, match="sample 0 is not the one"):
        list(function())


def test_another_number_of_samples_is_refused() -> None:
    counts = iter((200, 199))
    function = passes(lambda: ((image, 0) for image in IMAGES[: next(counts)]))
    list(function())
    with pytest.raises(DataError, match="200 samples before, and 199 now"):
        list(function())


def reused_memory() -> Iterator[tuple[Any, Any]]:
    room = np.empty_like(IMAGES[0])
    for number in range(COUNT):
        room[:] = IMAGES[number]
        yield room, number


def seeded() -> Iterator[tuple[Any, Any]]:
    source = np.random.default_rng(5)
    return ((IMAGES[number] + source.random(), np.float32(number)) for number in source.permutation(COUNT))


def odd_values() -> Iterator[tuple[Any, Any]]:
    yield np.array([np.nan, np.inf, -np.inf, 1e30]), float("nan")
    yield np.array(["a", None], object), None
    yield np.array(["a", "b"]), np.zeros((0, 4))
    yield np.array(3), Path("mask.png")
    yield np.array([1 + 2j]), np.array([0, 1, 0])


@pytest.mark.parametrize("make", [reused_memory, seeded, odd_values])
def test_the_same_samples_pass_however_far_they_are_read(make: Callable[[], Iterator[tuple[Any, Any]]]) -> None:
    function = passes(make)
    first = len(list(function()))
    assert len(list(islice(function(), 3))) == 3
    assert len(list(function())) == first


def test_rounding_is_no_difference() -> None:
    function = changing(lambda source, number: (IMAGES[number] * (1 + 1e-7 * source.normal(size=(8, 8, 3))), number))
    assert len(list(function())) == len(list(function())) == COUNT


def test_several_inputs_are_all_looked_at() -> None:
    other = iter((1.0, 2.0))

    def make() -> Iterator[Sample]:
        yield Sample("s", {"a": np.zeros(4), "b": np.full(4, next(other))})

    function = SamePasses("mine:data", make)
    list(function())
    with pytest.raises(DataError, match="sample 0"):
        list(function())
