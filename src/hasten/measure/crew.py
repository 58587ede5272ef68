"""Several runners of one model, so that predictions use all cores; one that dies costs a retry."""

from __future__ import annotations

import contextlib
import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from hasten.core.failure import RunnerFailed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hasten.measure.rounds import Candidate
    from hasten.targets.base import Target
    from hasten.targets.client import LoadReport, Runner

    Frames = Sequence[bytes | memoryview]
    Answers = list[tuple[bytes | memoryview, ...]]

# Failures that a second attempt would only repeat.
_FINAL: Final = ("usage", "model", "data", "accelerator")


class Crew:
    """Up to `size` runners, each started when there is work for it. Safe to use from several threads."""

    def __init__(self, target: Target, candidate: Candidate, size: int) -> None:
        self.size = size
        self.retries = 0
        self.fresh = False
        """Whether the model is loaded anew for each sample."""
        self._target, self._candidate = target, candidate
        self._idle: list[Runner] = []
        self._alive = 0
        self._changed = threading.Condition()
        self._starting: list[threading.Thread] = []

    def __enter__(self) -> Crew:
        return self

    def __exit__(self, *_: object) -> None:
        for thread in self._starting:
            thread.join()
        # Side by side: each takes a moment to end.
        closing = [threading.Thread(target=runner.close, name="close runner") for runner in self._idle]
        for thread in closing:
            thread.start()
        for thread in closing:
            thread.join()

    def open(self) -> LoadReport:
        """Start all runners side by side, and say what the first has loaded."""
        self._starting = [threading.Thread(target=self._add, name="start runner") for _ in range(self.size - 1)]
        with self._changed:
            self._alive += 1 + len(self._starting)
        for thread in self._starting:
            thread.start()
        try:
            runner, report = self._start()
        except RunnerFailed as failed:
            if failed.failure.kind in _FINAL:
                raise
            self.retries += 1
            runner, report = self._start()
        self._give_back(runner)
        return report

    def cores(self) -> int:
        """How many cores the runners' machine has."""
        runner = self._take()
        try:
            return max(1, int(runner.hello()["machine"]["cores"]))
        finally:
            self._give_back(runner)

    def predict(self, batch: Sequence[Frames], names: Sequence[str]) -> Answers:
        """The outputs of each sample. After a failure they are tried once more, one by one, to find who is to blame."""
        try:
            return self._with_runner(lambda runner: runner.evaluate_many(batch, fresh=self.fresh))
        except RunnerFailed as failed:
            if failed.failure.kind in _FINAL:
                raise
        with self._changed:
            self.retries += 1
        return self._with_runner(lambda runner: self._one_by_one(runner, batch, names))

    def _one_by_one(self, runner: Runner, batch: Sequence[Frames], names: Sequence[str]) -> Answers:
        answers = []
        for inputs, name in zip(batch, names, strict=True):
            try:
                answers += runner.evaluate_many([inputs], fresh=self.fresh)
            except RunnerFailed as failed:  # noqa: PERF203 - each sample is a request of its own
                message = f"{failed.failure.message}, for the second time, at {name}"
                raise RunnerFailed(replace(failed.failure, message=message)) from failed
        return answers

    def _with_runner(self, work: Callable[[Runner], Answers]) -> Answers:
        runner = self._take()
        try:
            answers = work(runner)
        except BaseException:
            self._lose(runner)
            raise
        self._give_back(runner)
        return answers

    def _take(self) -> Runner:
        with self._changed:
            while not self._idle and self._alive >= self.size:
                self._changed.wait()
            if self._idle:
                return self._idle.pop()
            self._alive += 1
        try:
            return self._start()[0]
        except BaseException:
            self._lose(None)
            raise

    def _add(self) -> None:
        try:
            self._give_back(self._start()[0])
        except RunnerFailed:
            self._lose(None)  # whoever needs it tries again, and tells of it

    def _start(self) -> tuple[Runner, LoadReport]:
        with contextlib.ExitStack() as stack:
            runner = stack.enter_context(self._target.start(self._candidate.plan))
            report = runner.load(self._candidate.path, self._candidate.workload)
            stack.pop_all()
        return runner, report

    def _give_back(self, runner: Runner) -> None:
        with self._changed:
            self._idle.append(runner)
            self._changed.notify()

    def _lose(self, runner: Runner | None) -> None:
        if runner is not None:
            runner.close()
        with self._changed:
            self._alive -= 1
            self._changed.notify()
