"""Frames through shared memory arrive as they were, whatever their sizes; small ones stay in the message."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.example_models import stream

from hasten.core.plan import Plan, Workload
from hasten.runner.protocol import Message
from hasten.runner.shared_memory import create_shared_memory, with_shared_frames
from hasten.targets.local import LocalTarget

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from hasten.runner.shared_memory import SharedMemory

pytestmark = pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="this system has no files in memory only")


@pytest.fixture(scope="module")
def memory() -> Iterator[SharedMemory]:
    """One for all tests here, as a runner has one for its life."""
    made = create_shared_memory()
    assert made is not None
    yield made
    made.close()
    made.close()


@given(sizes=st.lists(st.integers(0, 90_000), max_size=5))
def test_frames_arrive_as_they_were(memory: SharedMemory, sizes: list[int]) -> None:
    frames = tuple(np.random.default_rng(size).bytes(size) for size in sizes)
    sent = memory.take_over(Message({"request": "evaluate_many"}, frames))
    assert bool(sent.frames) != ("shared" in sent.body) or not sizes
    found = with_shared_frames(sent)
    assert found.body == {"request": "evaluate_many"}
    assert tuple(bytes(frame) for frame in found.frames) == frames


def test_memory_grows_with_the_requests(tmp_path: Path) -> None:
    path = tmp_path / "sum.tflite"
    path.write_bytes(stream(0.5))
    source = np.random.default_rng(0)
    with LocalTarget().start(Plan()) as runner:
        shape = runner.load(path, Workload()).inputs[0].shape
        for count in (1, 2, 7, 1):
            samples = [[source.random(shape, np.float32) for _ in range(2)] for _ in range(count)]
            answers = runner.evaluate_many([[array.data for array in pair] for pair in samples])
            for (a, b), (answer,) in zip(samples, answers, strict=True):
                np.testing.assert_array_equal(np.frombuffer(answer, np.float32).reshape(shape), a + b)
