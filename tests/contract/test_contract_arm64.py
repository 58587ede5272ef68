"""An ARM64 system behind ssh, emulated: the facts are its own, and kernels are mapped as on x86.

The whole contract runs there, too, in `make test-all` (the place `arm64`). Its latencies mean nothing.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from hasten.core.failure import Failure, RunnerFailed
from hasten.core.measurement import Model
from hasten.core.plan import Plan, Workload
from hasten.demo import MODEL
from hasten.measure.profiling import build_profile, collect_profile
from hasten.measure.rounds import Candidate
from hasten.model.reader import read_graph
from hasten.search.folder import SESSION
from hasten.targets.base import Limits
from hasten.targets.local import LocalTarget
from tests import example_models

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from hasten.core.profile import Profile
    from hasten.targets.base import Target
    from hasten.targets.ssh import SshDevice

    MakeTarget = Callable[[Limits], Target]
    WriteModel = Callable[[bytes], Path]

LIMITS = Limits(answer_seconds=120.0)


@pytest.fixture
def target(make_arm64: MakeTarget) -> Target:
    return make_arm64(LIMITS)


def test_the_facts_are_the_devices_own(target: Target) -> None:
    machine = target.machine()
    assert (machine.system, machine.architecture) == ("Linux", "aarch64")
    assert machine.device == "Raspberry Pi 4 Model B Rev 1.2"
    assert machine.cpu == "Cortex-A72"
    assert "asimd" in machine.instructions
    assert not [name for name in machine.instructions if "avx" in name or "sse" in name]
    assert machine.engine == "2.3.0"
    assert not machine.hypervisor


@pytest.mark.parametrize("dtype", [pytest.param("float32", marks=pytest.mark.slow), "int8"])
def test_outputs_are_those_of_this_machine(target: Target, write_model: WriteModel, dtype: str) -> None:
    path = write_model(example_models.mobilenet_like(8, dtype=dtype))
    data = np.random.default_rng(1).random((1, 32, 32, 3), np.float32)
    found = []
    for place in (target, LocalTarget(LIMITS)):
        with place.start(Plan()) as runner:
            load = runner.load(path, Workload())
            fed = data if load.inputs[0].dtype == "float32" else data * 255 - 128
            (output,) = runner.evaluate([fed.astype(load.inputs[0].dtype).tobytes()])
            found.append(np.frombuffer(output, load.outputs[0].dtype).astype(float))
    # Kernels of another machine round differently, by a step of the quantized values now and then.
    np.testing.assert_allclose(found[0], found[1], atol=2 if load.outputs[0].dtype == "int8" else 0.02)


def test_a_library_for_another_processor_is_told(target: Target, write_model: WriteModel, planted_here: Path) -> None:
    path = write_model(example_models.one_operator())
    told = pytest.raises(RunnerFailed, match=r"is built for x86_64, and this device is aarch64")
    with target.start(Plan(delegate=str(planted_here))) as runner, told:
        runner.load(path, Workload())


def profiled(target: Target, path: Path) -> Profile:
    graph = read_graph(path)
    candidate = Candidate(path.name, path, Model(str(path), graph.size_bytes, graph.sha256))
    raw = collect_profile(target, candidate, 0.5)
    assert not isinstance(raw, Failure), raw.message
    return build_profile(candidate, graph, raw, None)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "int8"])
@pytest.mark.parametrize("build", [example_models.mobilenet_like, example_models.efficientnet_like])
def test_kernels_are_mapped_there_as_here(
    target: Target, write_model: WriteModel, build: Callable[..., bytes], dtype: str
) -> None:
    found = profiled(target, write_model(build(8, 2, 32, dtype=dtype)))
    delegated = [op for op in found.operators if op.partition is not None]
    assert delegated
    assert {op.mapped for op in delegated} == {"exact"}


def hasten(targets: Path, *words: str | Path) -> dict[str, Any]:
    """A command on the device, as a user calls it; its JSON."""
    done = subprocess.run(
        [sys.executable, "-m", "hasten", *map(str, words), "--target", "pi", "--time-limit", "300", "--json"],
        env={**os.environ, "XDG_CONFIG_HOME": str(targets)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.fixture
def targets(arm64_device: SshDevice, make_arm64: MakeTarget, tmp_path: Path) -> Path:
    """A user's configuration folder, in which the device is `pi`."""
    make_arm64(LIMITS).close()
    lines = [
        "[pi]",
        f'address = "ssh://{arm64_device.host}"',
        f"folder = {json.dumps(arm64_device.folder)}",
        f"config = {json.dumps(arm64_device.config)}",
        "patience = 5",
    ]
    path = tmp_path / "config" / "hasten" / "targets.toml"
    path.parent.mkdir(parents=True)
    path.write_text("\n".join(lines) + "\n")
    return tmp_path / "config"


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_every_command_works_there(targets: Path, tmp_path: Path) -> None:
    assert hasten(targets, "bench", "demo", "--seconds", "4")["latency"]["median_ms"] > 0
    assert hasten(targets, "profile", "demo", "--seconds", "4")["ops"]
    assert hasten(targets, "threads", "demo", "--counts", "1,2", "--seconds", "10")["rows"]
    rows = hasten(targets, "accelerators", "demo", "--seconds", "10")["rows"]
    assert {row["name"]: row["status"] for row in rows}["xnnpack"] == "runs"
    few = ("--data", "demo", "--samples", "40", "--recipe", "dynamic_int8", "--recipe", "float16")
    made = hasten(targets, "quantize", "demo", *few, "--seconds", "20", "-o", tmp_path / "quantized")
    assert made["variants"]
    tuned = hasten(targets, "tune", "demo", *few, "--budget", "60s", "-o", tmp_path / "tuned")
    assert tuned["best"]["speedup"] >= 1
    # The bundle runs there, and its session speaks of the device.
    np.save(tmp_path / "x.npy", np.zeros(read_graph(MODEL).inputs[0].shape, np.float32))
    assert hasten(targets, "run", tmp_path / "tuned", "--input", tmp_path / "x.npy")
    session = (tmp_path / "tuned" / SESSION).read_text()
    assert "Raspberry Pi 4" in session
    assert "avx" not in session
