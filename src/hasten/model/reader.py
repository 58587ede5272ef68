"""Reads a `.tflite` file into a `Graph`, and trusts nothing in it: a damaged file ends in a `ModelError`.

Weights stay in a memory map, not copied.
"""

from __future__ import annotations

import hashlib
import mmap
import os
import re
from functools import cache
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hasten.core.errors import ModelError
from hasten.core.shared_library import refuse_cut_off_engine
from hasten.model.flatbuffer import CheckedTable, Damage, root_table, text_from_bytes
from hasten.model.graph import BITS_OF_DTYPE, Graph, Node, OptionValue, Quantization, Shape, Signature, Subgraph, Tensor

if TYPE_CHECKING:
    from collections.abc import Sequence

FILE_IDENTIFIER = b"TFL3"
MAX_RANK = 32
"""Far above what any kernel takes; keeps the product of a hostile shape small."""
MAX_ELEMENTS = 2**62
"""Beyond this the size in bytes overflows the engine's own arithmetic."""
NO_TENSOR = -1

_DAMAGED_HINT = "Download or convert the model again; a copy that broke off is the usual cause."


def read_graph(path: str | os.PathLike[str]) -> Graph:
    """Read the graph of a `.tflite` file. Anything that is not one raises a `ModelError`."""
    path = Path(path)
    data = map_file(path)
    try:
        return _ModelReader(data, path).read()
    except Damage as damage:
        raise ModelError(f"{path.name} is damaged: {damage}.", _DAMAGED_HINT) from None


def map_file(path: Path) -> memoryview:
    """The whole file as memory that is read only when touched. It is released with the last view on it."""
    try:
        if not path.exists():
            raise ModelError(f"There is no file {path}.", "Check the path.")
        if not path.is_file():
            raise ModelError(f"{path} is not a file.", "Give the path of one .tflite file.")
        with path.open("rb") as file:
            if os.fstat(file.fileno()).st_size == 0:
                raise ModelError(f"{path.name} is empty.", _DAMAGED_HINT)
            return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ModelError(f"{path} cannot be read: {reason}.", "Check the path and its permissions.") from None


