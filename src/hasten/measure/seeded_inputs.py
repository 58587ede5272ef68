"""Inputs made up from a seed for whatever a loaded model takes, and its outputs as numbers, to compare two runs by."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hasten.targets.client import TensorInfo

    Array = np.ndarray[Any, Any]
    Draw = Callable[[tuple[int, ...]], Array]
    """Real values of a shape."""

WIDE_INTEGERS: Final = frozenset({"int16", "int32", "int64", "bool", "uint16", "uint32", "uint64"})
Whole = tuple[int, ...]
WHOLE_NUMBERS: Final[tuple[Whole, ...]] = ((0, 1), (1,), (0,))
"""What wide integers are drawn from. They are most often indices, which must stay small; where 0 and 1 do not run, a
model divides by them, or has one row to index."""


def seeded_inputs(tensors: Sequence[TensorInfo], seed: int = 0) -> list[bytes]:
    """Bytes for each input of a model: the same for every plan, process and day."""
    source = np.random.default_rng(seed)
    return [input_bytes(tensor, source) for tensor in tensors]


def input_bytes(
    tensor: TensorInfo, source: np.random.Generator, draw: Draw | None = None, whole: Whole = WHOLE_NUMBERS[0]
) -> bytes:
    """Floats as drawn (0..1 by default), bytes over their range, and wide integers from a few small numbers."""
    if tensor.dtype in ("float32", "float64", "float16"):
        return (draw or source.random)(tensor.shape).astype(tensor.dtype).tobytes()
    if tensor.dtype in ("int8", "uint8"):
        return source.bytes(tensor.bytes)
    if tensor.dtype in WIDE_INTEGERS:
        return source.choice(whole, tensor.shape).astype(tensor.dtype).tobytes()
    return bytes(tensor.bytes)


def stored_numbers(data: bytes | memoryview, info: TensorInfo) -> Array:
    """An output as numbers as they are stored; types that NumPy lacks byte by byte."""
    try:
        dtype = np.dtype(info.dtype)
    except TypeError:
        dtype = np.dtype(np.uint8)
    return np.frombuffer(data, dtype)
