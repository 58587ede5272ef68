"""Biases corrected layer by layer: each quantized layer's channels get the means that they have in the original.

Rounded weights are not all that shifts a channel: clipped ranges do, and every layer before it. So the layers are taken
in their order, each runs on what the corrected ones before it really give, and its bias moves by what its outputs are
off on average (Nagel et al., "Data-Free Quantization through Weight Equalization and Bias Correction", 2019, section
4.2 and appendix D). They compare values before the activation, which is inside of the operator here: what is off after
it is divided by the share of outputs that the activation does not cut off, and the step is tried before it is kept. One
pass over the graph is enough: every operator is cut out as a model of its own, whose inputs are what the operators
before it gave, and runs at most three times.
"""

from __future__ import annotations

import os
from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hasten.model.build_bytes import ELEMENT_TYPES, serialized
from hasten.model.edit.file import constant_bytes, indices_in, operator_number
from hasten.variants.bias_correction import LARGEST_BIAS, Layer, int8_layers, output_columns, own_buffer
from hasten.variants.quantizer import MOST_THREADS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from hasten.model.graph import Signature
    from hasten.variants.bias_correction import Means

    Array = NDArray[Any]
    Floats = NDArray[np.float64]
    Values = dict[int, list[Array]]
    """What each tensor holds, sample by sample."""

_STEPS: Final = 2
# A channel whose outputs are nearly all clipped moves little by its bias; a step is at most so many times its error.
_LEAST_INSIDE: Final = 0.25
# Operators that need more than their inputs: other graphs, or what an earlier run left behind.
_NOT_ALONE: Final = (
    *("WHILE", "IF", "CALL", "CALL_ONCE", "VAR_HANDLE", "READ_VARIABLE", "ASSIGN_VARIABLE"),
    *("STABLEHLO_COMPOSITE", "STABLEHLO_WHILE", "HASHTABLE", "HASHTABLE_FIND", "HASHTABLE_IMPORT"),
)
# What LiteRT raises for a model that it cannot load or run.
_ENGINE_ERRORS: Final = (ValueError, RuntimeError)


def correct_in_order(
    original: Any, quantized: Any, entry: Signature, means: Means, samples: Sequence[Mapping[str, Any]]
) -> int:
    """Correct the biases of a model quantized to int8, in place; returns of how many layers.

    `means` are those of the original on these samples. From an operator on that cannot run alone, nothing is corrected.
    """
    if not means or not samples:
        return 0
    return _Pass(original, quantized, entry, means).run(samples)


