"""Takes out of the biases what rounded weights add to a channel on average.

The rounding errors of weights are fixed: on inputs whose means are not zero they shift a channel's outputs by the
errors times these means, in every run. Depthwise convolutions, with few weights for each channel, suffer most. Taking
the shift out of the bias costs nothing at run time (Nagel et al., "Data-Free Quantization through Weight Equalization
and Bias Correction", 2019).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hasten.model.edit.file import constant_bytes, operator_number

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from hasten.model.graph import Signature

    Floats = NDArray[np.float64]
    Samples = Sequence[Mapping[str, Any]]
    Means = Mapping[tuple[int, int], Floats]
    """The mean of each column of an activation, by its tensor and the number of columns."""

# Means settle with far fewer samples than ranges.
_MOST_SAMPLES: Final = 32
# Of the largest tensor, for all samples together.
_MOST_BYTES: Final = 2**28
LARGEST_BIAS: Final = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Layer:
    """An operator with weights and a bias, as indices of tensors."""

    kind: str
    input: int
    weights: int
    bias: int
    output: int


def few_samples(model: Any, samples: Samples) -> Samples:
    """The first samples: as many as biases are corrected by, and as memory allows."""
    sizes = [
        int(np.prod(np.maximum(tensor.shape, 1)))
        for graph in model.subgraphs
        for tensor in graph.tensors
        if tensor.shape is not None and len(tensor.shape)
    ]
    return samples[: max(1, min(_MOST_SAMPLES, _MOST_BYTES // max(sizes, default=1)))]


def channel_means(model: Any, raw: bytes, entry: Signature, samples: Samples) -> dict[Any, Floats]:
    """Run a model on samples, and return the means that its layers' biases are corrected by: of what each layer reads,
    and of what it gives.

    There are none for another graph than the first, which is the only one whose inner tensors can be read.
    """
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    layers = layers_of(model, 0)
    wanted = {(layer.input, _columns(model, layer)) for layer in layers}
    wanted |= {(layer.output, output_columns(model, 0, layer)) for layer in layers}
    if entry.subgraph != 0 or not wanted:
        return {}
    plain = OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES  # a delegate keeps inner tensors to itself
    interpreter = Interpreter(
        model_content=raw, experimental_preserve_all_tensors=True, experimental_op_resolver_type=plain
    )
    sums = {key: np.zeros(key[1]) for key in wanted}
    for sample in samples:
        for name, index in entry.inputs.items():
            interpreter.resize_tensor_input(index, sample[name].shape)
        interpreter.allocate_tensors()
        interpreter.reset_all_variables()
        for name, index in entry.inputs.items():
            interpreter.set_tensor(index, sample[name])
        interpreter.invoke()
        for index, columns in wanted:
            sums[index, columns] += interpreter.get_tensor(index).reshape(-1, columns).mean(axis=0, dtype=np.float64)
    return {key: total / len(samples) for key, total in sums.items()}


def correct_biases(original: Any, quantized: Any, subgraph: int, means: Means) -> int:
    """Correct the biases of a model quantized to int8, in place; returns of how many layers."""
    tensors, corrected = quantized.subgraphs[subgraph].tensors, 0
    for layer, source in int8_layers(original, quantized, subgraph) if means else ():
        mean = means.get((source.input, _columns(original, source)))
        if mean is None or not np.isfinite(mean).all():
            continue
        errors = real_values(quantized, subgraph, layer.weights) - real_values(original, subgraph, source.weights)
        shift = _shift(layer.kind, errors, mean)
        scales = tensors[layer.input].quantization.scale[0] * np.asarray(tensors[layer.weights].quantization.scale)
        buffer = own_buffer(quantized, tensors[layer.bias])
        values = np.frombuffer(bytes(buffer.data), np.int32) - np.rint(shift / scales)
        buffer.data = np.clip(values, -LARGEST_BIAS, LARGEST_BIAS).astype(np.int32).view(np.uint8)
        corrected += 1
    return corrected


def own_buffer(model: Any, tensor: Any) -> Any:
    """The tensor's buffer; a copy of it where others have the same one, as equal constants are stored once."""
    from ai_edge_litert import schema_py_generated as schema

    if sum(other.buffer == tensor.buffer for subgraph in model.subgraphs for other in subgraph.tensors) > 1:
        copy = schema.BufferT()
        copy.data, copy.offset, copy.size = model.buffers[tensor.buffer].data, 0, 0
        model.buffers.append(copy)
        tensor.buffer = len(model.buffers) - 1
    return model.buffers[tensor.buffer]


