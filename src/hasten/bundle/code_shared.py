"""What generated code has in common in every language: the words of its comments, sizes, plain characters."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from hasten.engine import abi

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hasten.bundle.record import Bundle, BundleTensor


def numbered(side: str, tensors: Sequence[BundleTensor]) -> list[tuple[str, BundleTensor]]:
    """The tensors with the names that code gives them: input0, input1, …"""
    return [(f"{side}{i}", tensor) for i, tensor in enumerate(tensors)]


def byte_count(tensor: BundleTensor) -> int:
    """The tensor's size; several small elements can share a byte."""
    bits = next((bits for name, bits in abi.ELEMENT_TYPES.values() if name == tensor.dtype), 8)
    return (math.prod(max(size, 1) for size in tensor.shape) * bits + 7) // 8


def headline(bundle: Bundle) -> str:
    """The model and its plan on one line, for a comment."""
    return _commentable(f"{bundle.model_file} on {bundle.plan.describe()}")


def tensor_comment(tensor: BundleTensor) -> str:
    """The name of a tensor and what it holds, for a comment."""
    shape = "x".join(str(size) for size in tensor.shape) or "scalar"
    offset = f" {'-' if tensor.zero_point > 0 else '+'} {abs(tensor.zero_point)}" if tensor.zero_point else ""
    quantized = f"; real = (stored{offset}) * {tensor.scale!r}" if tensor.scale else ""
    return f"{_commentable(tensor.name)}: {_commentable(tensor.dtype)} {shape}{quantized}"


def _commentable(text: str) -> str:
    """The text without letters that could end a comment of any language, or begin an escape in it."""
    return "".join(letter if letter.isprintable() and letter not in '\\"*' else "_" for letter in text)


def plain(letter: str) -> str:
    """The letter, if it can stand in a literal of any language as it is, or else nothing."""
    return letter if letter.isascii() and letter.isprintable() and letter not in '"\\?$' else ""
