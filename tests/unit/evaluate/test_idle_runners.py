"""Runners that wait for the next model: fewer starts, the same figures, and a crash costs its own evaluation only."""

from __future__ import annotations

import os
import signal
import threading
from typing import TYPE_CHECKING

import numpy as np
import pytest
from evaluating import doubler, model_of, run, vectors
from tests import example_models

from hasten.core.failure import Failure
from hasten.core.plan import Plan
from hasten.data.dataset import Dataset, Sample
from hasten.evaluate.evaluation import Evaluation, EvaluationData, EvaluationOptions
from hasten.evaluate.prepared import PreparedSamples
from hasten.evaluate.run import evaluate
from hasten.evaluate.runner_pool import IdleRunners
from hasten.targets.link import ProcessLink
from hasten.targets.local import LocalTarget

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from hasten.measure.rounds import Candidate
    from hasten.targets.client import RunnerClient

OPTIONS = EvaluationOptions(runners=2)


class Counting(LocalTarget):
    """Remembers the processes that it started."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[ProcessLink] = []
        self._lock = threading.Lock()

    def start(self, plan: Plan) -> RunnerClient:
        runner = super().start(plan)
        assert isinstance(runner._link, ProcessLink)
        with self._lock:
            self.links.append(runner._link)
        return runner


@pytest.fixture
def target() -> Counting:
    return Counting()


@pytest.fixture
def idle(target: Counting) -> Iterator[IdleRunners]:
    made = IdleRunners(target)
    yield made
    made.close()
    assert all(link.has_ended for link in target.links)


def found(target: Counting, idle: IdleRunners, candidate: Candidate, dataset: Dataset) -> Evaluation | Failure:
    data = EvaluationData(dataset, prepared=PreparedSamples(), idle=idle)
    return evaluate(target, candidate, data, options=OPTIONS)


def test_the_next_model_needs_no_other_processes(tmp_path: Path, target: Counting, idle: IdleRunners) -> None:
    dataset = vectors(40)
    other = model_of(tmp_path, example_models.no_signature(), "other.tflite")
    for candidate in (doubler(tmp_path), other, doubler(tmp_path)):
        result = found(target, idle, candidate, dataset)
        assert isinstance(result, Evaluation)
        assert not result.retries
        plain = run(candidate, dataset)
        assert result.accuracy == plain.accuracy
        for n in plain.positions:
            np.testing.assert_array_equal(np.asarray(result.references[n]), np.asarray(plain.references[n]))
    assert len(target.links) == 2


def test_a_crash_costs_its_own_evaluation_only(tmp_path: Path, target: Counting, idle: IdleRunners) -> None:
    dataset = vectors(40)
    integers = Dataset("d", [Sample(f"s{n}", (np.zeros(4, np.int8),)) for n in range(100)], labelled=False)
    aborting = model_of(tmp_path, example_models.aborting())
    fresh = evaluate(LocalTarget(), aborting, EvaluationData(integers), options=OPTIONS)
    before = found(target, idle, doubler(tmp_path), dataset)
    failure = found(target, idle, aborting, integers)
    after = found(target, idle, doubler(tmp_path), dataset)
    assert isinstance(fresh, Failure)
    assert failure == fresh
    assert isinstance(before, Evaluation)
    assert isinstance(after, Evaluation)
    assert after.accuracy == before.accuracy


def test_one_that_was_killed_while_it_waited_is_replaced(tmp_path: Path, target: Counting, idle: IdleRunners) -> None:
    dataset = vectors(40)
    first = found(target, idle, doubler(tmp_path), dataset)
    os.kill(target.links[0].pid, signal.SIGKILL)
    second = found(target, idle, doubler(tmp_path), dataset)
    assert isinstance(first, Evaluation)
    assert isinstance(second, Evaluation)
    assert second.accuracy == first.accuracy  # its notes included: there is none of a runner that was replaced
    assert len(target.links) == 3


def test_what_a_model_made_a_runner_write_is_not_told_of_the_next(tmp_path: Path, target: Counting) -> None:
    candidate = doubler(tmp_path)
    with target.start(candidate.plan) as runner:
        runner.load(candidate.path, candidate.workload)
        os.write(target.links[0]._log.fileno(), b"ERROR: all wrong\n")
        assert target.links[0].log_tail()
        runner.unload()
        assert not target.links[0].log_tail()


@pytest.mark.parametrize(
    "plan",
    [
        Plan(accelerator="gpu"),
        Plan(delegate="libmine.so"),
        Plan(kernels=("libmine.so",)),
        Plan(kernel="reference"),
        Plan(cores=(0,)),
        Plan(cache="folder"),
    ],
)
def test_other_plans_have_processes_of_their_own(target: Counting, plan: Plan) -> None:
    idle = IdleRunners(target)
    assert idle.serves(target, Plan())
    assert idle.serves(target, Plan(kernel="builtin"))
    assert not idle.serves(target, plan)
    assert not idle.serves(LocalTarget(), Plan())
