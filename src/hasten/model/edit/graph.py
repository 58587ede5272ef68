"""One graph of a model that can be changed: questions about tensors and operators, and the few ways to change them.

Operators are schema objects (`OperatorT`) in execution order, tensors are indices. Indices stay what they are until
`clean`. Every change goes through the methods here, which keep readers, producers and signatures right.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hasten.core.errors import ModelError
from hasten.model.build_bytes import ELEMENT_TYPES
from hasten.model.edit.file import constant_bytes, indices_in, text
from hasten.model.graph import STATE_OPERATORS
from hasten.model.reader import NO_TENSOR

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from hasten.model.edit.parts import Parts
    from hasten.model.graph import Shape

    Array = np.ndarray[Any, Any]
    Kind = tuple[str, Shape, Shape, tuple[tuple[float, ...], ...]]
    """Element type, shape, open dimensions, quantization."""
    Operator = Any
    """The schema's `OperatorT`; `nodes` are the indices in the file of what it came from."""

_UNSOUND_HINT: Final = "If the original model runs, this is a fault of hasten: report it with the model."
# Types whose stored bytes are an array of numpy's.
_ARRAY_DTYPES: Final = frozenset(
    {
        *("float16", "float32", "float64", "complex64", "bool"),
        *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    }
)
# Removing one of these could change more than its outputs.
_EFFECTS: Final = STATE_OPERATORS | {"CALL_ONCE", "CUSTOM", "HASHTABLE_IMPORT", "WHILE", "IF", "CALL", "DELEGATE"}


@dataclass(frozen=True, slots=True)
class Options:
    """The options of an operator: a table of the schema, and its fields."""

    table: str
    fields: Mapping[str, Any]


def options(table: str, **fields: Any) -> Options:
    """Options by the schema's own names: `options("GeluOptions", approximate=True)`."""
    return Options(table, fields)


class _Links:
    """Who writes each tensor, and who reads it, by identity. To gather that anew at each change would take seconds."""

    def __init__(self, operators: Iterable[Operator]) -> None:
        self.producers: dict[int, Operator] = {}
        self.readers: dict[int, dict[int, Operator]] = {}
        for operator in operators:
            self.add(operator)

    def add(self, operator: Operator) -> None:
        for index in operator.inputs:
            self.readers.setdefault(index, {})[id(operator)] = operator
        self.producers.update(dict.fromkeys((index for index in operator.outputs if index != NO_TENSOR), operator))

    def drop(self, operator: Operator) -> None:
        for index in operator.inputs:
            self.readers.get(index, {}).pop(id(operator), None)
        for index in operator.outputs:
            # Another one may write it by now, in this one's place.
            if self.producers.get(index) is operator:
                del self.producers[index]