def layers_of(model: Any, subgraph: int) -> list[Layer]:
    """Layers with constant weights and bias. Weights or biases that several share are left alone: one correction cannot
    fit all of them."""
    from ai_edge_litert import schema_py_generated as schema

    codes = schema.BuiltinOperator
    kinds = {int(getattr(codes, name)): name for name in ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED")}
    graph = model.subgraphs[subgraph]
    found, uses = [], [index for operator in graph.operators or [] for index in operator.inputs]
    for operator in graph.operators or []:
        kind = kinds.get(operator_number(model.operatorCodes[operator.opcodeIndex]))
        if kind is None or len(operator.inputs) < 3 or min(operator.inputs[:3]) < 0:
            continue
        read, weights, bias = (int(index) for index in operator.inputs[:3])
        layer = Layer(kind, read, weights, bias, int(operator.outputs[0]))
        constants = [constant_bytes(model, graph.tensors[index]) for index in (layer.weights, layer.bias)]
        if all(data is not None for data in constants) and uses.count(layer.weights) == uses.count(layer.bias) == 1:
            found.append(layer)
    return found


def _columns(model: Any, layer: Layer) -> int:
    """How many values of the input a position has: its channels, or what a dense layer takes at once."""
    tensors = model.subgraphs[0].tensors
    shape = tensors[layer.weights if layer.kind == "FULLY_CONNECTED" else layer.input].shape
    return int(shape[-1])


def output_columns(model: Any, subgraph: int, layer: Layer) -> int:
    """How many channels the layer gives."""
    shape = model.subgraphs[subgraph].tensors[layer.weights].shape
    return int(shape[-1] if layer.kind == "DEPTHWISE_CONV_2D" else shape[0])


def int8_layers(original: Any, quantized: Any, subgraph: int) -> list[tuple[Layer, Layer]]:
    """The layers that compute in int8, each with the one of the original that it was made from."""
    before = {layer.weights: layer for layer in layers_of(original, subgraph)}
    tensors = quantized.subgraphs[subgraph].tensors
    layers = [layer for layer in layers_of(quantized, subgraph) if _is_int8(tensors, layer)]
    return [(layer, before[layer.weights]) for layer in layers if layer.weights in before]


def _is_int8(tensors: Any, layer: Layer) -> bool:
    """Whether the layer computes in int8."""
    from ai_edge_litert import schema_py_generated as schema

    types = [tensors[index].type for index in (layer.input, layer.weights, layer.bias)]
    return types == [schema.TensorType.INT8, schema.TensorType.INT8, schema.TensorType.INT32]


def real_values(model: Any, subgraph: int, index: int) -> Floats:
    """Weights, or float biases, as real numbers, whatever they are stored in."""
    from ai_edge_litert import schema_py_generated as schema

    tensor = model.subgraphs[subgraph].tensors[index]
    is_float = tensor.type == schema.TensorType.FLOAT32
    stored = np.frombuffer(bytes(model.buffers[tensor.buffer].data), np.float32 if is_float else np.int8)
    values: Floats = stored.reshape(tensor.shape).astype(np.float64)
    if is_float:
        return values
    shape = [1] * values.ndim
    shape[tensor.quantization.quantizedDimension if len(tensor.quantization.scale) > 1 else 0] = -1
    scaled: Floats = values * np.asarray(tensor.quantization.scale, np.float64).reshape(shape)
    return scaled


def _shift(kind: str, errors: Floats, mean: Floats) -> Floats:
    """What the errors of the weights add to each output channel on average."""
    if kind == "DEPTHWISE_CONV_2D":
        of_channel: Floats = errors.sum(axis=(0, 1, 2)) * np.repeat(mean, errors.shape[-1] // len(mean))
        return of_channel
    errors = errors.reshape(len(errors), -1, errors.shape[-1]).sum(axis=1)
    # A grouped convolution reads a part of the channels for each part of its outputs.
    groups = mean.reshape(-1, errors.shape[1])
    shift: Floats = (errors * np.repeat(groups, len(errors) // len(groups), axis=0)).sum(axis=1)
    return shift
