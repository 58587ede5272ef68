"""Profiles of real runs: every kernel of XNNPACK finds its node, and the operators add up to the run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from tests import example_models
from tests.model_builder import ModelBuilder

from hasten import api

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from hasten.core.profile import Profile


def profiled(data: bytes, folder: Path, seconds: float = 0.6) -> Profile:
    path = folder / "m.tflite"
    path.write_bytes(data)
    return api.profile(path, roofline=False, effort=api.Effort(seconds))


@pytest.mark.parametrize("dtype", ["float32", "int8"])
@pytest.mark.parametrize("build", [example_models.mobilenet_like, example_models.efficientnet_like])
def test_every_kernel_finds_its_node(build: Callable[..., bytes], dtype: str, tmp_path: Path) -> None:
    found = profiled(build(32, 3, 160, dtype=dtype), tmp_path)
    delegated = [op for op in found.operators if op.partition is not None]
    assert delegated
    assert {op.mapped for op in delegated} == {"exact"}
    assert found.coverage >= 0.9
    placed = [index for partition in found.partitions for index in partition.nodes]
    assert sorted(placed) == list(range(len(placed)))
    named = len(found.operators) + sum(len(op.fused) for op in found.operators)
    assert named == len(placed)


def test_swish_runs_in_one_kernel_when_quantized(tmp_path: Path) -> None:
    found = profiled(example_models.efficientnet_like(16, 1, 64, dtype="int8"), tmp_path, 0.3)
    fused = [op for op in found.operators if op.op == "LOGISTIC" and any("MUL" in name for name in op.fused)]
    assert len(fused) >= 4


def test_loop_body_is_counted_once_in_a_real_run(tmp_path: Path) -> None:
    g = ModelBuilder()
    shape = (1, 48, 48, 8)
    condition, body = g.subgraph("condition"), g.subgraph("body")
    number = condition.input("count", (1,), "int32")
    condition.input("x", shape)
    condition.output(condition.less(number, condition.constant(np.array([4], dtype=np.int32))))
    number, x = body.input("count", (1,), "int32"), body.input("x", shape)
    body.output(body.add(number, body.constant(np.array([1], dtype=np.int32))))
    body.output(body.conv2d(body.conv2d(x, 8, 3), 8, 3))
    first = g.conv2d(g.input("x", shape), 8, 3)
    _, y = g.while_loop([g.constant(np.array([0], dtype=np.int32)), first], condition, body)
    g.output(g.conv2d(y, 8, 3), "y")
    found = profiled(g.build(), tmp_path, 0.4)
    assert [op.op for op in found.operators] == ["CONV_2D", "WHILE", "CONV_2D"]
    assert {op.mapped for op in found.operators} == {"exact", "engine"}
    assert found.coverage <= 1.01


def test_concatenation_of_many_parts(tmp_path: Path) -> None:
    g = ModelBuilder()
    x = g.input("x", (1, 32, 32, 8))
    parts = [g.conv2d(x, 8, 3) for _ in range(5)]
    g.output(g.conv2d(g.concatenation(parts, 3), 4), "y")
    found = profiled(g.build(), tmp_path, 0.3)
    assert {op.mapped for op in found.operators} == {"exact"}
