"""The cost of watching a call: the real wrapper around an empty method, compared with that method."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

from .c_calls import CCalls
from .interpreter import patch_interpreter_module
from .recorder import Recorder


class _Stage:
    """As much of a watch as the wrappers need."""

    def __init__(self) -> None:
        self.recorder = Recorder("")
        self.calls = CCalls(self.recorder)
        self.calls.after_run = lambda place: None  # type: ignore[method-assign]
        self.has_loops = False
        self.outputs: dict[int, list[Any]] = {}

    @staticmethod
    def replace(owner: Any, name: str, value: Any) -> None:
        """Set the attribute."""
        setattr(owner, name, value)

    def ready_for_litert(self) -> None:
        """Not here: this is what measures it."""


def cost_of_a_call_ns(calls: int) -> float:
    """The quickest of some rounds of wrapped calls, less the quickest of plain ones."""

    class Plain:
        def invoke(self) -> None:
            """Nothing."""

    class Interpreter(Plain):
        def invoke(self) -> None:
            """Nothing."""

    stage: Any = _Stage()
    patch_interpreter_module(SimpleNamespace(Interpreter=Interpreter), stage)
    watched, plain = Interpreter(), Plain()
    watched._hasten_number = 1  # type: ignore[attr-defined]
    rounds = 4
    each = max(1, calls // rounds)
    quickest = [min(_time(thing.invoke, each) for _ in range(rounds)) for thing in (plain, watched)]
    return max(0.0, (quickest[1] - quickest[0]) / each)


def _time(call: Any, calls: int) -> int:
    start = time.perf_counter_ns()
    for _ in range(calls):
        call()
    return time.perf_counter_ns() - start
