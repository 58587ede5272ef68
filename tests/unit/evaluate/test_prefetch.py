"""Samples prepared ahead of their turn: the same as those prepared in it, and never anybody's trouble."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import numpy as np

from hasten.data.dataset import Dataset, LazySamples, Sample
from hasten.data.prepare import Preparer
from hasten.data.preprocess import preprocess_from_text
from hasten.data.tensor_forms import TensorForm
from hasten.evaluate.prefetch import Prefetch

if TYPE_CHECKING:
    from collections.abc import Iterator

FORMS = (TensorForm("image", "image", (1, 4, 4, 3), "float32"),)
PREPROCESS = preprocess_from_text("mean=127.5,std=127.5")


def dataset(count: int, asked: list[int] | None = None, seen: threading.Event | None = None) -> Dataset:
    def sample(position: int) -> Sample:
        if asked is not None:
            asked.append(position)
            if seen is not None and len(asked) == count:
                seen.set()
        pixels = np.full((4, 4, 3), position, np.uint8) if position != 3 else np.zeros((9, 9), np.float64)
        return Sample(f"sample {position}", (pixels,))

    return Dataset("pixels", LazySamples(count, sample), labelled=False)


def test_what_is_ready_is_the_same_and_is_given_once() -> None:
    seen = threading.Event()
    data = dataset(8, [], seen)
    ahead = Prefetch(data, FORMS, PREPROCESS, None, samples=None, seed=0, threads=2)
    assert seen.wait(20)
    ahead.end()
    preparer = Preparer(FORMS, PREPROCESS)
    ready = 0
    for position, sample in data.drawn(None, 0):
        found = ahead.take(position)
        assert ahead.take(position) is None
        if found is not None:
            ready += 1
            np.testing.assert_array_equal(found[0], preparer.prepare(sample)[0])
    assert ahead.take(3) is None  # it does not fit, which is told when it is its turn
    assert ready >= 4


def test_a_stream_is_left_to_whoever_reads_it() -> None:
    def stream() -> Iterator[Sample]:
        raise AssertionError("it was read")

    ahead = Prefetch(Dataset("stream", stream, False), FORMS, PREPROCESS, None, samples=None, seed=0, threads=2)
    ahead.end()
    assert ahead.take(0) is None
    assert ahead.notes == ()


def test_no_more_than_asked_for_is_prepared() -> None:
    asked: list[int] = []
    ahead = Prefetch(dataset(50, asked), FORMS, PREPROCESS, None, samples=2, seed=0, threads=1)
    ahead.end()
    assert len(asked) <= 2
