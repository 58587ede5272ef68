"""Frames through shared memory arrive as they were, whatever their sizes; small ones stay in the message."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.example_models import stream

from hasten.core.plan import Plan, Workload
from hasten.runner.protocol import Message
from hasten.runner.shared_memory import create_common_memory, create_shared_memory, with_shared_frames
from hasten.targets.local import LocalTarget

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from hasten.runner.shared_memory import CommonMemory, SharedMemory

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


@pytest.fixture(scope="module")
def shared() -> CommonMemory:
    """One for all examples, as a runner has inherited one."""
    return common_memory(1 << 30)


def common_memory(byte_count: int = 1 << 22) -> CommonMemory:
    made = create_common_memory(byte_count)
    assert made is not None
    return made


def laid(memory: CommonMemory, values: NDArray[Any]) -> NDArray[Any]:
    """A copy in the memory."""
    place = memory.take(values.nbytes)
    assert place is not None
    copy: NDArray[Any] = np.frombuffer(place, values.dtype).reshape(values.shape)
    copy[...] = values
    return copy


@given(sizes=st.lists(st.integers(1, 60_000), min_size=1, max_size=5))
def test_frames_in_common_memory_are_only_told_of(shared: CommonMemory, sizes: list[int]) -> None:
    frames = [laid(shared, np.random.default_rng(size).integers(0, 256, size, np.uint8)) for size in sizes]
    sent = shared.refer(Message({"request": "evaluate_many"}, tuple(frame.data for frame in frames)))
    if sum(sizes) < 32 * 1024:  # the pipe is quicker
        assert sent is None
        return
    assert sent is not None
    assert not sent.frames
    found = with_shared_frames(sent)
    assert [bytes(frame) for frame in found.frames] == [frame.tobytes() for frame in frames]
    elsewhere = np.zeros(8, np.uint8)
    assert shared.refer(Message({}, tuple(frame.data for frame in (*frames, elsewhere)))) is None


def test_common_memory_ends() -> None:
    memory = common_memory(4096)
    assert memory.take(4000) is not None
    assert memory.take(97) is None
    assert create_common_memory(1 << 70) is None


def test_a_runner_gets_what_it_does_not_share_all_the_same(tmp_path: Path) -> None:
    """The second memory gets the descriptor of the first, which the runner has inherited."""
    path = tmp_path / "sum.tflite"
    path.write_bytes(stream(0.5))
    source = np.random.default_rng(0)
    first = common_memory()
    with LocalTarget().start(Plan()) as runner:
        shape = runner.load(path, Workload()).inputs[0].shape
        for memory in (first, common_memory()):
            a, b = (laid(memory, source.random(shape, np.float32)) for _ in range(2))
            del memory
            first = None  # type: ignore[assignment]
            ((answer,),) = runner.evaluate_many([[a.data, b.data]])
            np.testing.assert_array_equal(np.frombuffer(answer, np.float32).reshape(shape), a + b)
