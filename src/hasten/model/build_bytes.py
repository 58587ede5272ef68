"""A drawn model as the bytes of a .tflite file: the only part of the builder that knows the flatbuffer schema."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from hasten.core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

# In the order of the schema, which numbers them from zero.
ELEMENT_TYPES = (
    *("float32", "float16", "int32", "uint8", "int64", "string", "bool", "int16", "complex64", "int8", "float64"),
    *("complex128", "uint64", "resource", "variant", "uint32", "uint16", "int4", "bfloat16", "int2", "uint4"),
    *("float8_e4m3fn", "float8_e5m2"),
)
FILE_IDENTIFIER = b"TFL3"
SCHEMA_VERSION = 3
# `force_align: 16` of Buffer.data in the schema, which the generated Python code forgets: kernels may load weights with
# aligned vector instructions.
DATA_ALIGNMENT = 16
# Operators above 127 do not fit the old byte-wide field; new files hold this mark there.
PLACEHOLDER_CODE = 127


@dataclass(frozen=True, slots=True)
class Quantization:
    """Real value = scale · (stored value - zero point); several scales are one for each index along `axis`."""

    scale: tuple[float, ...]
    zero_point: tuple[int, ...] = (0,)
    axis: int = 0


@dataclass(frozen=True, slots=True)
class TensorRecord:
    """A tensor as the file will hold it; `data` is for constants."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    quantization: Quantization | None = None
    dynamic_batch: bool = False
    data: NDArray[np.uint8] | None = None


@dataclass(frozen=True, slots=True)
class OperatorRecord:
    """An operator as the file will hold it; `options` are fields of the schema's `<options_type>T`."""

    code: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    version: int = 1
    options_type: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    is_custom: bool = False
    custom_options: bytes = b""


@dataclass(slots=True)
class SubgraphRecord:
    """A subgraph that grows while it is drawn; inputs and outputs are (name, tensor) pairs."""

    index: int
    name: str
    signature: str | None = None
    tensors: list[TensorRecord] = field(default_factory=list)
    operators: list[OperatorRecord] = field(default_factory=list)
    inputs: list[tuple[str, int]] = field(default_factory=list)
    outputs: list[tuple[str, int]] = field(default_factory=list)


def model_bytes(subgraphs: Sequence[SubgraphRecord], *, description: str = "hasten", old_schema: bool = False) -> bytes:
    """Return the file; `old_schema` writes operator codes the way files of before 2020 hold them."""
    # Imported here: the schema costs 150 ms, which a user who only benchmarks would pay at every start.
    from ai_edge_litert import schema_py_generated as schema

    packer = _Packer(schema, old_schema)
    model = schema.ModelT(
        version=SCHEMA_VERSION,
        description=description,
        subgraphs=[packer.subgraph(subgraph) for subgraph in subgraphs],
        signatureDefs=[packer.signature(subgraph) for subgraph in subgraphs if subgraph.signature is not None] or None,
        operatorCodes=packer.codes,
        buffers=packer.buffers,
    )
    return serialized(model)


class _Packer:
    """Turns records into schema objects and gathers what they share: buffers and operator codes."""

    def __init__(self, schema: Any, old_schema: bool) -> None:
        self._schema = schema
        self._old_schema = old_schema
        # Buffer 0 is empty by convention: tensors without data point at it.
        self.buffers: list[Any] = [schema.BufferT()]
        self.codes: list[Any] = []
        self._code_indices: dict[tuple[str, int, bool], int] = {}

    def subgraph(self, record: SubgraphRecord) -> Any:
        return self._schema.SubGraphT(
            name=record.name,
            tensors=[self._tensor(tensor) for tensor in record.tensors],
            operators=[self._operator(operator) for operator in record.operators],
            inputs=[index for _, index in record.inputs],
            outputs=[index for _, index in record.outputs],
        )

    def signature(self, record: SubgraphRecord) -> Any:
        def tensor_maps(pairs: list[tuple[str, int]]) -> list[Any]:
            return [self._schema.TensorMapT(name=name, tensorIndex=tensor) for name, tensor in pairs]

        return self._schema.SignatureDefT(
            signatureKey=record.signature,
            subgraphIndex=record.index,
            inputs=tensor_maps(record.inputs),
            outputs=tensor_maps(record.outputs),
        )

    def _tensor(self, record: TensorRecord) -> Any:
        return self._schema.TensorT(
            name=record.name,
            shape=list(record.shape),
            shapeSignature=[-1, *record.shape[1:]] if record.dynamic_batch else None,
            type=ELEMENT_TYPES.index(record.dtype),
            buffer=self._buffer(record.data),
            quantization=self._quantization(record.quantization),
            hasRank=True,
        )

    def _quantization(self, record: Quantization | None) -> Any:
        if record is None:
            return None
        return self._schema.QuantizationParametersT(
            scale=list(record.scale), zeroPoint=list(record.zero_point), quantizedDimension=record.axis
        )

    def _buffer(self, data: NDArray[np.uint8] | None) -> int:
        if data is None:
            return 0
        self.buffers.append(self._schema.BufferT(data=data))
        return len(self.buffers) - 1

    def _operator(self, record: OperatorRecord) -> Any:
        operator = self._schema.OperatorT(
            opcodeIndex=self._code_index(record), inputs=list(record.inputs), outputs=list(record.outputs)
        )
        if record.options_type:
            operator.builtinOptionsType = getattr(self._schema.BuiltinOptions, record.options_type)
            operator.builtinOptions = getattr(self._schema, record.options_type + "T")(**record.options)
        if record.custom_options:
            operator.customOptions = np.frombuffer(record.custom_options, dtype=np.uint8)
        return operator

    def _code_index(self, record: OperatorRecord) -> int:
        key = (record.code, record.version, record.is_custom)
        if key not in self._code_indices:
            self._code_indices[key] = len(self.codes)
            self.codes.append(self._code(record))
        return self._code_indices[key]

    def _code(self, record: OperatorRecord) -> Any:
        builtin: int = getattr(self._schema.BuiltinOperator, "CUSTOM" if record.is_custom else record.code)
        if self._old_schema and builtin >= PLACEHOLDER_CODE:
            raise UsageError(f"{record.code} is newer than the old schema.", "Build with old_schema=False.")
        return self._schema.OperatorCodeT(
            # 0 is the default and is not written at all: exactly what an old file looks like.
            builtinCode=0 if self._old_schema else builtin,
            deprecatedBuiltinCode=min(builtin, PLACEHOLDER_CODE),
            customCode=record.code if record.is_custom else None,
            version=record.version,
        )


def serialized(model: Any) -> bytes:
    """Return a model of schema objects as the bytes of a file, with its weights aligned."""
    import flatbuffers

    class AlignedBuilder(flatbuffers.Builder):  # type: ignore[misc]
        """Aligns byte vectors, of which the large ones are weights."""

        def StartVector(self, elemSize: int, numElems: int, alignment: int) -> Any:  # noqa: N802, N803
            return super().StartVector(elemSize, numElems, DATA_ALIGNMENT if elemSize == 1 else alignment)

    # Room for all weights from the start: a builder that grows copies everything at each doubling.
    size = sum(len(buffer.data) for buffer in model.buffers if buffer.data is not None)
    builder = AlignedBuilder(size + 4096)
    builder.Finish(model.Pack(builder), FILE_IDENTIFIER)
    return bytes(builder.Output())
