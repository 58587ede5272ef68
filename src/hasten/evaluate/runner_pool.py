"""Several runners of one model, so that predictions use all cores; one that dies costs a retry."""

from __future__ import annotations

import contextlib
import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from hasten.core.failure import RunnerFailed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hasten.core.failure import Failure
    from hasten.measure.rounds import Candidate
    from hasten.targets.base import Target
    from hasten.targets.client import LoadReport, RunnerClient

    Frames = Sequence[bytes | memoryview]
    Outputs = tuple[bytes | memoryview, ...]
    Answer = Outputs | Failure
    Answers = list[Answer]

# Failures that a second attempt would only repeat.
_FINAL: Final = ("usage", "model", "data", "accelerator")
_MOST_FAILED: Final = 8


class RunnerPool:
    """Up to `size` runners, each started when there is work for it. Safe to use from several threads."""

    def __init__(self, target: Target, candidate: Candidate, size: int) -> None:
        self.size = size
        self.retries = 0
        self.fresh = False
        """Whether the model is loaded anew for each sample."""
        self._target, self._candidate = target, candidate
        self._idle: list[RunnerClient] = []
        self._alive = 0
        self._changed = threading.Condition()
        self._starting: list[threading.Thread] = []
        self._failed, self._has_answered = 0, False

    def __enter__(self) -> RunnerPool:
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

    def predict(self, batch: Sequence[Frames], names: Sequence[str], *, skip_bad: bool = False) -> Answers:
        """The outputs of each sample. After a failure they are tried once more, one by one, to find who is to blame;
        with `skip_bad` a sample that fails again gets that failure as its answer."""
        try:
            return [*self._with_runner(lambda runner: runner.evaluate_many(batch, fresh=self.fresh))]
        except RunnerFailed as failed:
            if failed.failure.kind in _FINAL:
                raise
        with self._changed:
            self.retries += 1
        return [self._once_more(inputs, name, skip_bad) for inputs, name in zip(batch, names, strict=True)]

    def _once_more(self, inputs: Frames, name: str, skip_bad: bool) -> Answer:
        try:
            return self._with_runner(lambda runner: runner.evaluate_many([inputs], fresh=self.fresh))[0]
        except RunnerFailed as failed:
            self._failed += 1
            # Where nothing ever succeeds, the samples are not to blame.
            hopeless = self._failed >= _MOST_FAILED and not self._has_answered
            if failed.failure.kind in _FINAL or (skip_bad and hopeless):
                raise
            message = f"{name} failed twice: {failed.failure.message}"
            failure = replace(failed.failure, message=message)
            if not skip_bad:
                raise RunnerFailed(failure) from failed
            return failure

    def _with_runner(self, work: Callable[[RunnerClient], list[Outputs]]) -> list[Outputs]:
        runner = self._take()
        try:
            answers = work(runner)
        except BaseException:
            self._lose(runner)
            raise
        self._has_answered = True
        self._give_back(runner)
        return answers

    def _take(self) -> RunnerClient:
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
            self._lose(None)  # the next request starts another one, and reports its failure

    def _start(self) -> tuple[RunnerClient, LoadReport]:
        with contextlib.ExitStack() as stack:
            runner = stack.enter_context(self._target.start(self._candidate.plan))
            report = runner.load(self._candidate.path, self._candidate.workload)
            stack.pop_all()
        return runner, report

    def _give_back(self, runner: RunnerClient) -> None:
        with self._changed:
            self._idle.append(runner)
            self._changed.notify()

    def _lose(self, runner: RunnerClient | None) -> None:
        if runner is not None:
            runner.close()
        with self._changed:
            self._alive -= 1
            self._changed.notify()
