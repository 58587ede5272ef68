"""The ways to feed a model and to read from it, and the interface of LiteRT that each goes through."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Way:
    """One way to feed or read, as a runner times it: feed, run, read, again and again."""

    key: str
    feeding: str
    """What the step before a run is called; empty where it is no row of its own."""
    reading: str = ""
    pair: str = ""
    """What both steps together are called, if not as each of them."""
    fault: bool = False
    """Whether it is something that applications do by mistake."""
    whole: bool = False
    """Whether its cost is the whole cycle less a plain run: it cannot be told apart, or slows the run itself down."""


WAYS: Final = (
    Way("copying", "set_tensor", "get_tensor", "set_tensor + get_tensor"),
    Way("views", "tensor() view", "tensor() view"),
    Way("filled", "tensor() view, filled"),
    Way("signature", "signature runner", whole=True),
    Way("buffers", "TensorBuffer.write", "TensorBuffer.read", "TensorBuffer.write + read"),
    Way("host", "host memory, aligned", "host memory, aligned"),
    Way("unaligned", "host memory, not aligned", "host memory, not aligned"),
    Way("locked", "locked device memory", "locked device memory"),
    Way("wrong type", "wrong type, converted", fault=True),
    Way("strided", "array not contiguous", fault=True),
    Way("list", "list instead of array", fault=True),
    Way("resize", "resize to the same shape", fault=True),
    Way("reshape", "resize to another shape", fault=True, whole=True),
)
BY_KEY: Final = {way.key: way for way in WAYS}
FAMILIES: Final = {
    "engine": ("host", "unaligned", "locked"),
    "classic": ("copying", "views", "filled", "signature", "wrong type", "strided", "list", "resize", "reshape"),
    "buffers": ("buffers",),
}
"""The interface of LiteRT that each way goes through: made ready one by one, as each can crash a process."""
