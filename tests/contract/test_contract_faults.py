"""Native trouble is a value: whatever a delegate does, a Failure comes out and the next runner works."""

from __future__ import annotations

import os
import select
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from hasten.core.plan import Plan, Workload
from hasten.targets.base import Limits
from tests.model_builder import ModelBuilder

if TYPE_CHECKING:
    from collections.abc import Callable

    from hasten.core.failure import Failure
    from hasten.targets.base import Target

    Fails = Callable[..., Failure]
    WriteModel = Callable[[bytes], Path]
    BuildLibrary = Callable[..., Path]

SHORT = Limits(answer_seconds=1.5, memory_mb=400)
# A parent whose runner gets stuck in native code.
PARENT = """
import os, sys
from pathlib import Path
from hasten.core.plan import Plan, Workload
from hasten.targets.local import LocalTarget
from hasten.targets.staged import StagedTarget
from folder_transport import FolderTransport
model, delegate, device = sys.argv[1:]
there = FolderTransport(Path(device), sys.executable, {"PATH": os.defpath})
target = StagedTarget("staged", there) if device else LocalTarget()
runner = target.start(Plan(delegate=delegate))
print(runner._link.pid, flush=True)
runner.load(Path(model), Workload())
"""
CRASHES = {"segfault": "SIGSEGV", "abort": "SIGABRT", "exit": "status 3"}
PLACES = ("create", "prepare", "invoke")


@pytest.fixture
def sums(write_model: WriteModel) -> Path:
    """ADD, ADD, MUL, ADD: two partitions for a delegate that adds."""
    g = ModelBuilder()
    x = g.input("x", (1, 4))
    g.output(g.add(g.mul(g.add(g.add(x, x), x), x), x), "y")
    return write_model(g.build())


def faulty(library: Path, at: str, fault: str, **more: object) -> Plan:
    settings = {"at": at, "fault": fault, **more}
    return Plan(delegate=f"{library}:" + ";".join(f"{key}={value}" for key, value in settings.items()))


def assert_next_runner_works(target: Target, path: Path) -> None:
    with target.start(Plan()) as runner:
        runner.load(path, Workload())


def test_a_good_delegate_computes_its_part(target: Target, sums: Path, planted: Path) -> None:
    x = np.array([[0.5, 1, 2, -3]], dtype=np.float32)
    with target.start(Plan(delegate=str(planted))) as runner:
        report = runner.load(sums, Workload())
        (output,) = runner.evaluate([x.tobytes()])
    np.testing.assert_allclose(np.frombuffer(output, np.float32), (3 * x * x + x)[0], rtol=1e-6)
    assert report.placement is not None
    parts = [(part.delegate, part.nodes) for part in report.placement.partitions]
    assert parts == [("PlantedDelegate", (0, 1)), ("TfLiteXNNPackDelegate", (2,)), ("PlantedDelegate", (3,))]
    assert report.placement.left == ()
    assert report.fully_accelerated
    assert not report.without_cpu


def test_a_delegate_that_takes_all_runs_without_the_cpu(target: Target, write_model: WriteModel, planted: Path) -> None:
    g = ModelBuilder()
    x = g.input("x", (1, 4))
    g.output(g.add(x, x), "y")
    with target.start(Plan(delegate=str(planted))) as runner:
        assert runner.load(write_model(g.build()), Workload()).without_cpu


@pytest.mark.parametrize("at", PLACES)
@pytest.mark.parametrize("fault", CRASHES)
def test_a_crash_is_a_failure(target: Target, fails: Fails, sums: Path, planted: Path, at: str, fault: str) -> None:
    failure = fails(sums, faulty(planted, at, fault))
    assert (failure.stage, failure.kind) == ("load", "crash")
    assert CRASHES[fault] in failure.message
    assert failure.log[-1] == f"planted delegate: {fault} in {at}"
    assert_next_runner_works(target, sums)


def test_a_crash_in_a_later_run_has_the_stage_of_running(fails: Fails, sums: Path, planted: Path) -> None:
    failure = fails(sums, faulty(planted, "invoke", "segfault", after=10))
    assert (failure.stage, failure.kind) == ("run", "crash")


@pytest.mark.parametrize("at", PLACES)
def test_a_hang_is_ended(target: Target, fails: Fails, sums: Path, planted: Path, at: str) -> None:
    failure = fails(sums, faulty(planted, at, "hang"), limits=SHORT)
    assert (failure.stage, failure.kind) == ("load", "hang")
    assert "1.5 s" in failure.message
    assert failure.log[-1] == f"planted delegate: hang in {at}"
    assert_next_runner_works(target, sums)


