"""GPU and NPU truly run where their libraries are, with right outputs; what they do not take, they name."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import numpy as np
import pytest

from hasten.core.errors import AcceleratorError
from hasten.core.plan import Plan, Workload
from hasten.engine.accelerators import process_environment
from hasten.measure.layer_times import layer_times
from hasten.measure.opening import open_model
from tests import example_models

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from hasten.core.failure import Failure
    from hasten.targets.base import Target
    from hasten.targets.client import LoadReport

    Fails = Callable[..., Failure]
    WriteModel = Callable[[bytes], Path]
    Loads = Callable[..., LoadReport]

# The largest difference from the reference kernels, in probabilities. OpenVINO computes in less than float32.
TOLERANCES = {"gpu": 1e-4, "npu": 0.02}


@pytest.fixture(params=sorted(TOLERANCES))
def plan(request: pytest.FixtureRequest, place: str) -> Plan:
    if place == "arm64":
        pytest.skip("there are no GPU and NPU libraries for it")
    plan = Plan(accelerator=request.param)
    try:
        process_environment(plan)
    except AcceleratorError as error:
        pytest.skip(f"{error.message}: {error.hint}")
    return plan


def outputs_of(target: Target, path: Path, plan: Plan, data: bytes) -> tuple[np.ndarray, LoadReport]:
    with target.start(plan) as runner:
        report = runner.load(path, Workload())
        (output,) = runner.evaluate([data])
    return np.frombuffer(output, np.float32), report


def test_the_whole_model_runs_there_with_right_outputs(target: Target, write_model: WriteModel, plan: Plan) -> None:
    path = write_model(example_models.mobilenet_like())
    data = np.random.default_rng(1).random((1, 32, 32, 3), np.float32).tobytes()
    found, report = outputs_of(target, path, plan, data)
    expected, _ = outputs_of(target, path, Plan(kernel="reference"), data)
    np.testing.assert_allclose(found, expected, atol=TOLERANCES[plan.accelerator])
    assert report.without_cpu
    assert report.placement is not None
    assert report.placement.left == ()


def test_a_part_runs_there_and_the_rest_on_the_cpu(loads: Loads, write_model: WriteModel, plan: Plan) -> None:
    report = loads(write_model(example_models.counting_loop()), plan)
    assert not report.without_cpu
    assert report.placement is not None
    assert report.placement.partitions
    assert report.placement.left


def test_every_signature_runs_there(loads: Loads, write_model: WriteModel, plan: Plan) -> None:
    path = write_model(example_models.two_signatures())
    for signature in ("double", "multiply"):
        assert loads(path, plan, Workload(signature=signature)).without_cpu


def test_a_gpu_that_takes_nothing_says_which_operators_it_refused(
    fails: Fails, write_model: WriteModel, plan: Plan
) -> None:
    if plan.accelerator != "gpu":
        pytest.skip("the NPU's compiler takes this operator")
    failure = fails(write_model(example_models.pass_through("int64")), plan)
    assert (failure.stage, failure.kind) == ("load", "accelerator")
    assert "RESHAPE" in failure.message


def test_precision_is_passed_on(target: Target, write_model: WriteModel, plan: Plan) -> None:
    if plan.accelerator != "gpu":
        pytest.skip("precision is an option of the GPU")
    path = write_model(example_models.mobilenet_like())
    data = np.random.default_rng(1).random((1, 32, 32, 3), np.float32).tobytes()
    full, _ = outputs_of(target, path, dataclasses.replace(plan, precision="fp32"), data)
    half, _ = outputs_of(target, path, dataclasses.replace(plan, precision="fp16"), data)
    np.testing.assert_allclose(half, full, atol=0.05)
    assert not np.array_equal(half, full)


def test_openvino_counts_the_layers_that_run(target: Target, write_model: WriteModel, place: str) -> None:
    """The counters come from the partition that LiteRT's plugin has compiled, so every convolution is among them."""
    if place == "arm64":
        pytest.skip("there are no GPU and NPU libraries for it")
    plan = Plan(accelerator="npu")
    try:
        process_environment(plan)
    except AcceleratorError as error:
        pytest.skip(f"{error.message}: {error.hint}")
    candidate, graph = open_model(write_model(example_models.mobilenet_like()), plan)
    layers = layer_times(target, candidate, graph)
    assert sum(layer.share for layer in layers) == pytest.approx(1.0)
    assert all(layer.ms >= 0 and layer.kernel for layer in layers)
    convolutions = {node.index for node in graph.main.nodes if node.op == "CONV_2D"}
    assert {layer.node for layer in layers if layer.kind == "Convolution"} == convolutions