class _ModelReader:
    """Walks one file from the root down, and keeps what several parts need: schema, buffers, operator codes."""

    def __init__(self, data: memoryview, path: Path) -> None:
        refuse_cut_off_engine()
        from ai_edge_litert import schema_py_generated as schema  # 150 ms: only when a model is read

        if bytes(data[4:8]) != FILE_IDENTIFIER:
            hint = "Convert the model to TensorFlow Lite first: the file must carry the identifier TFL3."
            raise ModelError(f"{path.name} is not a TensorFlow Lite model.", hint)
        self.schema: Any = schema
        self.data, self.path = data, path
        root = schema.Model()
        root._tab = root_table(data)
        self.model: Any = root
        self.buffer_count: int = root.BuffersLength()
        self.spans: dict[int, tuple[int, int]] = {}
        self.codes = [self._code(code) for code in _children(root, "OperatorCodes")]

    def read(self) -> Graph:
        subgraphs = tuple(self._subgraph(i, s) for i, s in enumerate(_children(self.model, "Subgraphs")))
        if not subgraphs:
            raise Damage("it has no graph")
        metadata = _children(self.model, "Metadata")
        return Graph(
            path=self.path,
            size_bytes=len(self.data),
            sha256=hashlib.sha256(self.data).hexdigest(),
            version=self.model.Version(),
            description=text_from_bytes(self.model.Description()),
            subgraphs=subgraphs,
            signatures=tuple(self._signature(s, subgraphs) for s in _children(self.model, "SignatureDefs")),
            metadata_names=tuple(text_from_bytes(item.Name()) for item in metadata),
            metadata_spans=tuple(self._span(item.Buffer()) for item in metadata),
        )

    def _code(self, code: Any) -> tuple[str, str | None, int]:
        # Old files have the code in the old one-byte field only; later ones in both, or 127 in the old one.
        number = max(code.BuiltinCode(), code.DeprecatedBuiltinCode())
        op = names_of(self.schema.BuiltinOperator).get(number, f"UNKNOWN_{number}")
        return op, text_from_bytes(code.CustomCode()) if op == "CUSTOM" else None, code.Version()

    def _span(self, index: int) -> tuple[int, int]:
        """Offset and length in the file of a buffer's bytes; a buffer beyond 2 GB has them outside the flatbuffer."""
        if index not in self.spans:
            buffer = _child(self.model, _checked(index, self.buffer_count, "buffer"), "Buffers")
            span = (buffer.Offset(), buffer.Size())
            if span[0] <= 1:  # 0 is the default and 1 a placeholder of the converter: the bytes are inside
                field = buffer._tab.Offset(4)
                span = (buffer._tab.Vector(field), buffer.DataLength()) if field else (0, 0)
            if sum(span) > len(self.data):
                raise Damage("the bytes of a constant lie beyond the end of the file")
            self.spans[index] = span
        return self.spans[index]

    def _subgraph(self, index: int, subgraph: Any) -> Subgraph:
        raw_tensors = _children(subgraph, "Tensors")
        writes_rank = any(tensor.HasRank() for tensor in raw_tensors)
        tensors = tuple(self._tensor(i, tensor, writes_rank) for i, tensor in enumerate(raw_tensors))
        operators = enumerate(_children(subgraph, "Operators"))
        return Subgraph(
            index=index,
            name=text_from_bytes(subgraph.Name()),
            tensors=tensors,
            nodes=tuple(self._node(i, operator, len(tensors)) for i, operator in operators),
            inputs=_tensor_indices(subgraph.InputsAsNumpy(), len(tensors), lowest=0),
            outputs=_tensor_indices(subgraph.OutputsAsNumpy(), len(tensors), lowest=0),
        )

    def _tensor(self, index: int, tensor: Any, writes_rank: bool) -> Tensor:
        shape = _shape(tensor.ShapeAsNumpy())
        offset, length = self._span(tensor.Buffer()) if self.buffer_count else (0, 0)
        is_constant = (length > 0 or tensor.ExternalBuffer() > 0) and not tensor.IsVariable()
        number = tensor.Type()
        return Tensor(
            index=index,
            name=text_from_bytes(tensor.Name()),
            shape=shape,
            shape_signature=_shape(tensor.ShapeSignatureAsNumpy()) or shape,
            dtype=names_of(self.schema.TensorType).get(number, f"unknown_{number}").lower(),
            quantization=_quantization(tensor.Quantization(), tensor._tab),
            is_constant=is_constant,
            is_variable=tensor.IsVariable(),
            is_sparse=tensor._tab.Offset(16) > 0,
            # A scalar and a tensor of unknown rank both have no dimensions; converters since 2022 tell them apart.
            is_unranked=writes_rank and not shape and not tensor.HasRank() and not is_constant,
            buffer_bytes=length,
            buffer_offset=offset if length else None,
        )

    def _node(self, index: int, operator: Any, tensor_count: int) -> Node:
        op, custom_code, version = self.codes[_checked(operator.OpcodeIndex(), len(self.codes), "operator code")]
        return Node(
            index=index,
            op=op,
            custom_code=custom_code,
            version=version,
            inputs=_tensor_indices(operator.InputsAsNumpy(), tensor_count, lowest=NO_TENSOR),
            outputs=_tensor_indices(operator.OutputsAsNumpy(), tensor_count, lowest=NO_TENSOR),
            options=self._options(operator),
        )

    def _options(self, operator: Any) -> dict[str, OptionValue]:
        for union, number, table in (
            (self.schema.BuiltinOptions, operator.BuiltinOptionsType(), operator.BuiltinOptions()),
            (self.schema.BuiltinOptions2, operator.BuiltinOptions2Type(), operator.BuiltinOptions2()),
        ):
            name = names_of(union).get(number, "NONE")
            if table is not None and name != "NONE":
                options = getattr(self.schema, name)()
                options._tab = operator._tab.child(table.Pos)
                return {
                    key: self._option(key, getattr(options, field)())
                    for field, key in _fields(getattr(self.schema, name))
                }
        return {}

    def _option(self, key: str, value: OptionValue | bytes | np.ndarray[Any, Any] | None) -> OptionValue:
        if isinstance(value, np.ndarray):
            return tuple(value.tolist())
        if value is None or isinstance(value, bytes):
            return text_from_bytes(value)
        enumeration = _ENUMERATION_OF_OPTION.get(key)
        if enumeration is None or not isinstance(value, int):
            return value
        name = names_of(getattr(self.schema, enumeration)).get(value, str(value))
        return name.lower() if enumeration == "TensorType" else name

    def _signature(self, signature: Any, subgraphs: Sequence[Subgraph]) -> Signature:
        subgraph = subgraphs[_checked(signature.SubgraphIndex(), len(subgraphs), "subgraph")]
        names = []
        for field in ("Inputs", "Outputs"):
            maps = _children(signature, field)
            count = len(subgraph.tensors)
            names.append({text_from_bytes(m.Name()): _checked(m.TensorIndex(), count, "tensor") for m in maps})
        return Signature(text_from_bytes(signature.SignatureKey()), subgraph.index, *names)


_ENUMERATION_OF_OPTION = {
    "fused_activation_function": "ActivationFunctionType",
    "padding": "Padding",
    "weights_format": "FullyConnectedOptionsWeightsFormat",
    "kernel_type": "LSTMKernelType",
    "mode": "MirrorPadMode",
    "combiner": "CombinerType",
    "reduce_function": "ReduceWindowFunction",
    "comparison_direction": "StablehloComparisonDirection",
    "algorithm": "RngAlgorithm",
    **dict.fromkeys(("in_data_type", "out_data_type", "out_type", "output_type", "idx_out_type"), "TensorType"),
    **dict.fromkeys(("key_dtype", "value_dtype", "quantized_bias_type"), "TensorType"),
}


