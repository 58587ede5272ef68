"""Files that went wrong: bytes flipped, cut off, mixed up, zeroed, or set to values that nobody expects.

Number `n` always gives the same bytes, so that what it brings to light can be looked at again.
"""

from __future__ import annotations

import itertools
import random
import struct
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests import example_models

from hasten.demo import MODEL
from hasten.model.reader import read_graph

if TYPE_CHECKING:
    from collections.abc import Callable

_MOST_FLIPS: Final = 64
_EXTREMES: Final = (0, 1, 4, 0x7F, 0xFF, 0xFFFF, 0x7FFF_FFFF, 0x8000_0000, 0xFFFF_FFFC, 0xFFFF_FFFF)


@dataclass(frozen=True, slots=True)
class Base:
    """A sound model, and where in its file the weights are; all the rest is structure."""

    name: str
    data: bytes
    weights: tuple[int, ...]
    structure: tuple[int, ...]


def bases() -> list[Base]:
    """Sound models of several kinds: plain, quantized, with state, loops, signatures, of an old schema."""
    models = {
        "demo": MODEL.read_bytes(),
        "mobilenet": example_models.mobilenet_like(8, 2),
        "mobilenet_int8": example_models.mobilenet_like(8, 2, dtype="int8"),
        "efficientnet": example_models.efficientnet_like(8, 2),
        "matmul": example_models.matmul_chain(8, 32, 2),
        "one_operator": example_models.one_operator(),
        "two_signatures": example_models.two_signatures(),
        "accumulator": example_models.accumulator(),
        "counting_loop": example_models.counting_loop(),
        "branch": example_models.branch(),
        "dynamic_batch": example_models.dynamic_batch(),
        "old_schema": example_models.old_schema(),
    }
    with tempfile.TemporaryDirectory() as folder:
        return [_base(name, data, Path(folder) / "model.tflite") for name, data in models.items()]


def damaged(number: int, models: list[Base]) -> tuple[str, bytes]:
    """The damaged file with this number, and what was done to it."""
    chance = random.Random(number)
    kinds = list(_KINDS)
    kind = kinds[number % len(kinds)]
    base = models[number // len(kinds) % len(models)]
    return f"{kind} of {base.name}", _KINDS[kind](chance, base, chance.choice(models))


def damaged_bytes(number: int, content: bytes) -> bytes:
    """Any other content, cut off or with flipped bits: the damage with this number."""
    chance = random.Random(number)
    if number % 2:
        return content[: chance.randrange(len(content))]
    return _flip(chance, content, range(len(content)))


def _base(name: str, data: bytes, path: Path) -> Base:
    path.write_bytes(data)
    spans = {
        (tensor.buffer_offset, tensor.buffer_bytes)
        for subgraph in read_graph(path).subgraphs
        for tensor in subgraph.tensors
        if tensor.buffer_offset is not None
    }
    weights = set(itertools.chain.from_iterable(range(start, start + length) for start, length in spans))
    return Base(name, data, tuple(sorted(weights)), tuple(i for i in range(len(data)) if i not in weights))


def _flip(chance: random.Random, data: bytes, places: tuple[int, ...] | range) -> bytes:
    changed = bytearray(data)
    for _ in range(_MOST_FLIPS >> chance.randrange(7)):  # one flip as often as 64: a single one gets past more checks
        changed[chance.choice(places)] ^= 1 << chance.randrange(8)
    return bytes(changed)


def _flips(chance: random.Random, base: Base, _other: Base) -> bytes:
    return _flip(chance, base.data, range(len(base.data)))


def _flips_in_structure(chance: random.Random, base: Base, _other: Base) -> bytes:
    return _flip(chance, base.data, base.structure)


def _flips_in_weights(chance: random.Random, base: Base, _other: Base) -> bytes:
    return _flip(chance, base.data, base.weights or base.structure)


def _cut(chance: random.Random, base: Base, _other: Base) -> bytes:
    return base.data[: chance.randrange(len(base.data))]


def _splice(chance: random.Random, base: Base, other: Base) -> bytes:
    return base.data[: chance.randrange(len(base.data))] + other.data[chance.randrange(len(other.data)) :]


def _zeroes(chance: random.Random, base: Base, _other: Base) -> bytes:
    start = chance.choice(base.structure)
    length = min(256 >> chance.randrange(9), len(base.data) - start)
    return base.data[:start] + bytes(length) + base.data[start + length :]


def _garbage_behind(chance: random.Random, base: Base, _other: Base) -> bytes:
    return base.data + chance.randbytes(chance.randint(1, 4096))


def _extremes(chance: random.Random, base: Base, _other: Base) -> bytes:
    """Extreme values where the file has offsets, lengths and indices: words of the structure that could be such."""
    changed = bytearray(base.data)
    size = len(changed)
    words = [i for i in base.structure if i % 4 == 0 and i + 4 <= size]
    likely = [i for i in words if 0 < struct.unpack_from("<I", changed, i)[0] < size]
    for place in chance.sample(likely, min(len(likely), 4 >> chance.randrange(3))):
        struct.pack_into("<I", changed, place, chance.choice((*_EXTREMES, size, size - place, chance.randrange(2**32))))
    return bytes(changed)


_KINDS: Final[dict[str, Callable[[random.Random, Base, Base], bytes]]] = {
    "flips": _flips,
    "flips in the structure": _flips_in_structure,
    "flips in the weights": _flips_in_weights,
    "cut": _cut,
    "splice": _splice,
    "zeroes": _zeroes,
    "garbage behind": _garbage_behind,
    "extremes": _extremes,
}
