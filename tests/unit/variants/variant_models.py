"""Models and samples that the tests of variants share, and a way to run them by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from ai_edge_litert.interpreter import Interpreter
from tests import example_models
from tests.model_builder import ModelBuilder

from hasten.model.build_graph import Spec
from hasten.model.reader import read_graph

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Arrays = dict[str, np.ndarray[Any, Any]]


def float16_weights() -> bytes:
    g = ModelBuilder(weights="float16")
    y = g.conv2d(g.input("x", (1, 8, 8, 3)), 8, 3, activation="relu")
    g.output(g.fully_connected(g.mean(y), 4), "y")
    return g.build()


def int8_weights() -> bytes:
    g = ModelBuilder(weights="int8")
    g.output(g.fully_connected(g.input("x", (1, 64)), 32), "y")
    return g.build()


def embedding() -> bytes:
    """Token ids that look up rows of a table, and a dense layer on them."""
    g = ModelBuilder()
    ids = g.input("ids", (1, 4), "int32")
    table = g.constant(np.random.default_rng(0).standard_normal((50, 8)).astype(np.float32))
    (rows,) = g.operator("GATHER", [table, ids], [Spec((1, 4, 8))], options_type="GatherOptions", axis=0)
    g.output(g.fully_connected(rows, 3), "y")
    return g.build()


def same_names() -> bytes:
    """All layers write tensors of one name, as some converters do."""
    g = ModelBuilder()
    y = g.input("x", (1, 16))
    for _ in range(3):
        weights = g.constant(np.random.default_rng(0).standard_normal((16, 16)).astype(np.float32), name="w")
        options = {"options_type": "FullyConnectedOptions", "keepNumDims": True}
        (y,) = g.operator("FULLY_CONNECTED", [y, weights], [Spec((1, 16))], **options)  # type: ignore[arg-type]
    g.output(y, "y")
    for index, tensor in enumerate(g._record.tensors):
        if index:
            object.__setattr__(tensor, "name", "w" if tensor.data is not None else "layer")
    return g.build()


MODELS: dict[str, Callable[[], bytes]] = {
    "mobilenet": example_models.mobilenet_like,
    "efficientnet": lambda: example_models.efficientnet_like(width=8, blocks=2, size=16),
    "float16_weights": float16_weights,
    "embedding": embedding,
    "same_names": same_names,
    "dynamic_batch": example_models.dynamic_batch,
    "no_signature": example_models.no_signature,
    "old_schema": example_models.old_schema,
    "two_signatures": example_models.two_signatures,
    "accumulator": example_models.accumulator,
    "counting_loop": example_models.counting_loop,
    "branch": example_models.branch,
}


def model_file(folder: Path, name: str) -> Path:
    """The file of one of the models."""
    path = folder / f"{name}.tflite"
    path.write_bytes(MODELS[name]())
    return path


def inputs_of(path: Path, count: int, seed: int = 0, signature: str | None = None) -> list[Arrays]:
    """Seeded samples of a model's inputs, by name."""
    graph, random = read_graph(path), np.random.default_rng(seed)
    entry = graph.signature(signature)
    main = graph.subgraphs[entry.subgraph if entry else 0]
    indices = entry.inputs if entry else {main.tensors[index].name: index for index in main.inputs}
    made = []
    for _ in range(count):
        sample = {}
        for name, index in indices.items():
            tensor = main.tensors[index]
            values: np.ndarray[Any, Any] = random.standard_normal(tensor.shape)
            if tensor.dtype == "bool":
                values = values > 0
            elif tensor.dtype == "int32":
                values = random.integers(0, 50, tensor.shape)
            sample[name] = np.asarray(values).astype(tensor.dtype)
        made.append(sample)
    return made


def answers(path: Path, samples_in_order: list[Arrays], signature: str | None = None) -> list[Arrays]:
    """What a model answers to each sample; a file without a signature is asked by position."""
    interpreter = Interpreter(model_path=str(path))
    if interpreter.get_signature_list():
        runner = interpreter.get_signature_runner(signature or next(iter(interpreter.get_signature_list())))
        return [{name: value.copy() for name, value in runner(**sample).items()} for sample in samples_in_order]
    interpreter.allocate_tensors()
    results = []
    for sample in samples_in_order:
        for detail in interpreter.get_input_details():
            interpreter.set_tensor(detail["index"], sample[detail["name"]])
        interpreter.invoke()
        results.append({d["name"]: interpreter.get_tensor(d["index"]) for d in interpreter.get_output_details()})
    return results


def worst_error(expected: list[Arrays], seen: list[Arrays]) -> float:
    """The largest difference, relative to the largest expected number."""
    pairs = [(e[name].astype(np.float64), s[name]) for e, s in zip(expected, seen, strict=True) for name in e]
    largest = max(np.abs(e).max() for e, _ in pairs)
    return float(max(np.abs(e - s).max() for e, s in pairs) / largest)
