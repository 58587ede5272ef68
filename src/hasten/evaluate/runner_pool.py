"""Several runners of one model, so that predictions use all cores; one that dies costs a retry.

Where further models follow, healthy runners wait for them: to start one takes as long as a hundred predictions of a
small model.
"""

from __future__ import annotations

import contextlib
import threading
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from hasten.core.failure import RunnerFailed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hasten.core.failure import Failure
    from hasten.core.plan import Plan
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


class IdleRunners:
    """Runners of one target, without a model, between two evaluations. Safe to use from several threads.

    Only plain plans of the CPU on this machine share a process. Libraries of accelerators and of the user's own crash
    on unloading now and then, and a device has no memory to spare for processes that wait.
    """

    def __init__(self, target: Target) -> None:
        self._target = target
        self._waiting: list[RunnerClient] = []
        self._lock = threading.Lock()

    def serves(self, target: Target, plan: Plan) -> bool:
        """Whether runners of this plan may have run another, and may run another afterwards."""
        plain = plan.runs_on_cpu and plan.kernel != "reference"
        plain = plain and not (plan.options or plan.cache or plan.cores or plan.kernels)
        return plain and target is self._target and target.capabilities.shared_memory

    def take(self, plan: Plan) -> RunnerClient | None:
        """One that waits, for a plan that it may run; None if there is none."""
        with self._lock:
            runner = self._waiting.pop() if self._waiting else None
        if runner is not None:
            runner.plan = plan
        return runner

    def give(self, runner: RunnerClient) -> None:
        """Have a healthy runner forget its model and wait; one that cannot is closed."""
        try:
            runner.unload()
        except RunnerFailed:
            runner.close()
            return
        with self._lock:
            self._waiting.append(runner)

    def close(self) -> None:
        """End them all."""
        with self._lock:
            waiting, self._waiting = self._waiting, []
        _side_by_side([runner.close for runner in waiting], "close runner")


class RunnerPool:
    """Up to `size` runners, each started when there is work for it. Safe to use from several threads."""

    def __init__(self, target: Target, candidate: Candidate, size: int, idle: IdleRunners | None = None) -> None:
        self.size = size
        self.retries = 0
        self.fresh = False
        """Whether the model is loaded anew for each sample."""
        self._target, self._candidate = target, candidate
        self._waiting = idle if idle is not None and idle.serves(target, candidate.plan) else None
        self._idle: list[RunnerClient] = []
        self._alive = 0
        self._changed = threading.Condition()
        self._starting: list[threading.Thread] = []
        self._failed, self._has_answered = 0, False

    def __enter__(self) -> RunnerPool:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        for thread in self._starting:
            thread.join()
        healthy = kind is None and not self.retries
        waiting = self._waiting if healthy else None
        ends = [runner.close if waiting is None else partial(waiting.give, runner) for runner in self._idle]
        _side_by_side(ends, "end runner")

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
        if self._waiting is not None and (runner := self._waiting.take(self._candidate.plan)) is not None:
            # What fails here is told by a fresh process, which no other model has touched.
            with contextlib.suppress(RunnerFailed), contextlib.ExitStack() as stack:
                stack.enter_context(runner)
                report = runner.load(self._candidate.path, self._candidate.workload)
                stack.pop_all()
                return runner, report
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


def _side_by_side(calls: Sequence[Callable[[], None]], name: str) -> None:
    """Each takes a moment in which there is only to wait."""
    threads = [threading.Thread(target=call, name=name) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
