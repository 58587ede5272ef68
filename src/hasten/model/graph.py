"""The records that describe a `.tflite` file (tensors, nodes, subgraphs, signatures), and what they alone can tell.

The reader makes them and has checked every index by then, so that no method here can fail on a damaged file.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

from hasten.core.errors import ModelError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

Shape = tuple[int, ...]
OptionValue = bool | int | float | str | tuple[int | float | bool, ...]

BITS_OF_DTYPE: Mapping[str, int] = {
    "bool": 8,
    "int2": 2,
    "int4": 4,
    "uint4": 4,
    "int8": 8,
    "uint8": 8,
    "int16": 16,
    "uint16": 16,
    "int32": 32,
    "uint32": 32,
    "int64": 64,
    "uint64": 64,
    "float8_e4m3fn": 8,
    "float8_e5m2": 8,
    "float16": 16,
    "bfloat16": 16,
    "float32": 32,
    "float64": 64,
    "complex64": 64,
    "complex128": 128,
}
"""Types whose elements have one fixed size; strings, resources and variants have none."""

FLOAT_DTYPES = frozenset({"float8_e4m3fn", "float8_e5m2", "float16", "bfloat16", "float32", "float64"})
STATE_OPERATORS = frozenset({"VAR_HANDLE", "READ_VARIABLE", "ASSIGN_VARIABLE"})
# Types that a quantized model computes in.
_INTEGER_DTYPES = frozenset({"int8", "uint8", "int16"})
MIXED = "mixed"
CONVERSIONS = frozenset({"QUANTIZE", "DEQUANTIZE", "CAST"})
"""Operators that change the type of values and nothing else."""


@dataclass(frozen=True, slots=True)
class Quantization:
    """real = (stored - zero_point) x scale; one pair for the tensor, or one for each slice along `dimension`."""

    scales: tuple[float, ...]
    zero_points: tuple[int, ...]
    dimension: int

    @property
    def per_channel(self) -> bool:
        """Whether slices along `dimension` have scales of their own."""
        return len(self.scales) > 1


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor as declared. `shape` is what the engine starts with; `shape_signature` has -1 where it may change."""

    index: int
    name: str
    shape: Shape
    shape_signature: Shape
    dtype: str
    quantization: Quantization | None
    is_constant: bool
    is_variable: bool
    is_sparse: bool
    is_unranked: bool
    buffer_bytes: int
    buffer_offset: int | None

    @property
    def is_dynamic(self) -> bool:
        """Whether the shape is settled only when the model runs."""
        return self.is_unranked or -1 in self.shape_signature or -1 in self.shape

    @property
    def elements(self) -> int | None:
        """How many elements `shape` has; None where a dimension is open."""
        return None if self.is_unranked or -1 in self.shape else prod(self.shape)

    @property
    def is_weight(self) -> bool:
        """Whether it holds learned numbers: a constant of reals, plain or quantized, and not a shape or an index."""
        return self.is_constant and (self.dtype in FLOAT_DTYPES or self.quantization is not None)


@dataclass(frozen=True, slots=True)
class Node:
    """One operator in execution order. An input of -1 is an optional input left out."""

    index: int
    op: str
    custom_code: str | None
    version: int
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    options: Mapping[str, OptionValue]

    @property
    def label(self) -> str:
        """The operator's name for people: the custom code where there is one."""
        return self.custom_code or self.op

    @property
    def called_subgraphs(self) -> tuple[int, ...]:
        """The subgraphs that its options name: the body of a loop, the branches of a choice."""
        named = [value for key, value in self.options.items() if "subgraph" in key]
        indices = [index for value in named for index in (value if isinstance(value, tuple) else (value,))]
        return tuple(index for index in indices if isinstance(index, int))


@dataclass(frozen=True, slots=True)
class Subgraph:
    """Tensors and the nodes that connect them. Every index in it is within range."""

    index: int
    name: str
    tensors: tuple[Tensor, ...]
    nodes: tuple[Node, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]

    def node_location(self, node: Node) -> str:
        """Where the node is, by the name that the model's author gave its first output."""
        return next((self.tensors[index].name for index in node.outputs if index >= 0), "")


@dataclass(frozen=True, slots=True)
class Signature:
    """A named way into the model: names of inputs and outputs, as tensor indices of one subgraph."""

    key: str
    subgraph: int
    inputs: Mapping[str, int]
    outputs: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class NumberFormat:
    """The types that a model computes in and stores most of its weights in; `MIXED` where there are several."""

    computed: str
    stored: str

    @property
    def computes_in_integers(self) -> bool:
        """Whether activations are integers."""
        return self.computed in _INTEGER_DTYPES

    @property
    def has_integer_weights(self) -> bool:
        """Whether weights are integers and activations are not."""
        return not self.computes_in_integers and self.stored not in (*FLOAT_DTYPES, MIXED)

    def describe(self) -> str:
        """`int8 static`, `int8 dynamic/weight-only`, `float16`."""
        if self.computes_in_integers:
            return self.computed if self.computed == "int16" else f"{self.computed} static"
        return f"{self.stored} dynamic/weight-only" if self.has_integer_weights else self.stored


