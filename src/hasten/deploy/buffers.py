"""A model's inputs or outputs as NumPy arrays, by name. Assignments are checked, never converted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hasten.core.errors import DataError, UsageError
from hasten.engine.classic import ClassicTensor

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hasten.engine.tensors import Tensor

    Array = NDArray[Any]

# Types that NumPy does not have, as the one that holds their bits. Packed elements share a byte.
_STAND_INS: Final = {"bfloat16": "uint16", "float8_e4m3fn": "uint8", "float8_e5m2": "uint8"}
_PACKED: Final = frozenset({"int4", "uint4", "int2"})


class Buffer:
    """One input or output: a view of the memory that the engine works in, or else an array that runs copy."""

    def __init__(
        self, tensor: Tensor | ClassicTensor, quantization: tuple[float, int], *, is_input: bool, name: str = ""
    ) -> None:
        self.tensor, self.name, self.dtype = tensor, name or tensor.name, tensor.dtype
        self.scale, self.zero_point = quantization if "float" not in tensor.dtype else (0.0, 0)
        self.is_input = is_input
        memory = None if isinstance(tensor, ClassicTensor) else tensor.shared_memory()
        self.is_view = memory is not None
        self._bytes = memory if memory is not None else memoryview(bytearray(tensor.byte_count))
        kind = np.dtype("uint8" if self.dtype in _PACKED else _STAND_INS.get(self.dtype, self.dtype))
        array: Array = np.frombuffer(self._bytes, dtype=kind) if len(self._bytes) else np.empty(0, kind)
        if not is_input:
            array.flags.writeable = False
        self.array = array if self.dtype in _PACKED else array.reshape(tensor.shape)

    def push(self) -> None:
        """Copy an input to the engine, unless it works in this memory."""
        if not self.is_view:
            self.tensor.write(self._bytes)

    def pull(self) -> None:
        """Copy an output from the engine, unless it works in this memory."""
        if not self.is_view:
            self._bytes[:] = self.tensor.read()

    def check(self, value: object) -> None:
        """Refuse values of another type or shape: a silent conversion would be a hidden copy."""
        if not isinstance(value, np.ndarray):
            raise DataError(
                f"Input {self.name!r} takes a NumPy array, not {type(value).__name__}.", f"Pass {self.describe()}."
            )
        if value.dtype != self.array.dtype:
            hint = f"Pass {self.describe()}."
            if self.scale and value.dtype.kind == "f":
                hint = f"Call runner.quantize({self.name!r}, values) to write real values."
            raise DataError(f"Input {self.name!r} takes {self.array.dtype}, not {value.dtype}.", hint)
        if value.shape != self.array.shape:
            raise DataError(
                f"Input {self.name!r} takes the shape {_shape(self.array.shape)}, not {_shape(value.shape)}.",
                "Reshape the array, or load the model with hasten.Workload(shapes=…).",
            )

    def quantized(self, values: Array) -> Array:
        """Real values as this tensor stores them; those beyond its range are clipped."""
        if not self.scale:
            raise UsageError(
                f"{self.name!r} holds {self.dtype} values without a scale, so they are not quantized.",
                f"Assign the values directly: runner.inputs[{self.name!r}] = values.",
            )
        limits = np.iinfo(self.array.dtype)
        scaled = np.rint(np.asarray(values, np.float32) / np.float32(self.scale)) + self.zero_point
        return np.asarray(np.clip(scaled, limits.min, limits.max).astype(self.array.dtype))

    def real(self) -> Array:
        """A copy of the values as real numbers."""
        if not self.scale:
            return np.array(self.array)
        return np.asarray((self.array.astype(np.float32) - np.float32(self.zero_point)) * np.float32(self.scale))

    def describe(self) -> str:
        """The type and shape, and how stored values become real ones."""
        stored = f", real = (stored - {self.zero_point}) x {self.scale:.6g}" if self.scale else ""
        return f"{self.array.dtype} of shape {_shape(self.array.shape)}{stored}"


class Buffers(Mapping[str, "Array"]):
    """The arrays by name. Assigning to a name checks type and shape and copies; writing into an array does not."""

    def __init__(self, buffers: tuple[Buffer, ...], what: str) -> None:
        self._buffers = {buffer.name: buffer for buffer in buffers}
        self._what = what
        self._is_closed = False

    def __getitem__(self, name: str) -> Array:
        return self.buffer(name).array

    def __setitem__(self, name: str, value: Array) -> None:
        buffer = self.buffer(name)
        if not buffer.is_input:
            raise UsageError(f"{name!r} is an output: only a run writes it.", "Assign to runner.inputs.")
        buffer.check(value)
        np.copyto(buffer.array, value)

    def __iter__(self) -> Iterator[str]:
        return iter(self._buffers)

    def __len__(self) -> int:
        return len(self._buffers)

    def __contains__(self, name: object) -> bool:
        return name in self._buffers

    def buffer(self, name: str) -> Buffer:
        """The buffer with this name."""
        if self._is_closed:
            raise UsageError("This Runner is closed.", "Create another Runner.")
        if name not in self._buffers:
            known = ", ".join(map(repr, self._buffers)) or "none"
            raise UsageError(f"The model has no {self._what} {name!r}.", f"Use one of its {self._what}s: {known}.")
        return self._buffers[name]

    def all(self) -> tuple[Buffer, ...]:
        """Every buffer, in the model's order."""
        return tuple(self._buffers.values())

    def replace(self, buffers: tuple[Buffer, ...]) -> None:
        """Put other buffers under the same names, after a run that changed sizes."""
        self._buffers = {buffer.name: buffer for buffer in buffers}

    def close(self) -> None:
        """Hand out no more arrays. Arrays that the application still holds keep their memory."""
        self._is_closed = True


def _shape(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape)) or "() (a scalar)"
