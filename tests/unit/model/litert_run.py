"""Running a model of bytes in LiteRT's Interpreter, for tests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from ai_edge_litert.interpreter import Interpreter

from hasten.model.build_graph import INT8_MAX, INT8_MIN

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]


def inputs_for(details: list[dict[str, Any]], seed: int = 1) -> list[Array]:
    random = np.random.default_rng(seed)
    arrays: list[Array] = []
    for detail in details:
        real = random.standard_normal(detail["shape"])
        if detail["dtype"] == np.int8 and detail["quantization"][0]:
            scale, zero_point = detail["quantization"]
            real = np.clip(np.rint(real / scale + zero_point), INT8_MIN, INT8_MAX)
        arrays.append(np.asarray(real > 0 if detail["dtype"] == np.bool_ else real).astype(detail["dtype"]))
    return arrays


def loaded(model: bytes) -> Any:
    interpreter = Interpreter(model_content=model)
    interpreter.allocate_tensors()
    return interpreter


def invoke(interpreter: Any, arrays: list[Array]) -> list[Array]:
    for detail, array in zip(interpreter.get_input_details(), arrays, strict=True):
        interpreter.set_tensor(detail["index"], array)
    interpreter.invoke()
    return [interpreter.get_tensor(detail["index"]) for detail in interpreter.get_output_details()]


def run(model: bytes) -> tuple[list[Array], list[Array]]:
    """Run on seeded input; return inputs and outputs."""
    interpreter = loaded(model)
    arrays = inputs_for(interpreter.get_input_details())
    return arrays, invoke(interpreter, arrays)
