"""The parent's side of a runner: what a broken clock shows is never taken for a time, nor what makes no sense."""

from __future__ import annotations

from array import array
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from hasten.core.failure import RunnerFailed
from hasten.core.plan import Plan, Workload
from hasten.runner.protocol import VERSION, Message
from hasten.targets.client import RunnerClient

if TYPE_CHECKING:
    from collections.abc import Callable


class Answering:
    """A link whose runner always gives the same answer."""

    def __init__(self, *steps: list[int], body: dict[str, Any] | None = None) -> None:
        frames = tuple(array("q", times).tobytes() for times in steps)
        self._answer = Message({"peak_memory_mb": 1.0, "conditions": {}} if body is None else body, frames)

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


def test_more_of_a_block_follows_its_runs() -> None:
    runner = client([100, -900, 110])
    block = runner.more_of(runner.block(1.0, 3, runner=7), 1.0, 3)
    assert (block.runner, block.nanoseconds.tolist()) == (7, [100, 110, 100, 110])
    assert block.conditions.clock_backwards == 2


def test_a_cycle_is_left_out_as_a_whole() -> None:
    steps, _ = client([1, 2, 3], [4, -5, 6], [7, 8, 9]).copies_block("way", 1.0, 3)
    assert [times.tolist() for times in steps] == [[1, 3], [4, 6], [7, 9]]


def test_a_clock_that_only_goes_backwards_is_a_failure() -> None:
    with pytest.raises(RunnerFailed, match="backwards during every run"):
        client([-1, -2]).block(1.0, 2)


@pytest.mark.parametrize(
    "body",
    [
        {"conditions": {}},
        {"peak_memory_mb": 1.0},
        {"peak_memory_mb": "much", "conditions": {}},
        {"peak_memory_mb": 1.0, "conditions": {"wall_seconds": []}},
        {"peak_memory_mb": 1.0, "conditions": 3},
    ],
)
def test_a_block_that_cannot_be_read_is_a_failure_of_the_device(body: dict[str, Any]) -> None:
    with pytest.raises(RunnerFailed) as caught:
        RunnerClient(Answering([1], body=body), Plan(), 1.0).block(1.0, 1)
    assert caught.value.failure.kind == "target"


REQUESTS: dict[str, Callable[[RunnerClient], object]] = {
    "hello": lambda runner: runner.hello(),
    "load": lambda runner: runner.load(Path("m"), Workload()),
    "block": lambda runner: runner.block(1.0, 1),
    "profile": lambda runner: runner.profile(1),
    "layers": lambda runner: runner.layers(Path("m"), Workload(), 1.0),
    "copies": lambda runner: runner.copies(Path("m"), Workload(), "f"),
    "copies_block": lambda runner: runner.copies_block("w", 1.0, 1),
}


@pytest.mark.parametrize("body", [{}, {"machine": 1, "runs": [1], "load_times": 2, "available": [], "reasons": 3}])
@pytest.mark.parametrize("name", REQUESTS)
def test_an_answer_without_what_was_asked_for_is_a_failure_of_the_device(name: str, body: dict[str, Any]) -> None:
    if name == "layers" and body:
        body = {"layers": 5}
    runner = RunnerClient(Answering(body={**body, "protocol": VERSION}), Plan(), 1.0)
    with pytest.raises(RunnerFailed) as caught:
        REQUESTS[name](runner)
    assert caught.value.failure.kind == "target"