@cache
def names_of(enumeration: Any) -> dict[int, str]:
    """The members of a generated enumeration by number."""
    return {number: name for name, number in vars(enumeration).items() if isinstance(number, int)}


@cache
def _fields(options: Any) -> tuple[tuple[str, str], ...]:
    """Accessors of a generated options class that give scalars or whole vectors, and the names to show them by."""
    methods = [name for name, value in vars(options).items() if callable(value)]
    skipped = re.compile(r"Init$|GetRootAs|.*(BufferHasIdentifier|Length|IsNone|AsNumpy)$")
    fields = [name for name in methods if not skipped.match(name) and not name.startswith("_")]
    vectors = {name for name in fields if f"{name}Length" in methods}
    # A vector without a numpy accessor holds tables or strings: nothing that a cost or a report asks for.
    plain = [name for name in fields if name not in vectors or f"{name}AsNumpy" in methods]
    return tuple((f"{n}AsNumpy" if n in vectors else n, re.sub(r"(?<!^)(?=[A-Z])", "_", n).lower()) for n in plain)


def _child(parent: Any, index: int, field: str) -> Any:
    child = getattr(parent, field)(index)
    child._tab = parent._tab.child(child._tab.Pos)
    return child


def _children(parent: Any, field: str) -> list[Any]:
    return [_child(parent, index, field) for index in range(getattr(parent, f"{field}Length")())]


def _checked(index: int, count: int, what: str) -> int:
    if not 0 <= index < count:
        raise Damage(f"it refers to {what} {index}, and has {count}")
    return index


def _tensor_indices(vector: Any, count: int, lowest: int) -> tuple[int, ...]:
    """Indices of tensors; an absent vector comes as the integer 0 from the generated accessors."""
    indices = () if isinstance(vector, int) else tuple(vector.tolist())
    for index in indices:
        if not lowest <= index < count:
            raise Damage(f"it refers to tensor {index}, and has {count}")
    return indices


def _shape(vector: Any) -> Shape:
    shape = () if isinstance(vector, int) else tuple(vector.tolist())
    if len(shape) > MAX_RANK:
        raise Damage(f"a tensor has {len(shape)} dimensions")
    if any(size < -1 for size in shape) or prod(abs(size) for size in shape) > MAX_ELEMENTS:
        raise Damage(f"a tensor has the impossible shape {list(shape)}")
    return shape


def _quantization(parameters: Any, parent: CheckedTable) -> Quantization | None:
    if parameters is None:
        return None
    parameters._tab = parent.child(parameters._tab.Pos)
    scales, zero_points = parameters.ScaleAsNumpy(), parameters.ZeroPointAsNumpy()
    if isinstance(scales, int) or not len(scales):
        return None  # a table with only the range seen in training, or an empty one
    points = () if isinstance(zero_points, int) else tuple(zero_points.tolist())
    return Quantization(tuple(scales.tolist()), points, parameters.QuantizedDimension())


def read_constant(graph: Graph, tensor: Tensor) -> np.ndarray[Any, Any] | None:
    """The values of a constant as stored, four-bit and two-bit ones unpacked, bfloat16 widened to float32.

    None where there is nothing to show as an array: no constant, a sparse one, strings, or a type that numpy lacks.
    """
    if not tensor.is_constant or tensor.is_sparse or tensor.buffer_offset is None or tensor.elements is None:
        return None
    if tensor.dtype not in BITS_OF_DTYPE or tensor.dtype.startswith("float8"):
        return None
    data = map_file(graph.path)
    count = tensor.elements
    if len(data) != graph.size_bytes:
        raise ModelError(f"{graph.path.name} has changed since it was read.", "Read the model again.")
    if tensor.buffer_bytes != -(-count * BITS_OF_DTYPE[tensor.dtype] // 8):
        message = f"{graph.path.name} is damaged: constant {tensor.name!r} has {tensor.buffer_bytes} bytes of data"
        raise ModelError(f"{message} for shape {list(tensor.shape)} of {tensor.dtype}.", _DAMAGED_HINT)
    raw = np.frombuffer(data, np.uint8, tensor.buffer_bytes, tensor.buffer_offset).copy()
    return _values_from_bytes(raw, tensor.dtype, count).reshape(tensor.shape)


def _values_from_bytes(raw: np.ndarray[Any, Any], dtype: str, count: int) -> np.ndarray[Any, Any]:
    bits = BITS_OF_DTYPE[dtype]
    values: np.ndarray[Any, Any]
    if bits < 8:
        shifts = np.arange(0, 8, bits, dtype=np.uint8)
        # The lowest bits come first.
        values = ((raw[:, None] >> shifts) & (2**bits - 1)).reshape(-1)[:count]
        if not dtype.startswith("u"):
            half = 2 ** (bits - 1)
            values = (values ^ half).astype(np.int8) - np.int8(half)
    elif dtype == "bfloat16":
        values = (raw.view("<u2").astype(np.uint32) << 16).view(np.float32)
    else:
        values = raw.view(np.dtype(dtype).newbyteorder("<"))
    return values
