"""A `.tflite` file as the schema's own objects, which can be changed, and back; files packed behind it come along.

And a copy of a model in which inner tensors are outputs, so that any engine and accelerator can show what they hold.
"""

from __future__ import annotations

import zipfile
from typing import TYPE_CHECKING, Any

import numpy as np

from hasten.core.errors import ModelError, UsageError
from hasten.model.build import DEFAULT_SIGNATURE
from hasten.model.build_bytes import serialized
from hasten.model.reader import map_file, read_graph

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from hasten.model.graph import Graph

# Offsets inside a flatbuffer are signed 32-bit numbers.
LARGEST_FILE = 2**31 - 1
_MOST_COPIED_BYTES = 2**31 - 2**20
# Offset 0 is the default, and 1 a placeholder of converters: in both cases the bytes are inside.
FIRST_TRUE_OFFSET = 2


def read_object(path: Path) -> Any:
    """The file as a `ModelT`. It is read by hasten's own reader first, as the schema's code verifies nothing."""
    if read_graph(path).size_bytes > LARGEST_FILE:
        raise ModelError(f"{path.name} has more than 2 GB.", "Variants can be made of smaller models only.")
    return object_from_bytes(map_file(path))


def object_from_bytes(data: memoryview | bytes) -> Any:
    """A file in memory as a `ModelT`, with every constant inside it."""
    from ai_edge_litert import schema_py_generated as schema

    model = schema.ModelT.InitFromObj(schema.Model.GetRootAsModel(data, 0))
    for buffer in model.buffers or []:
        if buffer.offset >= FIRST_TRUE_OFFSET:
            buffer.data = np.frombuffer(data, np.uint8, buffer.size, buffer.offset)
        buffer.offset = buffer.size = 0
    return model


def bytes_from_object(model: Any) -> bytes:
    """The file of a `ModelT`, its constants aligned as kernels need them."""
    for buffer in model.buffers:
        if buffer.data is not None:
            buffer.data = np.frombuffer(np.ascontiguousarray(buffer.data), np.uint8)
    return serialized(model)


def write_object(model: Any, path: Path, source: Path) -> None:
    """Write a `ModelT` that was made from `source`, with the files (labels, say) that are packed behind it."""
    path.write_bytes(bytes_from_object(model))
    if not zipfile.is_zipfile(source):
        return
    with zipfile.ZipFile(source) as packed, zipfile.ZipFile(path, "a") as target:
        for name in packed.namelist():
            target.writestr(name, packed.read(name))


def operator_number(code: Any) -> int:
    """The operator that a code means: old files have it in the deprecated field only."""
    return max(int(code.builtinCode), int(code.deprecatedBuiltinCode))


def text(name: bytes | str | None) -> str:
    """A name as text."""
    return name.decode("utf-8", errors="replace") if isinstance(name, bytes) else name or ""


def constant_bytes(model: Any, tensor: Any) -> np.ndarray[Any, Any] | None:
    """The bytes of a constant; None where the tensor is filled at run time."""
    data = model.buffers[tensor.buffer].data
    return None if data is None or len(data) == 0 or tensor.isVariable else np.asarray(data, np.uint8)


def operators_of(model: Any, number: int) -> Iterator[tuple[Any, Any]]:
    """Every operator of one kind, with its subgraph."""
    for subgraph in model.subgraphs:
        for operator in list(subgraph.operators or []):
            if operator_number(model.operatorCodes[operator.opcodeIndex]) == number:
                yield subgraph, operator


def with_outputs(graph: Graph, tensors: Sequence[int], subgraph: int = 0) -> bytes:
    """The model with these tensors as further outputs, after its own; `shown_names` tells what they are called.

    A file without a signature gets one, as names are the only sure way to tell outputs apart.
    """
    from ai_edge_litert import schema_py_generated as schema

    known = graph.subgraphs[subgraph].tensors
    for index in tensors:
        if not 0 <= index < len(known) or known[index].is_constant:
            raise UsageError(f"Tensor {index} of {graph.path.name} is not computed by the model.")
    # The reader has checked every offset in the file; these accessors check none.
    model = object_from_bytes(map_file(graph.path))
    operators = (operator for entry in model.subgraphs for operator in entry.operators or [])
    if graph.size_bytes >= _MOST_COPIED_BYTES or any(operator.largeCustomOptionsOffset > 1 for operator in operators):
        raise ModelError(f"{graph.path.name} is too large to be copied: only LiteRT's own tools can write it.")
    edited = model.subgraphs[subgraph]
    signatures = [entry for entry in model.signatureDefs or [] if entry.subgraphIndex == subgraph]
    if not signatures:
        signatures = [_signature(schema, edited, subgraph)]
        model.signatureDefs = [*(model.signatureDefs or []), *signatures]
    edited.outputs = list(dict.fromkeys([*map(int, edited.outputs), *tensors]))
    for signature in signatures:
        own = {entry.tensorIndex for entry in signature.outputs or []}
        added = [schema.TensorMapT(name=_made_name(index), tensorIndex=index) for index in tensors if index not in own]
        signature.outputs = [*(signature.outputs or []), *added]
    return serialized(model)


def shown_names(
    graph: Graph, tensors: Sequence[int], subgraph: int = 0, signature: str | None = None
) -> dict[int, str]:
    """The names of the outputs that show these tensors. One that was an output before keeps its name."""
    chosen = graph.signature(signature)
    if chosen is not None and chosen.subgraph == subgraph:
        own = {index: name for name, index in chosen.outputs.items()}
    else:
        own = {index: f"output_{at}" for at, index in enumerate(graph.subgraphs[subgraph].outputs)}
    return {index: own.get(index, _made_name(index)) for index in tensors}


def _made_name(tensor: int) -> str:
    return f"hasten_tensor_{tensor}"


def _signature(schema: Any, subgraph: Any, index: int) -> Any:
    def maps(kind: str, tensors: Sequence[int]) -> list[Any]:
        return [schema.TensorMapT(name=f"{kind}_{at}", tensorIndex=tensor) for at, tensor in enumerate(tensors)]

    return schema.SignatureDefT(
        signatureKey=DEFAULT_SIGNATURE,
        subgraphIndex=index,
        inputs=maps("input", [int(tensor) for tensor in subgraph.inputs]),
        outputs=maps("output", [int(tensor) for tensor in subgraph.outputs]),
    )
