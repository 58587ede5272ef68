"""Messages survive the way; anything else is a ProtocolError or the end of the stream, never another exception."""

from __future__ import annotations

import json
import struct
from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hasten.runner.protocol import Message, ProtocolError, decode, encode

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
BODIES = st.dictionaries(st.text().filter(lambda key: key != "frames"), JSON, max_size=5)
FRAMES = st.lists(st.binary(max_size=200), max_size=4).map(tuple)


class Source:
    """A stream that ends."""

    def __init__(self, data: bytes) -> None:
        self.data, self.position = data, 0

    def read_exactly(self, count: int) -> bytes:
        assert count >= 0, "nobody can read a negative number of bytes"
        piece = self.data[self.position : self.position + count]
        self.position += len(piece)
        if len(piece) < count:
            raise EOFError
        return piece


def wire(message: Message) -> bytes:
    return b"".join(encode(message))


@given(BODIES, FRAMES)
def test_a_message_survives_the_way(body: dict[str, object], frames: tuple[bytes, ...]) -> None:
    message = Message(body, frames)
    source = Source(wire(message) + b"the next")
    assert decode(source.read_exactly) == message
    assert source.read_exactly(8) == b"the next"


@given(BODIES, FRAMES, st.data())
def test_a_torn_message_is_the_end_of_the_stream(
    body: dict[str, object], frames: tuple[bytes, ...], data: st.DataObject
) -> None:
    whole = wire(Message(body, frames))
    cut = data.draw(st.integers(0, len(whole) - 1))
    with pytest.raises(EOFError):
        decode(Source(whole[:cut]).read_exactly)


@given(st.binary(max_size=300))
def test_garbage_is_refused(data: bytes) -> None:
    with pytest.raises((ProtocolError, EOFError)):
        decode(Source(data).read_exactly)


@given(JSON)
def test_json_that_is_no_message_is_refused(value: object) -> None:
    text = json.dumps(value).encode()
    with pytest.raises(ProtocolError):
        decode(Source(struct.pack("<Q", len(text)) + text).read_exactly)


@pytest.mark.parametrize(
    "frames", ["[-1]", "[1e400]", "[1.5]", "[true]", '["4"]', "[null]", "7", '{"a":1}', "[9999999999999999]", "[[1]]"]
)
def test_impossible_frames_are_refused(frames: str) -> None:
    text = f'{{"frames":{frames}}}'.encode()
    with pytest.raises(ProtocolError):
        decode(Source(struct.pack("<Q", len(text)) + text + bytes(64)).read_exactly)


def test_json_of_great_depth_is_refused() -> None:
    text = b"[" * 200_000
    with pytest.raises(ProtocolError):
        decode(Source(struct.pack("<Q", len(text)) + text).read_exactly)


def test_what_a_program_prints_is_quoted() -> None:
    with pytest.raises(ProtocolError, match="Usage: t"):
        decode(Source(b"Usage: this is another program").read_exactly)


def test_a_view_of_wide_elements_travels_as_its_bytes() -> None:
    numbers = array("q", [1, 2, 3])
    (frame,) = decode(Source(wire(Message({}, (memoryview(numbers),)))).read_exactly).frames
    assert bytes(frame) == numbers.tobytes()
