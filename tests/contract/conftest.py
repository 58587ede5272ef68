"""The targets under test, and the delegate library whose faults are planted."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import hasten.practices
from hasten.core.failure import Failure, RunnerFailed
from hasten.core.plan import Plan, Workload
from hasten.targets.base import Limits
from hasten.targets.local import LocalTarget
from hasten.targets.staged import StagedTarget

from .folder_transport import FolderTransport

if TYPE_CHECKING:
    from collections.abc import Callable

    from hasten.targets.base import Target
    from hasten.targets.client import LoadReport

    MakeTarget = Callable[[Limits], Target]

_SOURCE = Path(__file__).with_name("planted_delegate.c")
_HEADERS = Path(hasten.practices.__file__).parent / "accelerators" / "delegate_template"


@pytest.fixture(params=["local", "staged"])
def make_target(request: pytest.FixtureRequest, device: Path) -> MakeTarget:
    """Each target in turn, as a function of its limits."""
    if request.param == "local":
        return LocalTarget
    # Of this process's environment the device has nothing but what every system sets.
    transport = FolderTransport(device, sys.executable, {"PATH": os.defpath, "HOME": str(device)})
    return partial(StagedTarget, "staged", transport)


@pytest.fixture(scope="session")
def device(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that stands for a device: its runners see no path of the host, and share no memory with it."""
    return tmp_path_factory.mktemp("device")


@pytest.fixture
def target(make_target: MakeTarget) -> Target:
    return make_target(Limits(answer_seconds=60.0))


@pytest.fixture
def write_model(tmp_path: Path) -> Callable[[bytes], Path]:
    def write(content: bytes) -> Path:
        path = tmp_path / "model.tflite"
        path.write_bytes(content)
        return path

    return write


@pytest.fixture
def fails(make_target: MakeTarget) -> Callable[..., Failure]:
    """Start, load and run until it fails; the failure."""

    def provoke(path: Path, plan: Plan, workload: Workload | None = None, limits: Limits | None = None) -> Failure:
        target = make_target(limits or Limits(answer_seconds=60.0))
        try:
            with target.start(plan) as runner:
                runner.load(path, workload or Workload())
                runner.block(30.0, 8)
        except RunnerFailed as error:
            return error.failure
        raise AssertionError("it did not fail")

    return provoke


@pytest.fixture
def loads(target: Target) -> Callable[..., LoadReport]:
    """Load a model and time a block of it; what the runner says of it."""

    def load(path: Path, plan: Plan | None = None, workload: Workload | None = None) -> LoadReport:
        with target.start(plan or Plan()) as runner:
            report = runner.load(path, workload or Workload())
            assert len(runner.block(30.0, 3).nanoseconds) == 3
        return report

    return load


@pytest.fixture(scope="session")
def build_library(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """A shared library from C code."""
    compiler = shutil.which("gcc") or shutil.which("cc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("there is no C compiler to build the planted delegate with")
    folder = tmp_path_factory.mktemp("libraries")

    def build(source: Path, name: str, *flags: str) -> Path:
        library = folder / f"{name}.so"
        command = [compiler, "-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-O1", "-shared", "-fPIC"]
        subprocess.run([*command, f"-I{_HEADERS}", *flags, "-o", str(library), str(source)], check=True)
        return library

    return build


@pytest.fixture(scope="session")
def planted(build_library: Callable[..., Path]) -> Path:
    """The delegate that adds, and strikes on request."""
    return build_library(_SOURCE, "planted")
