"""A whole model that can be changed: read, edit its graphs, write. What is not edited stays as it was.

Signatures, metadata, packed files, quantization and sparsity come along; operator codes of old files are filled in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hasten.core.whole_file import write_whole
from hasten.model.edit.file import bytes_from_object, object_from_bytes, packed_files, read_object, with_files
from hasten.model.edit.graph import EditedGraph
from hasten.model.edit.parts import Parts

if TYPE_CHECKING:
    from pathlib import Path

    from hasten.model.edit.file import PackedFile


class EditedModel:
    """A `.tflite` file as schema objects, with a graph to edit for each subgraph."""

    def __init__(self, record: Any, files: tuple[PackedFile, ...] = ()) -> None:
        self.parts = Parts(record)
        self.files = files
        self.graphs = [EditedGraph(self.parts, index) for index in range(len(record.subgraphs))]

    @classmethod
    def read(cls, path: Path) -> EditedModel:
        """Read a file with what is packed behind it; a damaged one raises a `ModelError`."""
        return cls(read_object(path), packed_files(path))

    @classmethod
    def from_bytes(cls, data: bytes) -> EditedModel:
        """A model in memory that hasten itself made."""
        return cls(object_from_bytes(data))

    @property
    def record(self) -> Any:
        """The schema's `ModelT`."""
        return self.parts.record

    @property
    def main(self) -> EditedGraph:
        """The graph that runs when no signature is named."""
        return self.graphs[0]

    def clean(self) -> None:
        """Drop what no output needs any more: operators, tensors, bytes of constants and operator codes."""
        for graph in self.graphs:
            graph.clean()
        self.parts.drop_unused_buffers()
        self.parts.drop_operator_codes(operator for graph in self.graphs for operator in graph.operators)

    def strip(self) -> None:
        """Leave only what a run needs: no metadata, packed files, description, or bytes that no tensor has."""
        self.files = ()
        self.parts.strip()

    def to_bytes(self) -> bytes:
        """The file as bytes. An edit that left a graph out of order is a bug, and raises here and not in an engine."""
        for graph in self.graphs:
            graph.check()
        return with_files(bytes_from_object(self.record), self.files)

    def write(self, path: Path) -> None:
        """Write the file, whole or not at all."""
        write_whole(path, self.to_bytes())