class _Pass:
    """One pass over a quantized graph."""

    def __init__(self, original: Any, quantized: Any, entry: Signature, means: Means) -> None:
        self._model, self._means, self._entry = quantized, means, entry
        self._graph = quantized.subgraphs[entry.subgraph]
        self._inputs = dict(zip(map(int, original.subgraphs[entry.subgraph].inputs), self._graph.inputs, strict=True))
        self._layers: dict[int, tuple[Layer, Layer, int]] = {}
        """By output: the layer, the one that it was made from, and how many channels that has."""
        for layer, source in int8_layers(original, quantized, entry.subgraph):
            self._layers[layer.output] = (layer, source, output_columns(original, entry.subgraph, source))

    def run(self, samples: Sequence[Mapping[str, Any]]) -> int:
        """All operators in their order, as long as there are layers left to correct."""
        values: Values = {int(index): [] for index in self._graph.inputs}
        for sample in samples:
            for name, index in self._entry.inputs.items():
                place = int(self._inputs[index])
                values[place].append(_stored(sample[name], self._graph.tensors[place]))
        corrected, waiting = 0, set(self._layers)
        uses = self._last_uses()
        for at, operator in enumerate(self._graph.operators or []):
            if not waiting:
                break
            try:
                outputs = _Island(self._model, self._graph, operator).run(values, len(samples))
            except _CannotRun:
                break
            layer = next((self._layers[index] for index in outputs if index in self._layers), None)
            if layer is not None:
                waiting.discard(layer[0].output)
                outputs, moved = self._corrected(operator, layer, values, outputs)
                corrected += moved
            values.update(outputs)
            for index in [index for index in values if uses.get(index, -1) <= at]:
                del values[index]
        return corrected

    def _corrected(
        self, operator: Any, known: tuple[Layer, Layer, int], values: Values, outputs: Values
    ) -> tuple[Values, bool]:
        """The outputs of a layer with its bias corrected, and whether there was something to correct by."""
        layer, source, columns = known
        wanted = self._means.get((source.output, columns))
        if wanted is None or not np.isfinite(wanted).all():
            return outputs, False
        tensors = self._graph.tensors
        buffer = own_buffer(self._model, tensors[layer.bias])
        scales = tensors[layer.input].quantization.scale[0] * np.asarray(tensors[layer.weights].quantization.scale)
        bias = np.frombuffer(bytes(buffer.data), np.int32).astype(np.int64)
        found = outputs[layer.output]
        clip = _clip(tensors[layer.output], operator)
        error = wanted - _channel_means(found, tensors[layer.output], columns)
        for _ in range(_STEPS):
            step = np.rint(error / (np.maximum(_inside(found, clip, columns), _LEAST_INSIDE) * scales))
            tried = np.clip(bias + step.astype(np.int64), -LARGEST_BIAS, LARGEST_BIAS)
            if np.array_equal(tried, bias):
                break
            buffer.data = tried.astype(np.int32).view(np.uint8)
            moved = _Island(self._model, self._graph, operator).run(values, len(found))[layer.output]
            left = wanted - _channel_means(moved, tensors[layer.output], columns)
            better = np.abs(left) < np.abs(error)
            if not better.any():
                break
            # A bias moves its own channel only, so that each channel keeps the better of the two.
            bias, error = np.where(better, tried, bias), np.where(better, left, error)
            found = [np.where(better, new, old) for new, old in zip(moved, found, strict=True)]
        buffer.data = bias.astype(np.int32).view(np.uint8)
        return {**outputs, layer.output: found}, True

    def _last_uses(self) -> dict[int, int]:
        """The last operator that reads each tensor: what no other will read need not be kept."""
        operators = enumerate(self._graph.operators or [])
        return {index: at for at, operator in operators for index in indices_in(operator.inputs)}


class _CannotRun(Exception):
    """The operator does not run alone."""


