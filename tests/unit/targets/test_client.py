"""The parent's side of a runner: what a broken clock shows is never taken for a time."""

from __future__ import annotations

from array import array
from typing import Any

import pytest

from hasten.core.failure import RunnerFailed
from hasten.core.plan import Plan
from hasten.runner.protocol import Message
from hasten.targets.client import RunnerClient


class Answering:
    """A link whose runner always gives the same answer."""

    def __init__(self, *steps: list[int]) -> None:
        frames = tuple(array("q", times).tobytes() for times in steps)
        self._answer = Message({"peak_memory_mb": 1.0, "conditions": {}}, frames)

    def ask(self, request: Message, **_: Any) -> Message:
        return self._answer

    def close(self) -> None:
        pass


def client(*steps: list[int]) -> RunnerClient:
    return RunnerClient(Answering(*steps), Plan(), 1.0)


def test_runs_during_which_the_clock_went_backwards_are_counted_and_left_out() -> None:
    block = client([100, -900, 110, -5, 105]).block(1.0, 5)
    assert block.nanoseconds.tolist() == [100, 110, 105]
    assert block.conditions.clock_backwards == 2


def test_a_steady_clock_leaves_all_runs() -> None:
    block = client([100, 0, 110]).block(1.0, 3)
    assert block.nanoseconds.tolist() == [100, 0, 110]
    assert block.conditions.clock_backwards is None


def test_a_cycle_is_left_out_as_a_whole() -> None:
    steps, _ = client([1, 2, 3], [4, -5, 6], [7, 8, 9]).copies_block("way", 1.0, 3)
    assert [times.tolist() for times in steps] == [[1, 3], [4, 6], [7, 9]]


def test_a_clock_that_only_goes_backwards_is_a_failure() -> None:
    with pytest.raises(RunnerFailed, match="backwards during every run"):
        client([-1, -2]).block(1.0, 2)
