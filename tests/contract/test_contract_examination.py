"""Planted trouble, each named for what it is by the examination of accelerators; it costs its own row and no other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hasten.core.errors import AcceleratorError
from hasten.core.measurement import Model
from hasten.core.plan import Plan
from hasten.engine.accelerators import process_environment
from hasten.measure.effort import Effort
from hasten.measure.rounds import Candidate
from hasten.model.reader import read_graph
from hasten.practices.accelerators.break_even_size import climb
from hasten.practices.accelerators.facts import Status
from hasten.practices.accelerators.rules import recommend
from hasten.practices.accelerators.run import examine
from hasten.practices.accelerators.words import BOOK
from hasten.targets.base import Limits
from tests import example_models
from tests.model_builder import ModelBuilder

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from hasten.practices.accelerators.facts import AcceleratorRow
    from hasten.targets.background_load import BackgroundLoad
    from hasten.targets.base import Target
    from hasten.targets.client import RunnerClient

    MakeTarget = Callable[[Limits], Target]
    WriteModel = Callable[[bytes], Path]
    Has = Callable[[str], Plan]

BRIEFLY = 0.1
"""Seconds: enough for the checks and one round, which are made in any case."""


def examined(
    target: Target, path: Path, plans: dict[str, Plan], seconds: float = BRIEFLY
) -> tuple[AcceleratorRow, ...]:
    """XNNPACK, the reference kernels and the plans, in this order."""
    graph = read_graph(path)
    candidate = Candidate(path.name, path, Model(str(path), graph.size_bytes, graph.sha256))
    everything = {"xnnpack": Plan(), "reference": Plan(kernel="reference"), **plans}
    return examine(candidate, graph, everything, Effort(seconds, target))


def planted_plan(library: Path, **settings: object) -> Plan:
    return Plan(delegate=f"{library}:" + ";".join(f"{key}={value}" for key, value in settings.items()))


@pytest.fixture
def has(place: str) -> Callable[[str], Plan]:
    """The plan for an accelerator; a test that needs one which is not there is skipped."""

    def plan_on(accelerator: str) -> Plan:
        plan = Plan(accelerator=accelerator)
        if place == "arm64":
            pytest.skip("there are no GPU and NPU libraries for it")
        try:
            process_environment(plan)
        except AcceleratorError as error:
            pytest.skip(f"{error.message}: {error.hint}")
        return plan

    return plan_on


@pytest.fixture
def sums(write_model: WriteModel) -> Path:
    """ADD, ADD, MUL, ADD: the planted delegate takes all but one."""
    g = ModelBuilder()
    x = g.input("x", (1, 4))
    g.output(g.add(g.mul(g.add(g.add(x, x), x), x), x), "y")
    return write_model(g.build())


def test_a_good_delegate_runs_its_part(target: Target, sums: Path, planted: Path) -> None:
    *_, row = examined(target, sums, {"planted": Plan(delegate=str(planted))})
    assert (row.status, row.placed_ops, row.total_ops, row.partitions) == (Status.PARTIAL, 3, 4, 2)
    assert row.refused == ("MUL x1",)
    assert row.max_error is not None
    assert row.max_error < 1e-6
    assert row.latency is not None


def test_wrong_numbers_are_called_wrong_and_never_recommended(target: Target, sums: Path, planted: Path) -> None:
    rows = examined(target, sums, {"planted": planted_plan(planted, fault="wrong")}, 4.0)
    assert rows[-1].status is Status.WRONG
    assert rows[-1].why.facts["parts"][0]["code"] == "accelerators.wrong"
    assert rows[0].status is Status.RUNS
    assert recommend(rows)[0] == "xnnpack"


@pytest.mark.parametrize("after", [0, 40], ids=["from the start", "after some runs"])
def test_a_delegate_that_computes_nothing_is_called_wrong(
    target: Target, sums: Path, planted: Path, after: int
) -> None:
    *_, row = examined(target, sums, {"planted": planted_plan(planted, fault="lazy", after=after)})
    assert row.status is Status.WRONG
    assert row.outputs_change is (after > 0)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"at": "create", "fault": "segfault"}, "SIGSEGV"),
        ({"at": "invoke", "fault": "abort"}, "SIGABRT"),
        ({"at": "invoke", "fault": "segfault", "after": 40}, "SIGSEGV"),
        ({"at": "create", "fault": "error"}, "could not be created: no such device"),
        ({"at": "invoke", "fault": "error"}, "the device is on fire"),
        ({"fault": "none"}, "took none of the model's 4 operators"),
    ],
    ids=["crash at its start", "crash in its first run", "crash while timed", "refusal", "error", "takes nothing"],
)
def test_trouble_is_named_and_the_others_go_on(
    target: Target, sums: Path, planted: Path, settings: dict[str, object], words: str
) -> None:
    rows = examined(target, sums, {"planted": planted_plan(planted, **settings), "builtin": Plan(kernel="builtin")})
    row = rows[2]
    assert (row.status, row.latency) == (Status.FAILED, None)
    assert words in row.why.facts["message"]
    assert all(other.latency is not None for other in rows if other is not row)


def test_a_hang_costs_the_time_limit_and_no_more(make_target: MakeTarget, sums: Path, planted: Path) -> None:
    target = make_target(Limits(answer_seconds=3.0))
    *_, row = examined(target, sums, {"planted": planted_plan(planted, at="invoke", fault="hang")})
    assert row.status is Status.FAILED
    assert "did not answer within 3" in row.why.facts["message"]


def test_a_library_that_is_not_there_is_missing(target: Target, sums: Path) -> None:
    *_, row = examined(target, sums, {"absent": Plan(delegate="/nowhere/libabsent.so")})
    assert row.status is Status.MISSING
    assert BOOK.text(row.why).startswith("There is no delegate library at /nowhere/libabsent.so. Give the path")


def test_what_the_gpu_refuses_is_named(target: Target, write_model: WriteModel, has: Has) -> None:
    *_, row = examined(target, write_model(example_models.counting_loop()), {"gpu": has("gpu")})
    assert (row.status, row.placed_ops, row.total_ops) == (Status.PARTIAL, 3, 4)
    assert row.refused == ("WHILE x1",)
    assert row.max_error == 0


def test_a_gpu_that_takes_nothing_is_not_timed(target: Target, write_model: WriteModel, has: Has) -> None:
    *_, row = examined(target, write_model(example_models.pass_through("int64")), {"gpu": has("gpu")})
    assert (row.status, row.latency) == (Status.FAILED, None)
    assert "RESHAPE" in row.why.facts["message"]


@pytest.mark.parametrize("accelerator", ["gpu", "npu"])
def test_a_whole_model_is_examined(target: Target, write_model: WriteModel, has: Has, accelerator: str) -> None:
    *_, row = examined(target, write_model(example_models.mobilenet_like(8)), {accelerator: has(accelerator)})
    assert (row.status, row.placed_ops) == (Status.RUNS, row.total_ops)
    assert row.max_error is not None
    assert row.max_error < 0.1
    assert row.latency is not None
    assert row.placed_macs == 1.0
    assert row.refused == ()


class Swapping:
    """A device on which the second accelerator is asked for and the first runs: the GPU in the NPU's place."""

    name = "swapping"

    def __init__(self, target: Target) -> None:
        self._target, self.capabilities = target, target.capabilities
        self.machine, self.stage, self.close = target.machine, target.stage, target.close

    def start(self, plan: Plan) -> RunnerClient:
        return self._target.start(Plan(accelerator="gpu") if plan.accelerator == "npu" else plan)

    def start_load(self, kind: str, workers: int) -> BackgroundLoad:
        return self._target.start_load(kind, workers)