@dataclass(frozen=True, slots=True)
class Graph:
    """A whole `.tflite` file, without its weights."""

    path: Path
    size_bytes: int
    sha256: str
    version: int
    description: str
    subgraphs: tuple[Subgraph, ...]
    signatures: tuple[Signature, ...]
    metadata_names: tuple[str, ...]
    metadata_spans: tuple[tuple[int, int], ...]
    """Offset and length in the file of the buffer behind each of `metadata_names`."""

    @property
    def main(self) -> Subgraph:
        """The primary subgraph: the one that runs when nothing else is asked for."""
        return self.subgraphs[0]

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """The inputs of the primary subgraph."""
        return tuple(self.main.tensors[index] for index in self.main.inputs)

    @property
    def outputs(self) -> tuple[Tensor, ...]:
        """The outputs of the primary subgraph."""
        return tuple(self.main.tensors[index] for index in self.main.outputs)

    @property
    def stateful(self) -> bool:
        """Whether a run can depend on the runs before it."""
        return any(
            any(tensor.is_variable for tensor in subgraph.tensors)
            or any(node.op in STATE_OPERATORS for node in subgraph.nodes)
            for subgraph in self.subgraphs
        )

    def signature(self, key: str | None = None) -> Signature | None:
        """The signature of that key; without a key the first one, or None in a file that has none."""
        if key is None:
            return self.signatures[0] if self.signatures else None
        for signature in self.signatures:
            if signature.key == key:
                return signature
        known = ", ".join(repr(signature.key) for signature in self.signatures) or "none"
        raise ModelError(f"{self.path.name} has no signature {key!r}.", f"It has: {known}.")

    def run_by(self, subgraph: int) -> frozenset[int]:
        """The subgraphs that run when that one does: itself, and what its loops and branches call, however deep."""
        found: set[int] = set()
        waiting = {subgraph}
        while waiting:
            found |= waiting
            nodes = (node for index in waiting for node in self.subgraphs[index].nodes)
            called = {index for node in nodes for index in node.called_subgraphs}
            # The reader has not checked those: they are options like others.
            waiting = {index for index in called if 0 <= index < len(self.subgraphs)} - found
        return frozenset(found)

    def node_location(self, node: Node) -> str:
        """The name of the first output of a node of the primary subgraph."""
        return self.main.node_location(node)

    def custom_operators(self) -> tuple[str, ...]:
        """Custom codes in the order of their first use: the engine needs a kernel for each."""
        codes = (node.custom_code for subgraph in self.subgraphs for node in subgraph.nodes)
        return tuple(dict.fromkeys(code for code in codes if code is not None))

    def flex_operators(self) -> tuple[str, ...]:
        """Custom codes that call TensorFlow itself, which LiteRT alone cannot run."""
        return tuple(code for code in self.custom_operators() if code.startswith("Flex"))

    def number_format(self) -> NumberFormat:
        """How the model's numbers are stored and computed."""
        computed = _computed_types(self)
        if len(computed) > 1:
            return NumberFormat(MIXED, MIXED)
        dtype = next(iter(computed), "float32")
        return NumberFormat(dtype, dtype if dtype in _INTEGER_DTYPES else _stored_type(self, dtype))


# Their outputs tell the type they convert to, or whatever their author chose, not how the model computes.
_UNTELLING_OPERATORS = frozenset({"QUANTIZE", "DEQUANTIZE", "CAST", "CUSTOM", "VAR_HANDLE"})


def _computed_types(graph: Graph) -> set[str]:
    """The number types that nodes compute in; plain integers (indices, shapes, classes) say nothing about that."""
    kinds = set()
    for subgraph in graph.subgraphs:
        for node in subgraph.nodes:
            if node.op in _UNTELLING_OPERATORS:
                continue
            for tensor in (subgraph.tensors[index] for index in node.outputs if index >= 0):
                if tensor.dtype in FLOAT_DTYPES or (tensor.quantization and tensor.dtype in _INTEGER_DTYPES):
                    kinds.add(tensor.dtype)
    return kinds


def _stored_type(graph: Graph, computed: str) -> str:
    """The type that holds most of the weights of a model that computes in floats."""
    elements: dict[str, int] = {}
    for subgraph in graph.subgraphs:
        for tensor in subgraph.tensors:
            if tensor.is_weight and tensor.dtype != "int32":
                elements[tensor.dtype] = elements.get(tensor.dtype, 0) + (tensor.elements or 0)
    if not elements:
        return computed
    stored = max(elements, key=lambda dtype: elements[dtype])
    has_integers = any(dtype not in FLOAT_DTYPES for dtype in elements)
    return MIXED if stored in FLOAT_DTYPES and has_integers else stored
