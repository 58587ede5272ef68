"""Tensor buffers of a loaded model: memory shared with the engine where it runs on the host, locked elsewhere."""

from __future__ import annotations

import contextlib
import ctypes as c
import mmap
import random
import struct
from typing import TYPE_CHECKING, Final

from hasten.core.errors import DataError, ModelError
from hasten.engine import abi

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hasten.engine.library import Library

_HOST_MEMORY: Final = 1
_NO_SIZE: Final = "Convert it: LiteRT 2.3 makes no buffers for string, resource and variant tensors."
_PATTERN_ELEMENTS: Final = 4096
# Memory from the system begins at a page. Buffers that all begin there fight for the same lines of the cache: a model
# that reads 1 MB was 6 % slower for it. Any other multiple of the engine's alignment is as good as this one.
_PAGE_OFFSET: Final = 1024
# A file that gives an output no dimensions may mean a single number, or a size that only a run can tell (detections,
# say). The engine checks that a buffer is large enough, not that it fits: pages never touched cost nothing.
_ROOM_FOR_UNKNOWN: Final = 1 << 20
_RANDOM_BYTES: Final = frozenset({"int8", "uint8", "int16", "uint16", "int4", "uint4", "int2"})
_REAL_CODES: Final = {"float32": "f", "float64": "d", "float16": "e", "complex64": "f", "complex128": "d"}
_WHOLE_CODES: Final = {"int32": "i", "int64": "q", "uint32": "I", "uint64": "Q", "bool": "?"}


class Tensor:
    """One input or output: name, type, shape and its buffer."""

    def __init__(
        self, library: Library, environment: c.c_void_p, name: str, kind: abi.RankedTensorType, requirements: c.c_void_p
    ) -> None:
        self.name = name
        self.dtype, bits = abi.ELEMENT_TYPES.get(kind.element_type, (f"type {kind.element_type}", 0))
        self.shape = kind.layout.shape()
        if bits == 0:
            raise ModelError(f"Tensor {name!r} has the type {self.dtype}, which hasten cannot feed.", _NO_SIZE)
        count = 1
        for size in self.shape:
            count *= size
        self.byte_count = (count * bits + 7) // 8
        self._library = library
        self._memory: mmap.mmap | None = None
        needed = max(library.number("LiteRtGetTensorBufferRequirementsBufferSize", requirements), self.byte_count)
        if not self.shape:
            needed = max(needed, _ROOM_FOR_UNKNOWN)
        if _wants_host_memory(library, requirements):
            self._memory = _host_memory(max(needed, 1))
            address = c.addressof(c.c_char.from_buffer(self._memory, _PAGE_OFFSET))
            self.handle = library.create(
                "LiteRtCreateTensorBufferFromHostMemory", c.byref(kind), address, max(needed, 1), None
            )
        else:
            self.handle = library.create(
                "LiteRtCreateManagedTensorBufferFromRequirements", environment, c.byref(kind), requirements
            )

    @property
    def is_shared(self) -> bool:
        """Whether the engine works in our memory, with no copy."""
        return self._memory is not None

    def shared_memory(self) -> memoryview | None:
        """The memory of ours that the engine works in, for as long as somebody holds it; None if it works elsewhere."""
        if self._memory is None:
            return None
        return memoryview(self._memory)[_PAGE_OFFSET : _PAGE_OFFSET + self.byte_count]

    @contextlib.contextmanager
    def view(self, mode: int) -> Iterator[memoryview]:
        """The tensor's bytes, without a copy; valid inside the `with` only."""
        shared = self.shared_memory()
        if shared is not None:
            yield shared
            return
        address = c.c_void_p()
        self._library.call("LiteRtLockTensorBuffer", self.handle, c.byref(address), mode)
        try:
            yield memoryview((c.c_char * self.byte_count).from_address(address.value or 0)).cast("B")
        finally:
            self._library.call("LiteRtUnlockTensorBuffer", self.handle)

    def wait(self) -> None:
        """Return when the tensor's bytes can be read from here, and so are computed."""
        with self.view(abi.LOCK_READ):
            pass

    def write(self, data: bytes | memoryview) -> None:
        """Fill the tensor; the data must have its size."""
        if len(data) != self.byte_count:
            raise DataError(f"Tensor {self.name!r} takes {self.byte_count} bytes, not {len(data)}.")
        with self.view(abi.LOCK_WRITE) as target:
            target[:] = data

    def read(self) -> bytes:
        """A copy of the tensor's bytes."""
        with self.view(abi.LOCK_READ) as source:
            return bytes(source)

    def fill(self, seed: int) -> None:
        """Plausible, seeded values: floats in 0..1, quantized types over their range, indices and flags 0 or 1."""
        self.write(plausible_bytes(self.dtype, self.byte_count, seed))

    def close(self) -> None:
        """Give the buffer back to the engine."""
        self._library.function("LiteRtDestroyTensorBuffer")(self.handle)


def plausible_bytes(dtype: str, byte_count: int, seed: int) -> bytes:
    """Seeded values for a tensor. Without NumPy: a runner must start fast, and on devices that have none.

    A short random pattern is repeated, as the time of a run does not hang on the values. Wide integers are most often
    token ids or indices, where anything but a small number would be out of range.
    """
    source = random.Random(seed)
    if dtype in _RANDOM_BYTES:
        pattern = source.randbytes(_PATTERN_ELEMENTS)
    elif code := _REAL_CODES.get(dtype):
        pattern = struct.pack(f"<{_PATTERN_ELEMENTS}{code}", *(source.random() for _ in range(_PATTERN_ELEMENTS)))
    elif code := _WHOLE_CODES.get(dtype):
        pattern = struct.pack(f"<{_PATTERN_ELEMENTS}{code}", *(source.randrange(2) for _ in range(_PATTERN_ELEMENTS)))
    else:
        pattern = bytes(8)
    return (pattern * (byte_count // len(pattern) + 1))[:byte_count]


def whole_bytes(dtype: str, byte_count: int, number: int) -> bytes | None:
    """One number throughout, for a tensor of indices, sizes or flags; None for other types."""
    if dtype not in _WHOLE_CODES:
        return None
    element = struct.pack(f"<{_WHOLE_CODES[dtype]}", number)
    return element * (byte_count // len(element))


def _host_memory(byte_count: int) -> mmap.mmap:
    """Memory from the system itself: it begins at a page, whatever the engine's alignment demands."""
    try:
        return mmap.mmap(-1, _PAGE_OFFSET + byte_count)
    except (OSError, OverflowError) as error:
        raise MemoryError(f"a tensor of {byte_count} bytes") from error


def _wants_host_memory(library: Library, requirements: c.c_void_p) -> bool:
    if library.integer("LiteRtGetNumTensorBufferRequirementsSupportedBufferTypes", requirements) == 0:
        return False
    first = library.integer("LiteRtGetTensorBufferRequirementsSupportedTensorBufferType", requirements, 0)
    return first == _HOST_MEMORY
