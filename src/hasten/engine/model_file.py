"""A look at a model file before the engine gets it: LiteRT maps it without checks, and a torn one crashes the process.

Only what is torn is found (an offset or a length that points out of the file), not what is merely wrong. The layout is
that of FlatBuffers: a table begins with the distance back to its vtable, which lists the offsets of its fields.
"""

from __future__ import annotations

import hashlib
import mmap
import struct
from typing import TYPE_CHECKING, Final

from hasten.core.errors import ModelError
from hasten.core.regular_file import open_regular

if TYPE_CHECKING:
    from pathlib import Path

_IDENTIFIER: Final = b"TFL3"
_SMALLEST: Final = 16
# Positions of fields in the schema's tables.
_OPERATOR_CODES, _SUBGRAPHS, _BUFFERS = 1, 2, 4
_TENSORS, _OPERATORS = 0, 3
_BUFFER_DATA: Final = 0
_BUILTIN_CODE: Final = 3
_VAR_HANDLE: Final = 142
_TORN_HINT: Final = "Copy or download it again, and compare its size with the size of the original."


def check_model_file(path: Path) -> None:
    """Refuse a file that is missing, is no model, or ends too early."""
    try:
        with path.open("rb") as file:
            size = path.stat().st_size
            if size == 0:
                raise ModelError(f"The model file {path.name} is empty.", _TORN_HINT)
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
                _check_content(path.name, content)
    except FileNotFoundError:
        raise ModelError(f"There is no model file at {path}.", "Give the path of a .tflite file.") from None
    except IsADirectoryError:
        raise ModelError(f"{path} is a folder, not a model file.", "Give the path of a .tflite file.") from None
    except OSError as error:
        raise ModelError(f"The model file cannot be read: {error}.") from error


def file_hash(path: Path) -> str:
    """The SHA-256 of a file; an OSError for a folder, a pipe or a device."""
    with open_regular(path) as stream:
        digest = hashlib.sha256()
        while chunk := stream.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()


def has_variables(path: Path) -> bool:
    """Whether a file that was checked has operators with resource variables: what a run leaves in them stays."""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        codes = [
            _field(content, code, _BUILTIN_CODE) for code in _tables(content, _offset(content, 0), _OPERATOR_CODES)
        ]
        return any(code and struct.unpack_from("<i", content, code) == (_VAR_HANDLE,) for code in codes)


def _check_content(name: str, content: mmap.mmap) -> None:
    if content[4:8] != _IDENTIFIER:
        raise ModelError(
            f"{name} is not a TensorFlow Lite model: the mark TFL3 is missing at its start.", "Give a .tflite file."
        )
    try:
        if len(content) < _SMALLEST:
            raise struct.error("too short")
        _walk(content)
    except (struct.error, IndexError):
        raise ModelError(f"The model file {name} is damaged: it refers to data beyond its end.", _TORN_HINT) from None


def _walk(content: mmap.mmap) -> None:
    """Follow the offsets to every table that the engine reads unchecked; struct.error if one leads out of the file."""
    model = _offset(content, 0)
    _tables(content, model, _OPERATOR_CODES)
    for subgraph in _tables(content, model, _SUBGRAPHS):
        for table in (*_tables(content, subgraph, _TENSORS), *_tables(content, subgraph, _OPERATORS)):
            _vtable(content, table)
    for buffer in _tables(content, model, _BUFFERS):
        if vector := _field(content, buffer, _BUFFER_DATA):
            _vector(content, vector, 1)


def _tables(content: mmap.mmap, table: int, field: int) -> list[int]:
    """The positions of the tables in a table's vector."""
    position = _field(content, table, field)
    if not position:
        return []
    start, count = _vector(content, position, 4)
    return [_offset(content, start + 4 * index) for index in range(count)]


def _vector(content: mmap.mmap, position: int, element_size: int) -> tuple[int, int]:
    start = _offset(content, position)
    (count,) = struct.unpack_from("<I", content, start)
    if start + 4 + count * element_size > len(content):
        raise struct.error("a vector is longer than the file")
    return start + 4, count


def _field(content: mmap.mmap, table: int, field: int) -> int:
    """The position of a table's field, or 0 if the table leaves it out."""
    vtable, size = _vtable(content, table)
    slot = 4 + 2 * field
    if slot + 2 > size:
        return 0
    (distance,) = struct.unpack_from("<H", content, vtable + slot)
    return table + distance if distance else 0


def _vtable(content: mmap.mmap, table: int) -> tuple[int, int]:
    (back,) = struct.unpack_from("<i", content, table)
    vtable = table - back
    if vtable < 0:
        raise struct.error("a table's description lies before the file")
    size, table_size = struct.unpack_from("<HH", content, vtable)
    if vtable + size > len(content) or table + table_size > len(content):
        raise struct.error("a table is longer than the file")
    return vtable, size


def _offset(content: mmap.mmap, position: int) -> int:
    (distance,) = struct.unpack_from("<I", content, position)
    target = position + int(distance)
    if target + 4 > len(content):
        raise struct.error("an offset leads out of the file")
    return target
