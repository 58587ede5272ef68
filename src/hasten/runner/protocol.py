"""The frames between a runner and its parent: a length, JSON, and raw tensors after it.

A message is 8 bytes of little-endian length, that many bytes of JSON, then the raw frames whose lengths the JSON lists
under "frames". History: version 1, the first; version 2 has the engine's release among the machine's facts and a code
in failures; in version 3 a request for runs can go on with the last block, and has the conditions of the whole block.
"""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass, field
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

VERSION: Final = 3
UNLOAD: Final = "unload"
"""The request after which a runner knows of no model: what it wrote before is about another one."""
_LENGTH: Final = struct.Struct("<Q")
# A request or an answer is small; tensors travel as frames. More than this is not a message of ours.
_MOST_JSON_BYTES: Final = 64 * 1024 * 1024
_MOST_FRAMES_BYTES: Final = 2**40


class ProtocolError(Exception):
    """What arrived is not a message: the other side is not a runner, or not one of this version."""


@dataclass(frozen=True, slots=True)
class Message:
    """One request or one answer."""

    body: dict[str, Any]
    frames: tuple[bytes | memoryview, ...] = field(default=())


def encode(message: Message) -> Iterator[bytes | memoryview]:
    """The pieces to write, in order."""
    frames = [_flat(frame) for frame in message.frames]
    body = {**message.body, "frames": [len(frame) for frame in frames]}
    text = json.dumps(body, separators=(",", ":")).encode()
    yield _LENGTH.pack(len(text)) + text
    yield from frames


def decode(read_exactly: Callable[[int], bytes], most_bytes: int = _MOST_FRAMES_BYTES) -> Message:
    """The next message, through a function that returns just as many bytes as it is asked for, or raises.

    More than `most_bytes` in its frames are refused before they are read: they would have to fit into memory.
    """
    head = read_exactly(_LENGTH.size)
    (length,) = _LENGTH.unpack(head)
    if length > _MOST_JSON_BYTES:
        raise ProtocolError(f"its output begins with {head!r}")
    try:
        body = json.loads(read_exactly(length))
        sizes = [_frame_size(size) for size in body.pop("frames")]
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError) as error:
        raise ProtocolError(f"its output is no message ({error})") from error
    if sum(sizes) > most_bytes:
        raise ProtocolError(f"it sends {sum(sizes)} bytes of tensors where {most_bytes} are the most")
    # In one piece: a read for each would cost more than many a frame. Copies, as each must begin where numbers may.
    data = read_exactly(sum(sizes))
    return Message(body, tuple(data[end - size : end] for size, end in zip(sizes, accumulate(sizes), strict=True)))


def whole(read: Callable[[int], bytes], count: int) -> bytes:
    """Just as many bytes, from a function that returns as many at most; EOFError where there are no more."""
    pieces, left = [], count
    while left:
        piece = read(left)
        if not piece:
            raise EOFError
        pieces.append(piece)
        left -= len(piece)
    return b"".join(pieces)


def _flat(frame: bytes | memoryview) -> memoryview:
    """The bytes of a frame: `len` of an array's view counts its rows."""
    view = memoryview(frame)
    return view.cast("B") if view.nbytes else memoryview(b"")


def _frame_size(value: object) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(f"a frame cannot have {value!r} bytes")
    return value
