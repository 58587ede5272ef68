"""Bundles of sample models, for tests of generated code."""

from __future__ import annotations

from typing import TYPE_CHECKING

import hasten
from hasten.bundle.code import code_files
from hasten.bundle.folder import write_bundle, write_texts
from hasten.bundle.record import Bundle, BundleTensor
from hasten.core.plan import Plan, Workload

if TYPE_CHECKING:
    from pathlib import Path

    from hasten.deploy.buffers import Buffers


def bundle_of(folder: Path, content: bytes, plan: Plan = Plan(), workload: Workload = Workload()) -> Bundle:
    """Write a bundle with its code into a folder; the CPU says what the inputs and outputs are."""
    model = folder / "some.tflite"
    model.write_bytes(content)
    with hasten.Runner(model, Plan(kernels=plan.kernels), workload) as runner:
        inputs, outputs = _tensors(runner.inputs), _tensors(runner.outputs)
    bundle = Bundle(folder / "out", plan=plan, workload=workload, inputs=inputs, outputs=outputs)
    bundle = write_bundle(model, bundle)
    write_texts(bundle.folder, code_files(bundle))
    return bundle


def _tensors(buffers: Buffers) -> tuple[BundleTensor, ...]:
    return tuple(
        BundleTensor(buffer.name, buffer.dtype, tuple(buffer.array.shape), buffer.scale, buffer.zero_point)
        for buffer in buffers.all()
    )
