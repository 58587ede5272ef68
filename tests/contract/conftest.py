"""The targets under test, and the delegate library whose faults are planted."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from scripts import arm64_userland

import hasten.practices
from hasten.core.failure import Failure, RunnerFailed
from hasten.core.plan import Plan, Workload
from hasten.targets.base import Limits
from hasten.targets.local import LocalTarget
from hasten.targets.ssh import SshTarget
from hasten.targets.staged import StagedTarget

from .folder_transport import FolderTransport
from .loopback_sshd import LoopbackSshd, running_sshd

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hasten.targets.base import Target
    from hasten.targets.client import LoadReport
    from hasten.targets.ssh import SshDevice

    MakeTarget = Callable[[Limits], Target]

USUAL = Limits(answer_seconds=60.0)
_SOURCE = Path(__file__).with_name("planted_delegate.c")
_HEADERS = Path(hasten.practices.__file__).parent / "accelerators" / "delegate_template"


# What runs over ssh in `make test`: what the way there can change. The rest of the contract is slow there.
_OVER_SSH = ("test_contract_models.py", "test_contract_staging.py")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """On a device each test runs once in `make test`: its other parameters prove the same of the way there."""
    seen: set[tuple[Path, str, str]] = set()
    for item in items:
        parameters = getattr(item, "callspec", None)
        place = parameters.params.get("place", "") if parameters else ""
        if isinstance(item, pytest.Function) and place in ("staged", "ssh"):
            name = item.path, item.originalname, place
            if name in seen or (place == "ssh" and item.path.name not in _OVER_SSH):
                item.add_marker(pytest.mark.slow)
            seen.add(name)


@pytest.fixture(params=["local", "staged", "ssh", pytest.param("arm64", marks=pytest.mark.slow)])
def place(request: pytest.FixtureRequest) -> str:
    """Where the target under test is: each test runs in all places."""
    return str(request.param)


@pytest.fixture
def make_target(place: str, request: pytest.FixtureRequest) -> MakeTarget:
    """Each target in turn, as a function of its limits."""
    if place == "local":
        return LocalTarget
    made: MakeTarget = request.getfixturevalue(f"make_{place}")
    return made


@pytest.fixture
def make_staged(device: Path) -> MakeTarget:
    # Of this process's environment the device has nothing but what every system sets.
    transport = FolderTransport(device, sys.executable, {"PATH": os.defpath, "HOME": str(device)})
    return partial(StagedTarget, "staged", transport)


@pytest.fixture(scope="session")
def make_ssh(sshd: LoopbackSshd, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MakeTarget]:
    with Shelf("ssh", sshd.device(tmp_path_factory.mktemp("ssh") / "device", sys.executable)) as shelf:
        yield shelf


@pytest.fixture(scope="session")
def make_arm64(arm64_device: SshDevice) -> Iterator[MakeTarget]:
    with Shelf("arm64", arm64_device) as shelf:
        yield shelf


class Shelf:
    """Targets of one device by their limits, of which one is connected at a time: a device takes one session."""

    def __init__(self, name: str, device: SshDevice) -> None:
        self._name, self._device = name, device
        self._made: dict[Limits, SshTarget] = {}

    def __enter__(self) -> Shelf:
        return self

    def __exit__(self, *_: object) -> None:
        for target in self._made.values():
            target.close()

    def __call__(self, limits: Limits) -> SshTarget:
        for other, target in self._made.items():
            if other != limits:
                target.close()
        return self._made.setdefault(limits, SshTarget(self._name, self._device, limits))


@pytest.fixture(scope="session")
def device(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that stands for a device: its runners see no path of the host, and share no memory with it."""
    return tmp_path_factory.mktemp("device")


@pytest.fixture(scope="session")
def sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoopbackSshd]:
    """A plain ssh server of this machine."""
    with running_sshd(tmp_path_factory.mktemp("sshd")) as server:
        yield server


@pytest.fixture(scope="session")
def arm64_device(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SshDevice]:
    """An ssh server whose logins land in an emulated ARM64 system."""
    if lacking := arm64_userland.missing_programs():
        pytest.skip(f"no ARM64 system can be made here: apt-get install qemu-user-static proot ({', '.join(lacking)})")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    userland = cache / "hasten" / "arm64-userland"
    try:
        arm64_userland.make_userland(userland)
    except SystemExit as failed:
        pytest.skip(f"no ARM64 system can be made here: {failed}")
    words = arm64_userland.enter_command(userland, "/usr/bin/python3", "-c", "print(1)")
    variables = {**os.environ, **arm64_userland.environment()}
    tried = subprocess.run(
        words, env=variables, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=100
    )
    if tried.stdout != b"1\n":
        pytest.skip(f"no ARM64 program runs here: {tried.stderr.decode(errors='replace').strip()}")
    folder = tmp_path_factory.mktemp("arm64")
    exports = [f"export {name}={value}" for name, value in arm64_userland.environment().items()]
    enter = shlex.join(arm64_userland.enter_command(userland, "/bin/sh", "-c"))
    script = folder / "enter"
    script.write_text("\n".join(["#!/bin/sh", *exports, f'exec {enter} "$SSH_ORIGINAL_COMMAND"', ""]))
    script.chmod(0o755)
    with running_sshd(folder, f"ForceCommand {script}") as server:
        # A name of its own: several runs of the tests may share the system.
        yield replace(server.device(Path(f"/tmp/hasten-{os.getpid()}"), ""), patience_s=5.0)
        shutil.rmtree(userland / "root" / "tmp" / f"hasten-{os.getpid()}", ignore_errors=True)


@pytest.fixture
def target(make_target: MakeTarget) -> Target:
    return make_target(USUAL)


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
        target = make_target(limits or USUAL)
        try:
            with target.start(plan) as runner:
                runner.load(path, workload or Workload())
                runner.block(30.0, 8)
        except RunnerFailed as error:
            return error.failure
        finally:
            if limits is not None:
                target.close()  # the test's own target may want the device next
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


@pytest.fixture(autouse=True)
def only_where_libraries_run(request: pytest.FixtureRequest) -> None:
    """There is no compiler for the emulated system."""
    needed = {"place", "build_library"} <= set(request.fixturenames)
    if needed and request.getfixturevalue("place") == "arm64":
        pytest.skip("libraries are built for this machine's processor")


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
def planted_here(build_library: Callable[..., Path]) -> Path:
    return build_library(_SOURCE, "planted")


@pytest.fixture
def planted(planted_here: Path) -> Path:
    """The delegate that adds, and strikes on request."""
    return planted_here