@pytest.mark.parametrize("at", PLACES)
def test_hunger_for_memory_ends_at_the_limit(fails: Fails, sums: Path, planted: Path, at: str) -> None:
    failure = fails(sums, faulty(planted, at, "exhaust"), limits=Limits(answer_seconds=60.0, memory_mb=400))
    assert (failure.stage, failure.kind) == ("load", "out of memory")
    assert "--memory-limit" in failure.hint


def test_a_refusal_brings_the_delegates_own_words(fails: Fails, sums: Path, planted: Path) -> None:
    failure = fails(sums, faulty(planted, "create", "error"))
    assert (failure.stage, failure.kind) == ("load", "accelerator")
    assert failure.message.endswith("could not be created: no such device.")


@pytest.mark.parametrize(("at", "why"), [("prepare", "error in prepare"), ("invoke", "the device is on fire")])
def test_an_error_of_the_delegate_is_named(fails: Fails, sums: Path, planted: Path, at: str, why: str) -> None:
    failure = fails(sums, faulty(planted, at, "error"))
    assert (failure.stage, failure.kind) == ("load", "engine")
    assert failure.message.startswith("Operator PlantedDelegate")
    assert failure.message.endswith(f"{why}.")


def test_a_delegate_that_takes_nothing_is_not_timed_as_if_it_did(fails: Fails, sums: Path, planted: Path) -> None:
    failure = fails(sums, faulty(planted, "", "none"))
    assert (failure.stage, failure.kind) == ("load", "accelerator")
    assert "took none of the model's 4 operators" in failure.message


@pytest.mark.parametrize("at", PLACES)
def test_what_a_delegate_prints_does_not_disturb_the_answers(
    target: Target, sums: Path, planted: Path, at: str
) -> None:
    with target.start(faulty(planted, at, "print")) as runner:
        runner.load(sums, Workload())
        assert len(runner.block(30.0, 5).nanoseconds) == 5


def test_a_library_without_the_plugins_functions(
    fails: Fails, sums: Path, tmp_path: Path, build_library: BuildLibrary
) -> None:
    source = tmp_path / "other.c"
    source.write_text("int nothing(void) { return 0; }\n")
    failure = fails(sums, Plan(delegate=str(build_library(source, "other"))))
    assert (failure.stage, failure.kind) == ("load", "accelerator")
    assert "is not an external delegate" in failure.message
    assert "tflite_plugin_create_delegate" in failure.hint


def test_a_library_that_does_not_link(fails: Fails, sums: Path, tmp_path: Path, build_library: BuildLibrary) -> None:
    source = tmp_path / "unlinked.c"
    source.write_text("int missing_function(void);\nint (*pointer)(void) = missing_function;\n")
    failure = fails(sums, Plan(delegate=str(build_library(source, "unlinked"))))
    assert (failure.stage, failure.kind) == ("load", "accelerator")
    assert "missing_function" in failure.message


def test_a_library_that_ends_too_early(fails: Fails, sums: Path, planted: Path, tmp_path: Path) -> None:
    cut = tmp_path / "cut.so"
    cut.write_bytes(planted.read_bytes()[:9000])
    failure = fails(sums, Plan(delegate=str(cut)))
    assert (failure.stage, failure.kind) == ("load", "accelerator")
    assert "is damaged: it ends too early" in failure.message


def test_a_library_that_is_missing_or_is_none(fails: Fails, sums: Path) -> None:
    assert "There is no delegate library at /nowhere.so" in fails(sums, Plan(delegate="/nowhere.so")).message
    failure = fails(sums, Plan(delegate=str(sums)))
    assert failure.kind == "accelerator"
    assert "does not load" in failure.message


def test_options_without_a_value_are_a_wrong_usage(fails: Fails, sums: Path, planted: Path) -> None:
    assert fails(sums, Plan(delegate=f"{planted}:at")).kind == "usage"


@pytest.mark.parametrize("where", ["local", "staged"])
def test_a_runner_stuck_in_native_code_dies_with_its_parent(
    sums: Path, planted: Path, tmp_path: Path, where: str
) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    delegate = faulty(planted, "invoke", "hang", pipe=pipe).delegate
    device = str(tmp_path / "device") if where == "staged" else ""
    command = [sys.executable, "-c", PARENT, str(sums), delegate, device]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment) as parent:
        assert parent.stdout is not None
        descriptor = os.pidfd_open(int(parent.stdout.readline()))
        pipe.read_bytes()  # returns when the delegate is about to hang
        parent.kill()
    try:
        assert select.select([descriptor], [], [], 30.0)[0], "the runner is still alive"
    finally:
        os.close(descriptor)
