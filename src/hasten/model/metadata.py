"""TFLite Metadata: what the author says about inputs and outputs, and the files (labels) packed behind the model.

It is a flatbuffer of its own (identifier M001) in the buffer named TFLITE_METADATA. Slots are those of
tensorflow_lite_support/metadata/metadata_schema.fbs; a table with more slots than are known here is read all the same.
The files are a zip archive appended to the model.
"""

from __future__ import annotations

import zipfile
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import TYPE_CHECKING, Any

import flatbuffers
import numpy as np
from flatbuffers import number_types

from hasten.core.archive_errors import ARCHIVE_ERRORS
from hasten.core.errors import ModelError
from hasten.model.flatbuffer import CheckedTable, Damage, root_table, text_from_bytes
from hasten.model.graph import Graph
from hasten.model.reader import map_file, read_graph

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence

    from hasten.model.graph import Tensor

BUFFER_NAME = "TFLITE_METADATA"
FILE_IDENTIFIER = b"M001"
MAX_FILE_BYTES = 64 * 2**20
"""Bound for one packed file: a label list is kilobytes, and a zip bomb is not."""

_CONTENT_KINDS = ("unknown", "feature", "image", "bounding box", "audio")
_COLOR_SPACES = ("unknown", "rgb", "grayscale")
_FILE_KINDS = ("unknown", "descriptions", "axis labels", "value labels", "score calibration", "vocabulary")
_NORMALIZATION = 1
_MOST_SLOTS = 8
AXIS_LABELS = "axis labels"
"""The kind of a file that names the classes of an output, a line for each."""


class _Model(IntEnum):
    NAME, DESCRIPTION, VERSION, SUBGRAPHS, AUTHOR, LICENSE, FILES = range(7)


class _Subgraph(IntEnum):
    NAME, DESCRIPTION, INPUTS, OUTPUTS, FILES = range(5)


class _Tensor(IntEnum):
    NAME, DESCRIPTION, DIMENSION_NAMES, CONTENT, PROCESS_UNITS, STATS, FILES = range(7)


class _File(IntEnum):
    NAME, DESCRIPTION, KIND, LOCALE = range(4)


class _Union(IntEnum):
    """Content and process unit both are one union: its kind, then its table."""

    KIND, TABLE = range(2)


class _Pair(IntEnum):
    """The tables that unions lead to: normalization (mean, std), image (color space), audio (rate)."""

    FIRST, SECOND = range(2)


@dataclass(frozen=True, slots=True)
class AssociatedFile:
    """A file packed behind the model. `kind` is one of: unknown, descriptions, axis labels, value labels, …"""

    name: str
    kind: str


@dataclass(frozen=True, slots=True)
class TensorMetadata:
    """What the author says about one input or output. A real value is (x - mean) / std, by channel or for all."""

    color_space: str | None = None
    sample_rate_hz: int | None = None
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()
    files: tuple[AssociatedFile, ...] = ()
    tensor: str = ""
    """The name of the tensor that it is about; empty where the file lists other tensors than its metadata."""


@dataclass(frozen=True, slots=True)
class ModelMetadata:
    """What the author says about the model. `inputs` and `outputs` follow the order of the primary subgraph."""

    inputs: tuple[TensorMetadata, ...]
    outputs: tuple[TensorMetadata, ...]


def read_metadata(model: str | os.PathLike[str] | Graph) -> ModelMetadata | None:
    """The metadata of a model, or None if it carries none."""
    graph = model if isinstance(model, Graph) else read_graph(model)
    if BUFFER_NAME not in graph.metadata_names:
        return None
    offset, length = graph.metadata_spans[graph.metadata_names.index(BUFFER_NAME)]
    data = map_file(graph.path)[offset : offset + length]
    if len(data) < 8 or bytes(data[4:8]) != FILE_IDENTIFIER:
        raise ModelError(f"{graph.path.name} has metadata of an unknown format.", "Only format M001 is known.")
    try:
        main = next(iter(_tables(root_table(data), _Model.SUBGRAPHS)), None)
        inputs = [_tensor(entry) for entry in _tables(main, _Subgraph.INPUTS)]
        outputs = [_tensor(entry) for entry in _tables(main, _Subgraph.OUTPUTS)]
        return ModelMetadata(_about(inputs, graph.inputs), _about(outputs, graph.outputs))
    except Damage as damage:
        message = f"the metadata of {graph.path.name} is damaged: {damage}"
        raise ModelError(message, "The model may still run. Describe its inputs with --preprocess.") from None