def test_what_was_seen_placed_decides_who_ran(target: Target, sums: Path, has: Has) -> None:
    has("gpu")
    *_, row = examined(Swapping(target), sums, {"npu": Plan(accelerator="npu")})
    assert (row.status, row.latency) == (Status.FAILED, None)
    assert "took the model's operators: LITERT_WEBGPU (4 operators)" in row.why.facts["message"]


@pytest.mark.slow
def test_ynnpack_is_placed_or_said_to_be_missing(target: Target, sums: Path) -> None:
    *_, row = examined(target, sums, {"ynnpack": Plan(options=(("cpu.enable_ynnpack", "true"),))})
    if row.status is Status.MISSING:
        assert BOOK.text(row.why) == "This release of LiteRT was built without YNNPACK."
    else:
        assert row.placed_ops


def test_the_size_from_which_on_a_delegate_pays(target: Target, planted: Path) -> None:
    plans = {"planted": Plan(delegate=str(planted)), "none": planted_plan(planted, fault="none")}
    found = climb([Plan()], plans, Effort(BRIEFLY, target))
    assert [point.macs for point in found["planted"].points] == sorted(point.macs for point in found["planted"].points)
    assert len(found["planted"].points) == 4
    assert found["none"].points == []
    assert found["none"].trouble is not None
    assert "took none of the model's" in found["none"].trouble.facts["message"]