class EditedGraph:
    """A subgraph (`record` is the `SubGraphT`) of a model that is being changed."""

    def __init__(self, parts: Parts, index: int) -> None:
        self.parts, self.index = parts, index
        self.record = parts.record.subgraphs[index]
        self.record.inputs, self.record.outputs = indices_in(self.record.inputs), indices_in(self.record.outputs)
        self.record.operators = list(self.record.operators or [])
        self.record.tensors = list(self.record.tensors or [])
        for place, operator in enumerate(self.record.operators):
            operator.inputs, operator.outputs = indices_in(operator.inputs), indices_in(operator.outputs)
            operator.nodes = (place,)
        for tensor in self.record.tensors:
            # Plain numbers: shapes are asked for more often than anything else.
            tensor.shape, tensor.shapeSignature = _sizes(tensor.shape), _sizes(tensor.shapeSignature)
        self._links = _Links(self.operators)
        self._names = {text(tensor.name) for tensor in self.record.tensors}
        self._numbers: dict[str, int] = {}

    # -- asking

    @property
    def operators(self) -> list[Operator]:
        """All operators in execution order."""
        found: list[Operator] = self.record.operators
        return found

    @property
    def inputs(self) -> list[int]:
        """The tensors that a caller fills."""
        found: list[int] = self.record.inputs
        return found

    @property
    def outputs(self) -> list[int]:
        """The tensors that a caller reads."""
        found: list[int] = self.record.outputs
        return found

    def op(self, operator: Operator) -> str:
        """The name of an operator: `CONV_2D`."""
        return self.parts.operator_name(int(operator.opcodeIndex))

    def is_op(self, operator: Operator | None, *names: str) -> bool:
        """Whether there is an operator, and it is one of these kinds."""
        return operator is not None and self.op(operator) in names

    def option(self, operator: Operator, name: str, default: Any = 0) -> Any:
        """An option by the schema's name; the default where the operator has no options."""
        return getattr(operator.builtinOptions, name, default)

    def tensor(self, index: int) -> Any:
        """The schema's `TensorT`."""
        return self.record.tensors[index]

    def name(self, index: int) -> str:
        """The name of a tensor."""
        return text(self.tensor(index).name)

    def shape(self, index: int) -> Shape:
        """The shape as declared: what the engine starts with."""
        return tuple(self.tensor(index).shape or ())

    def sizes(self, index: int) -> Shape:
        """The shape with -1 for every dimension that is open until the model runs."""
        return tuple(self.tensor(index).shapeSignature or ()) or self.shape(index)

    def is_fixed(self, index: int) -> bool:
        """Whether the shape is known before the model runs."""
        return self.has_known_rank(index) and -1 not in self.sizes(index) and -1 not in self.shape(index)

    def has_known_rank(self, index: int) -> bool:
        """Whether the number of dimensions is known: a file may say so even of a tensor that has none."""
        return bool(self.shape(index)) or bool(self.tensor(index).hasRank) or self.is_constant(index)

    def dtype(self, index: int) -> str:
        """The element type: `float32`."""
        return ELEMENT_TYPES[int(self.tensor(index).type)]

    def kind(self, index: int) -> Kind:
        """All that is declared about a tensor's values: two of one kind can stand for each other."""
        tensor = self.tensor(index)
        opened = tuple(tensor.shapeSignature or ())
        scales: tuple[tuple[float, ...], ...] = ()
        if self.is_quantized(index):
            parameters = tensor.quantization
            points = () if parameters.zeroPoint is None else tuple(parameters.zeroPoint)
            scales = (tuple(parameters.scale), points, (parameters.quantizedDimension,))
        return (self.dtype(index), self.shape(index), opened, scales)

    def is_quantized(self, index: int) -> bool:
        """Whether stored numbers stand for others by scale and zero point."""
        parameters = self.tensor(index).quantization
        return parameters is not None and parameters.scale is not None and len(parameters.scale) > 0

    def are_stored_alike(self, *tensors: int) -> bool:
        """Whether the same stored number means the same value in all of them, wherever it stands in a tensor."""
        kinds = {(kind[0], kind[3]) for kind in map(self.kind, tensors)}
        return len(kinds) == 1 and all(len(scales[0]) == 1 for _, scales in kinds if scales)

    def is_constant(self, index: int) -> bool:
        """Whether the file holds its values."""
        if index == NO_TENSOR:
            return False
        tensor = self.tensor(index)
        return constant_bytes(self.parts.record, tensor) is not None or tensor.externalBuffer > 0

    def constant(self, index: int) -> Array | None:
        """The values of a constant as they are stored; None where it is no constant, or numpy has no such array."""
        if index == NO_TENSOR or self.dtype(index) not in _ARRAY_DTYPES:
            return None
        tensor = self.tensor(index)
        raw = constant_bytes(self.parts.record, tensor)
        if raw is None or tensor.sparsity is not None:
            return None
        dtype, shape = np.dtype(self.dtype(index)).newbyteorder("<"), self.shape(index)
        fits = raw.size == dtype.itemsize * prod(shape)
        values: Array | None = np.frombuffer(raw, dtype).reshape(shape) if fits else None
        return values

    def producer(self, index: int) -> Operator | None:
        """The operator that writes a tensor; None for inputs, constants and a missing input."""
        return self._links.producers.get(index)

    def is_filled(self, index: int) -> bool:
        """Whether a tensor gets its values when the model runs."""
        return index in self.inputs or self.producer(index) is not None

    def readers(self, index: int) -> list[Operator]:
        """The operators that read a tensor, in their order; each once."""
        found = self._links.readers.get(index, {})
        return list(found.values()) if len(found) < 2 else [one for one in self.operators if id(one) in found]

    def only_reader(self, index: int) -> Operator | None:
        """The one operator that reads a tensor, if nothing else does: neither a second one nor the caller."""
        found = self._links.readers.get(index, {})
        return next(iter(found.values())) if len(found) == 1 and index not in self.outputs else None

    def is_read_only_by(self, index: int, operator: Operator) -> bool:
        """Whether nothing but this operator reads a tensor."""
        return self.only_reader(index) is operator

    # -- changing

    def add_constant(self, values: Array, name: str, like: int | None = None) -> int:
        """Add a constant; quantized as `like` is, where that is given."""
        parts = self.parts
        quantization = None if like is None else deepcopy(self.tensor(like).quantization)
        return self._add(
            parts.schema.TensorT(
                name=self._new_name(name),
                shape=list(values.shape),
                type=ELEMENT_TYPES.index(values.dtype.name),
                buffer=parts.add_buffer(_stored(values)),
                quantization=quantization,
                hasRank=True,
            )
        )

    def add_tensor(self, shape: Sequence[int], like: int, name: str = "") -> int:
        """Add a tensor for an operator to write: of type and quantization of another, with a shape of its own.

        The first dimension stays open where it is open in `like`.
        """
        source = self.tensor(like)
        opened = self.sizes(like)[:1] == (-1,)
        return self._add(
            self.parts.schema.TensorT(
                name=self._new_name(name or self.name(like)),
                shape=[int(size) for size in shape],
                shapeSignature=[-1, *(int(size) for size in shape[1:])] if opened and len(shape) else None,
                type=source.type,
                quantization=deepcopy(source.quantization),
                hasRank=True,
            )
        )

    def add_transposed(self, like: int, order: Sequence[int]) -> int:
        """Add a tensor for an operator to write: all that another one is, with its dimensions in another order."""
        made = deepcopy(self.tensor(like))
        made.name = self._new_name(self.name(like))
        index = self._add(made)
        self.transpose_tensor(index, order)
        return index

    def insert(
        self,
        op: str,
        inputs: Sequence[int],
        outputs: Sequence[int],
        *,
        before: Operator | None,
        chosen: Options | None = None,
        version: int = 1,
    ) -> Operator:
        """Put a new operator before another one, from whose nodes it counts as made; None puts it at the end."""
        made = self.parts.schema.OperatorT(inputs=[], outputs=list(outputs))
        self.turn_into(made, op, inputs, chosen=chosen, version=version)
        return self._put(made, before, () if before is None else before.nodes)

    def insert_custom(
        self, name: str, inputs: Sequence[int], outputs: Sequence[int], *, before: Operator, data: bytes = b""
    ) -> Operator:
        """Put a custom operator before another one; `data` is what its kernel gets when it is made."""
        made = self.parts.schema.OperatorT(
            opcodeIndex=self.parts.operator_code("CUSTOM", 1, name), inputs=list(inputs), outputs=list(outputs)
        )
        if data:
            made.customOptions = np.frombuffer(data, np.uint8)
        return self._put(made, before, before.nodes)

    def insert_copy(
        self, operator: Operator, inputs: Sequence[int], outputs: Sequence[int], *, before: Operator
    ) -> Operator:
        """Put a copy of an operator, with its options, before another one."""
        made = deepcopy(operator)
        made.inputs, made.outputs = list(inputs), list(outputs)
        return self._put(made, before, operator.nodes)

    def turn_into(
        self, operator: Operator, op: str, inputs: Sequence[int], *, chosen: Options | None = None, version: int = 1
    ) -> None:
        """Make another kind of operator of one; its outputs and its place stay."""
        schema = self.parts.schema
        operator.opcodeIndex = self.parts.operator_code(op, version)
        self.set_inputs(operator, inputs)
        operator.builtinOptionsType, operator.builtinOptions = 0, None
        operator.builtinOptions2Type, operator.builtinOptions2 = 0, None
        if chosen is not None:
            operator.builtinOptionsType = getattr(schema.BuiltinOptions, chosen.table)
            operator.builtinOptions = getattr(schema, chosen.table + "T")(**chosen.fields)

    def set_input(self, operator: Operator, place: int, tensor: int) -> None:
        """Let an operator read another tensor; at the place behind its last one, it is one more."""
        self.set_inputs(operator, [*operator.inputs[:place], tensor, *operator.inputs[place + 1 :]])

    def set_inputs(self, operator: Operator, tensors: Sequence[int]) -> None:
        """Let an operator read other tensors, however many."""
        self._links.drop(operator)
        operator.inputs = list(tensors)
        self._links.add(operator)

    def set_output(self, operator: Operator, place: int, tensor: int) -> None:
        """Let an operator write another tensor."""
        self._links.drop(operator)
        operator.outputs[place] = tensor
        self._links.add(operator)

    def transpose_tensor(self, index: int, order: Sequence[int]) -> None:
        """Declare the dimensions of a tensor in another order, those that are open and the quantized one included."""
        tensor = self.tensor(index)
        for field in ("shape", "shapeSignature"):
            sizes = getattr(tensor, field)
            if sizes is not None and len(sizes) == len(order):
                setattr(tensor, field, [sizes[axis] for axis in order])
        if self.is_quantized(index) and len(tensor.quantization.scale) > 1:
            tensor.quantization.quantizedDimension = order.index(tensor.quantization.quantizedDimension)

    def make_constant(self, index: int, values: Array) -> None:
        """Let a tensor hold values in the file; take out the operator that computes them."""
        tensor = self.tensor(index)
        tensor.buffer = self.parts.add_buffer(_stored(values))
        tensor.shape, tensor.shapeSignature, tensor.hasRank = list(values.shape), None, True

    def remove(self, *operators: Operator) -> None:
        """Take operators out. Whoever reads their outputs must have been given others."""
        gone = {id(operator) for operator in operators}
        self.record.operators = [operator for operator in self.operators if id(operator) not in gone]
        for operator in operators:
            self._links.drop(operator)

    def let_read(self, old: int, new: int) -> None:
        """Let all operators that read one tensor read another; outputs of the graph stay."""
        for operator in self.readers(old):
            self.set_inputs(operator, [new if index == old else index for index in operator.inputs])

    def take_out(self, operator: Operator, source: int) -> bool:
        """Take out an operator whose only output equals the tensor `source`, which all then read in its place.

        An output of the graph keeps its tensor, and with it name and signature: the producer of `source` writes it
        then. False, and nothing done, where it cannot: an input or a constant is no output.
        """
        (result,) = operator.outputs
        if result not in self.outputs:
            self.remove(operator)
            self.let_read(result, source)
            return True
        writer = self.producer(source)
        if writer is None or source in self.outputs or self.kind(source) != self.kind(result):
            return False
        self.remove(operator)
        self.let_read(source, result)
        self.set_output(writer, writer.outputs.index(source), result)
        return True

    def keep_outputs(self, kept: Sequence[int]) -> None:
        """Drop all outputs but these, which keep their order, from the graph and from its signatures."""
        self.record.outputs = [index for index in self.outputs if index in kept]
        for signature in self.signatures():
            signature.outputs = [entry for entry in signature.outputs or [] if int(entry.tensorIndex) in kept]

    def signatures(self) -> list[Any]:
        """The signatures (`SignatureDefT`) that run this graph."""
        return self.parts.signatures(self.index)

    # -- keeping it sound

    def clean(self) -> None:
        """Drop operators that nothing needs, then tensors that nothing uses; indices are new after that."""
        self.remove(*self.unneeded())
        used = self.used_tensors()
        moved = {old: new for new, old in enumerate(sorted(used))}
        self.record.tensors = [self.record.tensors[index] for index in sorted(used)]
        self.record.inputs = [moved[index] for index in self.inputs]
        self.record.outputs = [moved[index] for index in self.outputs]
        for operator in self.operators:
            for field in ("inputs", "outputs", "intermediates"):
                indices = getattr(operator, field)
                if indices is not None:
                    setattr(operator, field, [moved.get(int(index), NO_TENSOR) for index in indices])
        for signature in self.signatures():
            for entry in (*(signature.inputs or []), *(signature.outputs or [])):
                entry.tensorIndex = moved[int(entry.tensorIndex)]
        self._links = _Links(self.operators)

    def check(self) -> None:
        """Make sure that every tensor is written once and before it is read, or raise a `ModelError`."""
        written: set[int] = set()
        later = {index for operator in self.operators for index in operator.outputs}
        for operator in self.operators:
            # An operator may read and write the same state.
            early = {index for index in operator.inputs if index in later} - written - set(operator.outputs)
            if early or written.intersection(operator.outputs):
                raise ModelError(f"{self.op(operator)} does not find its inputs where it stands.", _UNSOUND_HINT)
            written.update(index for index in operator.outputs if index != NO_TENSOR)
        if {index for index in self.outputs if self._is_computed(index)} - written:
            raise ModelError("Nothing computes an output of the graph.", _UNSOUND_HINT)

    def _is_computed(self, index: int) -> bool:
        return index not in self.inputs and not self.is_constant(index) and not self.tensor(index).isVariable

    def unneeded(self) -> list[Operator]:
        """The operators that no output of the graph needs, and that change nothing else."""
        needed, found = set(self.outputs), []
        for operator in reversed(self.operators):
            if self.has_effects(operator) or any(index in needed for index in operator.outputs):
                needed.update(operator.inputs)
            else:
                found.append(operator)
        return found[::-1]

    def has_effects(self, operator: Operator) -> bool:
        """Whether an operator may do more than to compute its outputs from its inputs."""
        if self.op(operator) in _EFFECTS or not operator.outputs:
            return True
        return any(index != NO_TENSOR and self.tensor(index).isVariable for index in operator.inputs)

    def used_tensors(self) -> set[int]:
        """Tensors that an operator, the graph or a signature refers to."""
        used = {*self.inputs, *self.outputs}
        for operator in self.operators:
            for indices in (operator.inputs, operator.outputs, operator.intermediates):
                used.update(int(index) for index in (indices if indices is not None else ()))
        for signature in self.signatures():
            used.update(int(entry.tensorIndex) for entry in (*(signature.inputs or []), *(signature.outputs or [])))
        return used - {NO_TENSOR}

    def _put(self, made: Operator, before: Operator | None, nodes: Iterable[int]) -> Operator:
        made.nodes = tuple(nodes)
        places = (at for at, operator in enumerate(self.operators) if operator is before)
        place = len(self.operators) if before is None else next(places)
        self.operators.insert(place, made)
        self._links.add(made)
        return made

    def _add(self, tensor: Any) -> int:
        self.record.tensors.append(tensor)
        return len(self.record.tensors) - 1

    def _new_name(self, name: str) -> str:
        """Some tools tell tensors apart by their names."""
        made = name
        while made in self._names:
            self._numbers[name] = self._numbers.get(name, 0) + 1
            made = f"{name}_{self._numbers[name]}"
        self._names.add(made)
        return made


def _stored(values: Array) -> Array:
    """The bytes of an array as a file holds them."""
    return np.frombuffer(values.astype(values.dtype.newbyteorder("<"), copy=False).tobytes(), np.uint8)


def _sizes(vector: Any) -> list[int] | None:
    return None if vector is None else [int(size) for size in vector]