def read_packed_file(graph: Graph, name: str) -> bytes:
    """The content of a file packed behind the model, such as its labels."""
    try:
        with zipfile.ZipFile(graph.path) as archive, archive.open(name) as file:
            content = file.read(MAX_FILE_BYTES + 1)
    except KeyError:
        known = ", ".join(_packed_names(graph)) or "none"
        raise ModelError(f"{graph.path.name} holds no file {name!r}.", f"It holds: {known}.") from None
    except ARCHIVE_ERRORS as error:
        raise ModelError(
            f"{name!r} in {graph.path.name} cannot be unpacked: {error}.", "Get the model again."
        ) from None
    if len(content) > MAX_FILE_BYTES:
        limit = MAX_FILE_BYTES // 2**20
        raise ModelError(f"{name!r} in {graph.path.name} is larger than {limit} MiB.", "Unpack it with unzip.")
    return content


def _packed_names(graph: Graph) -> tuple[str, ...]:
    try:
        with zipfile.ZipFile(graph.path) as archive:
            return tuple(archive.namelist())
    except ARCHIVE_ERRORS:
        return ()  # most models have nothing behind them, and their weights are no archive


def _about(said: list[TensorMetadata], tensors: Sequence[Tensor]) -> tuple[TensorMetadata, ...]:
    if len(said) != len(tensors):
        return tuple(said)
    return tuple(replace(entry, tensor=tensor.name) for entry, tensor in zip(said, tensors, strict=True))


def _tensor(tensor: CheckedTable) -> TensorMetadata:
    content = _table(tensor, _Tensor.CONTENT)
    kind = _named(_CONTENT_KINDS, _number(content, _Union.KIND, number_types.Uint8Flags))
    properties = _table(content, _Union.TABLE)
    color = _named(_COLOR_SPACES, _number(properties, _Pair.FIRST, number_types.Int8Flags)) if kind == "image" else None
    rate = _number(properties, _Pair.FIRST, number_types.Uint32Flags) if kind == "audio" else None
    mean, std = _normalization(tensor)
    return TensorMetadata(color, rate, mean, std, _files(tensor, _Tensor.FILES))


def _normalization(tensor: CheckedTable) -> tuple[tuple[float, ...], tuple[float, ...]]:
    for unit in _tables(tensor, _Tensor.PROCESS_UNITS):
        if _number(unit, _Union.KIND, number_types.Uint8Flags) == _NORMALIZATION:
            options = _table(unit, _Union.TABLE)
            return _floats(options, _Pair.FIRST), _floats(options, _Pair.SECOND)
    return (), ()


def _files(table: CheckedTable | None, slot: int) -> tuple[AssociatedFile, ...]:
    return tuple(
        AssociatedFile(_text(file, _File.NAME), _named(_FILE_KINDS, _number(file, _File.KIND, number_types.Int8Flags)))
        for file in _tables(table, slot)
    )


def _named(names: tuple[str, ...], number: int) -> str:
    return names[number] if 0 <= number < len(names) else "unknown"


def _field(table: CheckedTable | None, slot: int) -> int:
    return 0 if table is None else table.Offset(4 + 2 * slot)


def _text(table: CheckedTable, slot: int) -> str:
    field = _field(table, slot)
    return text_from_bytes(table.String(table.Pos + field)) if field else ""


def _number(table: CheckedTable | None, slot: int, flags: type[object]) -> int:
    field = _field(table, slot)
    return int(table.Get(flags, table.Pos + field)) if table is not None and field else 0


def _floats(table: CheckedTable | None, slot: int) -> tuple[float, ...]:
    field = _field(table, slot)
    if table is None or not field:
        return ()
    values = table.GetVectorAsNumpy(number_types.Float32Flags, field)
    return tuple(np.asarray(values, dtype=float).tolist())


