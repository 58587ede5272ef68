"""A model that static int8 breaks by construction: the embedded one, with channels of very different ranges.

Where a layer's output goes through ReLU into a depthwise or 1x1 convolution and nowhere else, each of its channels can
be made larger, and the weights that read it smaller by as much: floats compute the same, and one scale for all channels
of an activation leaves nothing of the small ones. The embedded model's ReLU6 becomes ReLU for that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from hasten import demo
from hasten.model.edit.file import operator_number, read_object, write_object

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray


def plant(path: Path, octaves: float, seed: int = 0) -> int:
    """Write the model; ranges of channels differ by up to so many powers of two. Returns at how many places."""
    from ai_edge_litert import schema_py_generated as schema

    model = read_object(demo.MODEL)
    main, source = model.subgraphs[0], np.random.default_rng(seed)
    conv, depthwise = int(schema.BuiltinOperator.CONV_2D), int(schema.BuiltinOperator.DEPTHWISE_CONV_2D)
    places = 0
    for writer in main.operators:
        kind = operator_number(model.operatorCodes[writer.opcodeIndex])
        readers = [other for other in main.operators if writer.outputs[0] in other.inputs]
        if kind not in (conv, depthwise) or len(readers) != 1:
            continue
        reader_kind = operator_number(model.operatorCodes[readers[0].opcodeIndex])
        options = writer.builtinOptions
        clipped = options.fusedActivationFunction == schema.ActivationFunctionType.RELU6
        if not clipped or reader_kind not in (conv, depthwise):
            continue
        options.fusedActivationFunction = schema.ActivationFunctionType.RELU
        channels = int(main.tensors[writer.outputs[0]].shape[-1])
        factors = np.exp2(source.uniform(0, octaves, channels)).astype(np.float32)
        # Output channels come first in a convolution and last in a depthwise one; inputs are last in both.
        _scale(model, main.tensors[writer.inputs[1]], factors, axis=0 if kind == conv else -1)
        _scale(model, main.tensors[writer.inputs[2]], factors, axis=0)
        _scale(model, main.tensors[readers[0].inputs[1]], np.reciprocal(factors), axis=-1)
        places += 1
    write_object(model, path, demo.MODEL)
    return places


def _scale(model: Any, tensor: Any, factors: NDArray[np.float32], axis: int) -> None:
    buffer = model.buffers[tensor.buffer]
    values = np.frombuffer(bytes(buffer.data), np.float32).reshape(tensor.shape)
    shape = [1] * values.ndim
    shape[axis] = -1
    buffer.data = np.ascontiguousarray(values * factors.reshape(shape), np.float32).reshape(-1).view(np.uint8)
