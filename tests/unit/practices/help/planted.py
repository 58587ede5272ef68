"""Models with one planted fault each, and clean ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema

from hasten.model.build_graph import Spec
from hasten.model.edit.file import bytes_from_object, object_from_bytes
from tests import example_models
from tests.model_builder import ModelBuilder

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from hasten.model.build_graph import Value

NODES = 60
BAD = 37
"""Where the bad operator of a chain stands."""


def written(folder: Path, data: bytes, name: str = "m.tflite") -> Path:
    path = folder / name
    path.write_bytes(data)
    return path


def changed(data: bytes, change: Callable[[Any], None]) -> bytes:
    """The model after a change of its schema objects."""
    model = object_from_bytes(data)
    change(model)
    return bytes_from_object(model)


# -- clean models


def described(data: bytes) -> bytes:
    """The model with metadata that has an entry for each input and output."""

    def describe(model: Any) -> None:
        main = model.subgraphs[0]
        content = _metadata(len(main.inputs), len(main.outputs))
        model.buffers.append(schema.BufferT(data=np.frombuffer(content, np.uint8)))
        model.metadata = [schema.MetadataT(name="TFLITE_METADATA", buffer=len(model.buffers) - 1)]

    return changed(data, describe)


def _metadata(inputs: int, outputs: int) -> bytes:
    """The tables of the metadata schema: model (3: subgraphs), subgraph (2: inputs, 3: outputs), tensor (0: name)."""
    builder = flatbuffers.Builder(256)

    def table(offsets: dict[int, int]) -> int:
        builder.StartObject(8)
        for slot, offset in offsets.items():
            builder.PrependUOffsetTRelativeSlot(slot, offset, 0)
        return int(builder.EndObject())

    def listed(tables: list[int]) -> int:
        builder.StartVector(4, len(tables), 4)
        for one in reversed(tables):
            builder.PrependUOffsetTRelative(one)
        return int(builder.EndVector())

    def tensors(count: int) -> int:
        return listed([table({0: builder.CreateString(f"t{number}")}) for number in range(count)])

    ins, outs = tensors(inputs), tensors(outputs)
    subgraphs = listed([table({2: ins, 3: outs})])
    builder.Finish(table({3: subgraphs}), file_identifier=b"M001")
    return bytes(builder.Output())


def clean() -> dict[str, bytes]:
    """Sound float networks with a signature and metadata."""
    return {
        "mobilenet": described(example_models.mobilenet_like()),
        "efficientnet": described(example_models.efficientnet_like()),
        "matmul": described(example_models.matmul_chain(rows=4, units=32, layers=3)),
    }


# -- chains with one bad operator


def slow_chain(nodes: int = NODES, bad: int = BAD) -> bytes:
    """Small operators, and a convolution of 225 taps that takes nearly all of the time."""

    def draw(g: ModelBuilder, y: Value, place: int) -> Value:
        return g.conv2d(y, y.shape[-1], 15) if place == bad else _small(g, y, place)

    return _chain(nodes, (1, 24, 24, 8), draw)


def wrong_chain(factor: float, nodes: int = NODES, bad: int = BAD) -> bytes:
    """Sums that keep what they are given, and one product: another factor is another answer."""

    def draw(g: ModelBuilder, y: Value, place: int) -> Value:
        if place == bad:
            return g.mul(y, g.constant(np.full((1, 1, 1, 1), factor, np.float32)))
        return g.add(y, g.constant(np.full((1, 1, 1, 1), 0.01 * place, np.float32)))

    return _chain(nodes, (1, 8, 8, 4), draw)


def crashing_chain(nodes: int = NODES, bad: int = BAD) -> bytes:
    """Sums of floats, and between two casts a sum of 8-bit integers without a scale, which ends the process."""

    def draw(g: ModelBuilder, y: Value, place: int) -> Value:
        if place == bad - 1:
            return g.cast(y, "int8")
        if place == bad:
            (total,) = g.operator("ADD", [y, y], [Spec(y.shape, "int8")], options_type="AddOptions")
            return total
        return g.cast(y, "float32") if place == bad + 1 else _small(g, y, place)

    return _chain(nodes, (1, 4, 4, 4), draw)


def _small(g: ModelBuilder, y: Value, place: int) -> Value:
    return g.add(y, y) if place % 3 == 0 else g.relu6(y) if place % 3 == 1 else g.tanh(y)


def _chain(nodes: int, shape: tuple[int, ...], draw: Callable[[ModelBuilder, Value, int], Value]) -> bytes:
    g = ModelBuilder()
    y = g.input("x", shape)
    for place in range(nodes):
        y = draw(g, y, place)
    g.output(y, "y")
    return g.build()
