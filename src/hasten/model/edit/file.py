"""A `.tflite` file as the schema's own objects, which can be changed, and back."""

from __future__ import annotations

import io
import zipfile
from copy import copy
from typing import TYPE_CHECKING, Any

import numpy as np

from hasten.core.archive_errors import ARCHIVE_ERRORS
from hasten.core.errors import ModelError
from hasten.core.whole_file import write_whole
from hasten.model.build_bytes import serialized
from hasten.model.metadata import MAX_FILE_BYTES
from hasten.model.reader import map_file, read_graph

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    PackedFile = tuple[zipfile.ZipInfo, bytes]

# Offsets inside a flatbuffer are signed 32-bit numbers; tables and padding need some of them.
_MOST_BYTES = 2**31 - 2**20
# Offset 0 is the default, and 1 a placeholder of converters: in both cases the bytes are inside.
_FIRST_TRUE_OFFSET = 2
_TOO_LARGE_HINT = "hasten changes files below 2 GB only."
_UNPACK_HINT = "Get the model again, or remove the zip archive at its end."


def read_object(path: Path) -> Any:
    """The file as a `ModelT`. It is read by hasten's own reader first, as the schema's code verifies nothing."""
    size = read_graph(path).size_bytes
    model = object_from_bytes(map_file(path))
    operators = (operator for subgraph in model.subgraphs for operator in subgraph.operators or [])
    if size >= _MOST_BYTES or any(operator.largeCustomOptionsOffset > 1 for operator in operators):
        raise ModelError(f"{path.name} is too large to be changed.", _TOO_LARGE_HINT)
    return model


def object_from_bytes(data: memoryview | bytes) -> Any:
    """A file in memory as a `ModelT`, with every constant inside it."""
    from ai_edge_litert import schema_py_generated as schema

    model = schema.ModelT.InitFromObj(schema.Model.GetRootAsModel(data, 0))
    for buffer in model.buffers or []:
        if buffer.offset >= _FIRST_TRUE_OFFSET:
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
    """Write a `ModelT` that was made from `source`, with the files that are packed behind it."""
    write_whole(path, with_files(bytes_from_object(model), packed_files(source)))


def packed_files(source: Path) -> tuple[PackedFile, ...]:
    """The files (labels, say) that are packed as a zip archive behind a model, within the bound for one of them."""
    found: list[PackedFile] = []
    room = MAX_FILE_BYTES
    try:
        if not zipfile.is_zipfile(source):
            return ()
        with zipfile.ZipFile(source) as archive:
            for entry in archive.infolist():
                with archive.open(entry) as file:
                    found.append((entry, file.read(room + 1)))
                room -= len(found[-1][1])
                if room < 0:
                    limit = MAX_FILE_BYTES // 2**20
                    raise ModelError(f"The files packed in {source.name} are larger than {limit} MiB.", _UNPACK_HINT)
    except ARCHIVE_ERRORS as error:
        raise ModelError(f"The files packed in {source.name} cannot be read: {error}.", _UNPACK_HINT) from None
    return tuple(found)


def with_files(model: bytes, files: Sequence[PackedFile]) -> bytes:
    """The bytes of a model with files packed behind it; each keeps its date, so that equal edits give equal bytes."""
    if not files:
        return model
    whole = io.BytesIO(model)
    with zipfile.ZipFile(whole, "a") as archive:
        for entry, content in files:
            archive.writestr(copy(entry), content)
    return whole.getvalue()


def operator_number(code: Any) -> int:
    """The operator that a code means: old files have it in the deprecated field only."""
    return max(int(code.builtinCode), int(code.deprecatedBuiltinCode))


def text(name: bytes | str | None) -> str:
    """A name as text."""
    return name.decode("utf-8", errors="replace") if isinstance(name, bytes) else name or ""


def indices_in(vector: Any) -> list[int]:
    """Indices of tensors; a file may leave an empty list out."""
    return [] if vector is None else [int(index) for index in vector]


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
