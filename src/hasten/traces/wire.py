"""Protocol buffers on the wire, bounds-checked: a message becomes pairs of tag and value.

A tag holds the field's number and its wire type together, so that code that compares tags never meets a number where a
string should be, however damaged the file is.
"""

from __future__ import annotations

from typing import Any, Final

_MOST_SHIFT: Final = 63
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


class Malformed(ValueError):
    """Bytes that are no message."""


def number_tag(field: int) -> int:
    """The tag of a field that holds an integer, a boolean or an enumeration."""
    return field << 3 | _VARINT


def bytes_tag(field: int) -> int:
    """The tag of a field that holds a string, bytes, a message or packed integers."""
    return field << 3 | _BYTES


def varint(data: bytes, position: int) -> tuple[int, int]:
    """The number at a position, and where the next thing stands."""
    shift = value = 0
    try:
        while True:
            byte = data[position]
            position += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value & 0xFFFF_FFFF_FFFF_FFFF, position
            shift += 7
            if shift > _MOST_SHIFT:
                raise Malformed("a number of more than ten bytes")
    except IndexError:
        raise Malformed("a number is cut off") from None


def fields(data: bytes) -> list[tuple[int, Any]]:
    """Tags and values of a message: integers, or bytes, as the tag says."""
    found: list[tuple[int, Any]] = []
    position, end = 0, len(data)
    while position < end:
        tag = data[position]
        position += 1
        if tag >= 0x80:
            tag, position = varint(data, position - 1)
        kind = tag & 7
        if kind == _VARINT:
            if position < end and (value := data[position]) < 0x80:
                position += 1
            else:
                value, position = varint(data, position)
            found.append((tag, value))
        elif kind == _BYTES:
            if position < end and (length := data[position]) < 0x80:
                position += 1
            else:
                length, position = varint(data, position)
            if length > end - position:
                raise Malformed("a length beyond its message")
            found.append((tag, data[position : position + length]))
            position += length
        elif kind in (_FIXED64, _FIXED32):
            width = 8 if kind == _FIXED64 else 4
            if width > end - position:
                raise Malformed("a number beyond its message")
            found.append((tag, data[position : position + width]))
            position += width
        else:
            raise Malformed("a wire type that does not exist")
    return found


def packed(data: bytes) -> list[int]:
    """Integers one after the other."""
    found = []
    shift = value = 0
    for byte in data:
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            found.append(value)
            shift = value = 0
        else:
            shift += 7
            if shift > _MOST_SHIFT:
                raise Malformed("a number of more than ten bytes")
    if shift:
        raise Malformed("a number is cut off")
    return found


def signed(value: int) -> int:
    """A negative number is on the wire as a very large one."""
    return value - (1 << 64) if value >= 1 << 63 else value


def text(value: bytes) -> str:
    """A string field; bytes that are no text become question marks."""
    return value.decode("utf-8", "replace")
