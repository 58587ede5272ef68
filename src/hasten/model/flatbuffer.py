"""A bounds-checked flatbuffer: tables whose every offset is bounded by the file, and the work by its size.

The flatbuffers runtime for Python verifies nothing, and a negative offset silently wraps around. So the generated
accessors are handed a `CheckedTable` in place of the runtime's own table; damage ends in `Damage`, never in garbage.
"""

# ruff: noqa: N802  (the generated accessors call a table's methods by these names)

from __future__ import annotations

import struct
from typing import Any

import numpy as np

_UINT16, _UINT32, _INT32 = struct.Struct("<H"), struct.Struct("<I"), struct.Struct("<i")


class Damage(Exception):
    """What is wrong inside a flatbuffer, in words to follow "is damaged: ". Users see it as a `ModelError`."""


class Budget:
    """How many bytes may still be looked at: tables that share their parts could otherwise multiply without end."""

    __slots__ = ("remaining",)

    def __init__(self, file_bytes: int) -> None:
        # An honest file is read once; twice leaves room for shared strings and vectors, and the rest for tiny files.
        self.remaining = 2 * file_bytes + 65536

    def spend(self, amount: int) -> None:
        """Count work on a number of bytes."""
        self.remaining -= amount
        if self.remaining < 0:
            raise Damage("its parts refer to each other more often than a sound file can")


class CheckedTable:
    """A flatbuffer table that answers as `flatbuffers.table.Table` does, but only with what lies in the file."""

    __slots__ = ("Bytes", "Pos", "budget", "fields")

    # Reading a table costs far more than its bytes may suggest: the floor of what one is charged.
    LEAST_COST = 24

    def __init__(self, data: memoryview, position: int, budget: Budget) -> None:
        self.Bytes, self.Pos, self.budget = data, position, budget
        vtable = position - self._read(_INT32, position)
        vtable_bytes = self._read(_UINT16, vtable)
        table_bytes = self._read(_UINT16, vtable + 2)
        if vtable_bytes < 4 or vtable_bytes % 2 or vtable + vtable_bytes > len(data):
            raise Damage("a table's list of fields is out of bounds")
        if table_bytes < 4 or position + table_bytes > len(data):
            raise Damage("a table reaches beyond the end of the file")
        budget.spend(max(table_bytes, self.LEAST_COST))
        self.fields = struct.unpack_from(f"<{vtable_bytes // 2 - 2}H", data, vtable + 4)
        if self.fields and max(self.fields) >= table_bytes:
            raise Damage("a field lies outside its table")

    def _read(self, packer: struct.Struct, offset: int) -> Any:
        if not 0 <= offset <= len(self.Bytes) - packer.size:
            raise Damage("an offset points outside the file")
        return packer.unpack_from(self.Bytes, offset)[0]

    def _vector(self, offset: int, item_bytes: int) -> tuple[int, int]:
        """Start and length of the vector whose offset is stored at `offset` in the file."""
        header = self.Indirect(offset)
        length = self._read(_UINT32, header)
        if header + 4 + length * item_bytes > len(self.Bytes):
            raise Damage("a list is longer than the file")
        return header + 4, length

    def Offset(self, vtable_offset: int) -> int:
        """Where a field is, relative to the table; 0 where it is absent."""
        slot = (vtable_offset - 4) // 2
        return self.fields[slot] if slot < len(self.fields) else 0

    def Indirect(self, offset: int) -> int:
        """Follow the offset stored at `offset`."""
        target = offset + int(self._read(_UINT32, offset))
        if target >= min(len(self.Bytes), 2**32):  # beyond 2**32 the runtime's own tables refuse with a TypeError
            raise Damage("an offset points outside the file")
        return target

    def Get(self, flags: Any, offset: int) -> Any:
        """A number; bool, integer or float as `flags` says."""
        return self._read(flags.packer_type, offset)

    def Vector(self, field: int) -> int:
        """Where the items of a vector start."""
        return self._vector(self.Pos + field, 1)[0]

    def VectorLen(self, field: int) -> int:
        """How many items a vector has, each of one byte or more."""
        return self._vector(self.Pos + field, 1)[1]

    def GetVectorAsNumpy(self, flags: Any, field: int) -> np.ndarray[Any, Any]:
        """A view on a vector of numbers."""
        start, length = self._vector(self.Pos + field, flags.bytewidth)
        self.budget.spend(length * flags.bytewidth)
        dtype = np.dtype(flags.packer_type.format)
        return np.frombuffer(self.Bytes, dtype=dtype, count=length, offset=start)

    def String(self, offset: int) -> bytes:
        """The bytes of the string whose offset is stored at `offset`."""
        start, length = self._vector(offset, 1)
        self.budget.spend(length)
        return bytes(self.Bytes[start : start + length])

    def Union(self, target: Any, field: int) -> None:
        """Point `target` at the table of a union."""
        target.Bytes, target.Pos = self.Bytes, self.Indirect(self.Pos + field)

    def child(self, position: int) -> CheckedTable:
        """Another table of the same file, on the same budget."""
        return CheckedTable(self.Bytes, position, self.budget)


def text_from_bytes(raw: bytes | None) -> str:
    """A name as text; bytes that are not UTF-8 become the replacement character."""
    return (raw or b"").decode("utf-8", errors="replace")


def root_table(data: memoryview) -> CheckedTable:
    """The table that a flatbuffer begins with, on a budget of its own."""
    return CheckedTable(data, int(_UINT32.unpack_from(data, 0)[0]), Budget(len(data)))
