"""What the graphs of one file share: operator codes, the bytes of constants, signatures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hasten.model.build_bytes import PLACEHOLDER_CODE
from hasten.model.edit.file import operator_number, text
from hasten.model.reader import names_of

if TYPE_CHECKING:
    from collections.abc import Iterable


class Parts:
    """The schema's `ModelT` (`record`), and the schema that it is made of."""

    def __init__(self, record: Any) -> None:
        from ai_edge_litert import schema_py_generated as schema

        self.schema: Any = schema
        self.record = record
        self.filled_codes = sum(_fill(code) for code in record.operatorCodes or [])
        """How many operator codes were only in the field of old files."""
        self._own_buffers = self._used_buffers() - self._metadata_buffers()

    def operator_name(self, code_index: int) -> str:
        """The operator of a code: `CONV_2D`; CUSTOM for every custom one."""
        number = int(self.record.operatorCodes[code_index].builtinCode)
        return names_of(self.schema.BuiltinOperator).get(number, f"UNKNOWN_{number}")

    def custom_name(self, code_index: int) -> str:
        """The name of a custom operator; empty for others."""
        return text(self.record.operatorCodes[code_index].customCode)

    def operator_code(self, op: str, version: int = 1, custom_name: str = "") -> int:
        """The index of an operator code, which is added where the model has none like it."""
        number = int(getattr(self.schema.BuiltinOperator, op))
        codes = self.record.operatorCodes
        for index, code in enumerate(codes):
            if (code.builtinCode, code.version, text(code.customCode)) == (number, version, custom_name):
                return index
        codes.append(
            self.schema.OperatorCodeT(
                builtinCode=number,
                deprecatedBuiltinCode=min(number, PLACEHOLDER_CODE),
                version=version,
                customCode=custom_name or None,
            )
        )
        return len(codes) - 1

    def drop_operator_codes(self, operators: Iterable[Any]) -> None:
        """Keep the codes of these operators only: one without an operator could ask for a kernel that nobody needs."""
        operators = list(operators)
        used = sorted({int(operator.opcodeIndex) for operator in operators})
        moved = {old: new for new, old in enumerate(used)}
        for operator in operators:
            operator.opcodeIndex = moved[int(operator.opcodeIndex)]
        self.record.operatorCodes = [self.record.operatorCodes[index] for index in used]

    def add_buffer(self, data: Any) -> int:
        """Add the bytes of a constant."""
        self.record.buffers.append(self.schema.BufferT(data=data))
        self._own_buffers.add(len(self.record.buffers) - 1)
        return len(self.record.buffers) - 1

    def drop_unused_buffers(self) -> None:
        """Drop the bytes of buffers that lost their last tensor; every index stays what it was.

        Other buffers may hold bytes for readers that hasten does not know.
        """
        for index in self._own_buffers - self._used_buffers():
            self.record.buffers[index].data = None

    def strip(self) -> None:
        """Leave only what a run needs: no metadata, description, or bytes that no tensor has."""
        self.record.metadata = self.record.metadataBuffer = self.record.description = None
        self._own_buffers = set(range(len(self.record.buffers)))
        self.drop_unused_buffers()

    def signatures(self, subgraph: int) -> list[Any]:
        """The signatures (`SignatureDefT`) that run a graph."""
        return [entry for entry in self.record.signatureDefs or [] if int(entry.subgraphIndex) == subgraph]

    def _used_buffers(self) -> set[int]:
        return {int(tensor.buffer) for subgraph in self.record.subgraphs for tensor in subgraph.tensors or []}

    def _metadata_buffers(self) -> set[int]:
        """Those that hold metadata; a list of them may point beyond the end."""
        entries = [int(entry.buffer) for entry in self.record.metadata or []]
        listed = self.record.metadataBuffer if self.record.metadataBuffer is not None else ()
        return {*entries, *(int(number) for number in listed)}


def _fill(code: Any) -> bool:
    """Write an operator where newer tools look for it: they read those of files of before 2020 as ADD."""
    before, code.builtinCode = code.builtinCode, operator_number(code)
    return bool(before != code.builtinCode)
