"""The doctor on real models: what runs is timed and looked into, what fails is a finding, and Ctrl-C loses nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from hasten import api
from hasten.core.errors import Interrupted, ModelError, TargetError, UsageError
from hasten.core.failure import Failure, RunnerFailed
from hasten.core.plan import Plan
from hasten.model.build_graph import Spec
from hasten.practices.help.facts import Status
from hasten.targets.local import LocalTarget
from tests import example_models
from tests.model_builder import ModelBuilder
from tests.unit.practices.help import planted

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from hasten.core.machine import Machine
    from hasten.targets.client import RunnerClient

SHORT = api.Effort(0.4)


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


class Impatient(LocalTarget):
    """A target whose user presses Ctrl-C when the next process would start."""

    def __init__(self, patience: int) -> None:
        super().__init__()
        self.patience = patience

    def start(self, plan: Plan) -> RunnerClient:
        if self.patience == 0:
            raise KeyboardInterrupt
        self.patience -= 1
        return super().start(plan)


class Broken(LocalTarget):
    """A target without an engine."""

    def machine(self) -> Machine:
        raise RunnerFailed(Failure("start", "target", "LiteRT is not installed.", "Run pip install ai-edge-litert."))


@pytest.mark.parametrize(
    "name", ["mobilenet", *(pytest.param(name, marks=pytest.mark.slow) for name in ("efficientnet", "matmul"))]
)
def test_a_sound_model_passes_on_this_machine(name: str, tmp_path: Path) -> None:
    shares: list[float] = []
    effort = api.Effort(0.4, progress=lambda share, text: shares.append(share))
    found = api.doctor_model(planted.written(tmp_path, planted.clean()[name]), effort=effort)
    assert [
        (check.name, check.status) for check in found.checks if check.status in (Status.BETTER, Status.BROKEN)
    ] == []
    assert found.latency is not None
    assert found.profile is not None
    assert found.machine is not None
    assert found.delegates[0].observed
    assert found.delegates[0].taken == found.delegates[0].total
    assert shares == sorted(shares)
    assert shares[-1] == 1.0


@pytest.mark.slow
def test_refused_operators_are_seen_with_their_share_of_the_run(tmp_path: Path) -> None:
    """FLOOR_DIV is not XNNPACK's, on whatever machine."""
    g = ModelBuilder()
    y = g.conv2d(g.input("x", (1, 32, 32, 8)), 8, 3)
    (odd,) = g.operator("FLOOR_DIV", [y, y], [Spec(y.shape)], options_type="FloorDivOptions")
    g.output(g.conv2d(odd, 8, 3), "y")
    found = api.doctor_model(g.write(tmp_path / "m.tflite"), effort=SHORT)
    fit = found.delegates[0]
    assert (fit.observed, fit.partitions) == (True, 2)
    assert [(row.op, row.nodes) for row in fit.refusals] == [("FLOOR_DIV", (1,))]
    assert fit.left_share is not None
    assert 0 < fit.left_share < 1
    assert not found.is_broken


@pytest.mark.parametrize("make", [example_models.aborting, example_models.flex_operator])
def test_a_model_that_does_not_run_is_a_finding(make: Callable[[], bytes], tmp_path: Path) -> None:
    found = api.doctor_model(planted.written(tmp_path, make()), effort=SHORT)
    assert found.is_broken
    assert found.failure is not None
    assert found.latency is None
    assert {check.name for check in found.checks} >= {"runs", "operators", "types", "weights"}


def test_a_damaged_file_and_a_broken_target_are_errors(tmp_path: Path) -> None:
    with pytest.raises(ModelError):
        api.doctor_model(planted.written(tmp_path, b"TFL3" * 9), effort=SHORT)
    sound = planted.written(tmp_path, example_models.one_operator())
    with pytest.raises(TargetError, match="not installed"):
        api.doctor_model(sound, effort=api.Effort(1.0, Broken()))


def test_what_cannot_be_done_is_said_before_any_process_starts(tmp_path: Path) -> None:
    model, never = planted.written(tmp_path, example_models.one_operator()), api.Effort(1.0, Impatient(0))
    out = tmp_path / "x.zip"
    for options, plan in (
        (api.DoctorOptions(minimize="ugly"), Plan()),
        (api.DoctorOptions(versions=("latest",)), Plan()),
        (api.DoctorOptions(versions=("2.3.0",)), Plan(accelerator="gpu")),
    ):
        with pytest.raises(UsageError):
            api.doctor_model(model, plan, options=options, out=out, effort=never)
    assert not out.exists()


@pytest.mark.slow
def test_ctrl_c_in_a_search_keeps_checks_and_the_smallest_part_so_far(tmp_path: Path) -> None:
    model = planted.written(tmp_path, planted.crashing_chain(nodes=12, bad=7))
    out = tmp_path / "issue.zip"
    asked = api.DoctorOptions(minimize="crash")
    # The look at the model, the whole model, and two parts.
    with pytest.raises(Interrupted) as stopped:
        api.doctor_model(model, options=asked, out=out, effort=api.Effort(1.0, Impatient(4)))
    found = stopped.value.found
    assert found.interrupted
    assert found.checks
    assert found.minimized is not None
    assert not found.minimized.complete
    assert not out.exists()
    again = api.doctor_model(model, options=asked, out=out, effort=SHORT)
    assert again.minimized is not None
    assert again.minimized.remembered == 2
    assert len(again.minimized.nodes) <= 3
    assert out.exists()


@pytest.mark.slow
def test_a_model_that_only_the_classic_interface_runs_is_named(tmp_path: Path) -> None:
    """WHERE gives as many rows as there are values above zero: an output of changing size."""
    g = ModelBuilder()
    x = g.input("x", (1, 8))
    (above,) = g.operator("GREATER", [x, g.constant(np.float32(0.0))], [Spec(x.shape, "bool")])
    (rows,) = g.operator("WHERE", [above], [Spec((1, 2), "int64")])
    g.output(rows, "y")
    found = api.doctor_model(g.write(tmp_path / "m.tflite"), effort=SHORT)
    (check,) = [check for check in found.checks if check.name == "interface"]
    assert (check.status, check.finding.code) == (Status.BETTER, "model.classic-only")
    assert not found.is_broken