@dataclass(slots=True)
class _Island:
    """One operator as a model of its own: what is computed before it are inputs, constants stay inside."""

    model: Any
    graph: Any
    operator: Any

    def run(self, values: Values, samples: int) -> Values:
        """The outputs for each sample."""
        from ai_edge_litert.interpreter import Interpreter

        fed = self._fed(values)
        names = indices_in(self.operator.outputs)
        found: Values = {name: [] for name in names}
        try:
            rows: list[tuple[Array, ...]] = list(zip(*fed.values(), strict=True)) if fed else [()]
            interpreter = Interpreter(
                model_content=self._file(list(fed)), num_threads=min(MOST_THREADS, os.cpu_count() or 1)
            )
            places = [detail["index"] for detail in interpreter.get_input_details()]
            results = [detail["index"] for detail in interpreter.get_output_details()]
            shapes: list[tuple[int, ...]] | None = None
            for row in rows:
                if [array.shape for array in row] != shapes:
                    shapes = [array.shape for array in row]
                    for place, shape in zip(places, shapes, strict=True):
                        interpreter.resize_tensor_input(place, shape)
                    interpreter.allocate_tensors()
                for place, array in zip(places, row, strict=True):
                    interpreter.set_tensor(place, array)
                interpreter.invoke()
                for name, result in zip(names, results, strict=True):
                    found[name].append(interpreter.get_tensor(result))
        except _ENGINE_ERRORS as error:
            raise _CannotRun from error
        # What reads constants only gives the same for every sample.
        return found if fed else {name: outputs * samples for name, outputs in found.items()}

    def _fed(self, values: Values) -> Values:
        from ai_edge_litert import schema_py_generated as schema

        number = operator_number(self.model.operatorCodes[self.operator.opcodeIndex])
        if number in [getattr(schema.BuiltinOperator, name, -1) for name in _NOT_ALONE]:
            raise _CannotRun
        computed = [index for index in dict.fromkeys(indices_in(self.operator.inputs)) if self._is_computed(index)]
        if not indices_in(self.operator.outputs) or any(index not in values for index in computed):
            raise _CannotRun
        return {index: values[index] for index in computed}

    def _is_computed(self, index: int) -> bool:
        if index < 0:
            return False
        tensor = self.graph.tensors[index]
        if tensor.isVariable:
            raise _CannotRun
        return constant_bytes(self.model, tensor) is None

    def _file(self, computed: Sequence[int]) -> bytes:
        from ai_edge_litert import schema_py_generated as schema

        inputs, outputs = indices_in(self.operator.inputs), indices_in(self.operator.outputs)
        used = list(dict.fromkeys(index for index in (*inputs, *outputs) if index >= 0))
        places = {index: place for place, index in enumerate(used)}
        buffers, tensors = [schema.BufferT()], []
        for index in used:
            tensor = copy(self.graph.tensors[index])
            data = constant_bytes(self.model, tensor)
            tensor.buffer = 0
            if data is not None:
                buffers.append(schema.BufferT(data=data))
                tensor.buffer = len(buffers) - 1
            tensors.append(tensor)
        operator = copy(self.operator)
        operator.opcodeIndex, operator.intermediates, operator.mutatingVariableInputs = 0, None, None
        operator.inputs, operator.outputs = ([places.get(index, -1) for index in ends] for ends in (inputs, outputs))
        subgraph = schema.SubGraphT(
            name="island",
            tensors=tensors,
            inputs=[places[index] for index in computed],
            outputs=operator.outputs,
            operators=[operator],
        )
        code = copy(self.model.operatorCodes[self.operator.opcodeIndex])
        return serialized(
            schema.ModelT(version=3, description="", subgraphs=[subgraph], operatorCodes=[code], buffers=buffers)
        )


def _stored(values: Array, tensor: Any) -> Array:
    """A sample as the quantized model takes it: as it is, or by the scale of an input of integers."""
    dtype = np.dtype(ELEMENT_TYPES[tensor.type])
    if dtype.kind == "f" or tensor.quantization is None or tensor.quantization.scale is None:
        return np.asarray(values, dtype)
    limits = np.iinfo(dtype)
    stored = np.rint(values / tensor.quantization.scale[0] + tensor.quantization.zeroPoint[0])
    return np.asarray(np.clip(stored, limits.min, limits.max), dtype)


def _channel_means(rows: Sequence[Array], tensor: Any, columns: int) -> Floats:
    scale, zero = float(tensor.quantization.scale[0]), int(tensor.quantization.zeroPoint[0])
    means = [row.reshape(-1, columns).mean(axis=0, dtype=np.float64) for row in rows]
    found: Floats = (np.mean(means, axis=0) - zero) * scale
    return found


def _clip(tensor: Any, operator: Any) -> tuple[float, float]:
    """The stored numbers at which outputs are cut off: by the type, or by an activation inside of the layer."""
    from ai_edge_litert import schema_py_generated as schema

    kinds = schema.ActivationFunctionType
    scale, zero = float(tensor.quantization.scale[0]), int(tensor.quantization.zeroPoint[0])
    fused = getattr(operator.builtinOptions, "fusedActivationFunction", kinds.NONE)
    low, high = -128.0, 127.0
    if fused in (kinds.RELU, kinds.RELU6):
        low = max(low, float(zero))
    if fused == kinds.RELU6:
        high = min(high, zero + 6 / scale)
    if fused == kinds.RELU_N1_TO_1:
        low, high = max(low, zero - 1 / scale), min(high, zero + 1 / scale)
    return low, high


def _inside(rows: Sequence[Array], clip: tuple[float, float], columns: int) -> Floats:
    """The share of each channel's outputs that is not cut off: only those move with the bias."""
    flat = [row.reshape(-1, columns) for row in rows]
    found: Floats = np.mean([((row > clip[0]) & (row < clip[1])).mean(axis=0) for row in flat], axis=0)
    return found