def _table(table: CheckedTable | None, slot: int) -> CheckedTable | None:
    field = _field(table, slot)
    return table.child(table.Indirect(table.Pos + field)) if table is not None and field else None


def _tables(table: CheckedTable | None, slot: int) -> list[CheckedTable]:
    field = _field(table, slot)
    if table is None or not field:
        return []
    start = table.Vector(field)
    return [table.child(table.Indirect(start + 4 * index)) for index in range(table.VectorLen(field))]


def metadata_bytes(metadata: ModelMetadata, *, name: str = "", description: str = "") -> bytes:
    """The content of the buffer TFLITE_METADATA. Packing the files that it names is up to the caller."""
    builder = flatbuffers.Builder(1024)
    inputs = _put_list(builder, [_put_tensor(builder, entry) for entry in metadata.inputs])
    outputs = _put_list(builder, [_put_tensor(builder, entry) for entry in metadata.outputs])
    subgraph = _put_table(builder, {_Subgraph.INPUTS: inputs, _Subgraph.OUTPUTS: outputs})
    texts = {_Model.NAME: name, _Model.DESCRIPTION: description}
    slots = {slot: builder.CreateString(text) for slot, text in texts.items() if text}
    slots[_Model.SUBGRAPHS] = _put_list(builder, [subgraph])
    builder.Finish(_put_table(builder, slots), file_identifier=FILE_IDENTIFIER)
    return bytes(builder.Output())


def _put_tensor(builder: flatbuffers.Builder, entry: TensorMetadata) -> int:
    slots = {_Tensor.NAME: builder.CreateString(entry.tensor)} if entry.tensor else {}
    if entry.color_space is not None:
        image = _put_table(builder, {}, {_Pair.FIRST: _COLOR_SPACES.index(entry.color_space)})
        slots[_Tensor.CONTENT] = _put_union(builder, _CONTENT_KINDS.index("image"), image)
    elif entry.sample_rate_hz is not None:
        sound = _put_table(builder, {}, wide={_Pair.FIRST: entry.sample_rate_hz})
        slots[_Tensor.CONTENT] = _put_union(builder, _CONTENT_KINDS.index("audio"), sound)
    if entry.mean and entry.std:
        numbers = {
            slot: builder.CreateNumpyVector(np.array(values, np.float32))
            for slot, values in ((_Pair.FIRST, entry.mean), (_Pair.SECOND, entry.std))
        }
        unit = _put_union(builder, _NORMALIZATION, _put_table(builder, numbers))
        slots[_Tensor.PROCESS_UNITS] = _put_list(builder, [unit])
    if entry.files:
        files = [
            _put_table(
                builder, {_File.NAME: builder.CreateString(file.name)}, {_File.KIND: _FILE_KINDS.index(file.kind)}
            )
            for file in entry.files
        ]
        slots[_Tensor.FILES] = _put_list(builder, files)
    return _put_table(builder, slots)


def _put_union(builder: flatbuffers.Builder, kind: int, table: int) -> int:
    return _put_table(builder, {_Union.TABLE: table}, {_Union.KIND: kind})


def _put_table(
    builder: flatbuffers.Builder,
    offsets: Mapping[Any, int],
    numbers: Mapping[Any, int] | None = None,
    wide: Mapping[Any, int] | None = None,
) -> int:
    """A table of strings, vectors and tables, of one-byte numbers and of four-byte numbers, by slot."""
    builder.StartObject(_MOST_SLOTS)
    for slot, offset in offsets.items():
        builder.PrependUOffsetTRelativeSlot(int(slot), offset, 0)
    for slot, number in (numbers or {}).items():
        builder.PrependUint8Slot(int(slot), number, 0)
    for slot, number in (wide or {}).items():
        builder.PrependUint32Slot(int(slot), number, 0)
    return int(builder.EndObject())


def _put_list(builder: flatbuffers.Builder, tables: Sequence[int]) -> int:
    builder.StartVector(4, len(tables), 4)
    for table in reversed(tables):
        builder.PrependUOffsetTRelative(table)
    return int(builder.EndVector())
