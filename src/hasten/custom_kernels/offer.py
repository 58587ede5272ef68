"""An offer: a kernel that could take the place of operators, with all that the rewritten model must hold for it."""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hasten.core.errors import ModelError
from hasten.engine import abi

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from hasten.model.edit.graph import Operator

    Constants = Mapping[int, NDArray[Any]]

MAX_RANK: Final = 6
"""Of the tensors that hasten's own kernels take; the interface has room for 8."""
MAX_TENSORS: Final = 32
"""Inputs of a kernel, and outputs (HASTEN_MAX_TENSORS)."""
# Of an operator's options, as hasten_glue.c reads them.
_MAGIC: Final = b"HKP1"
_HEADER: Final = struct.Struct("<4s3i")
_CONSTANT: Final = struct.Struct("<3i8iiq")
_STEP: Final = 64


@dataclass(frozen=True, slots=True)
class Offer:
    """A kernel for nodes of a model's main graph."""

    kernel: str
    """Its name in its library."""
    replaces: str
    """What it replaces, in the words of a profile: an operator, or a chain of them (`MUL,ADD`)."""
    nodes: tuple[int, ...]
    inputs: tuple[int, ...]
    """The tensors that the engine hands over; constants are in `data`."""
    outputs: tuple[int, ...]
    data: bytes = b""
    """The options of the custom operator."""
    tolerance: float = 0.0
    """How far outputs may lie from the original's, as a share of the largest; 0: bit for bit equal."""

    @property
    def custom_code(self) -> str:
        """The name of the custom operator: one for each set of options, as LiteRT does not tell operators apart."""
        return f"{self.kernel}#{hashlib.sha256(self.data).hexdigest()[:12]}" if self.data else self.kernel


@dataclass(frozen=True, slots=True)
class Found:
    """An offer, and the operators of a graph that is being edited that it is about; in execution order."""

    offer: Offer
    operators: tuple[Operator, ...]


def encoded(attributes: bytes = b"", constants: Constants | None = None) -> bytes:
    """The options of a custom operator: its attributes, and constants by their places among the kernel's inputs."""
    found = sorted((constants or {}).items())
    if not found and not attributes:
        return b""
    headers, bodies = [], []
    for position, values in found:
        raw = np.ascontiguousarray(values).astype(values.dtype.newbyteorder("<"), copy=False).tobytes()
        shape = [*values.shape, *[0] * (abi.MAX_RANK - values.ndim)]
        headers.append(_CONSTANT.pack(position, _code(values), values.ndim, *shape, 0, len(raw)))
        bodies.append(_padded(raw))
    head = _HEADER.pack(_MAGIC, len(found), len(attributes), 0) + b"".join(headers) + attributes
    return _padded(head) + b"".join(bodies)


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % _STEP)


def _code(values: NDArray[Any]) -> int:
    name = values.dtype.name
    if name not in abi.ELEMENT_CODES or values.ndim > abi.MAX_RANK:
        raise ModelError(f"A constant of type {name} with {values.ndim} dimensions cannot be given to a kernel.")
    return abi.ELEMENT_CODES[name]
