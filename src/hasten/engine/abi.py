"""The C structures and constants of LiteRT's interface, as they are laid out in the releases that `library` accepts."""

from __future__ import annotations

import ctypes as c
from typing import Final

# Bits of LiteRtHwAccelerators.
CPU: Final = 1
GPU: Final = 2
NPU: Final = 4

# Tags of LiteRtEnvOption.
TAG_COMPILER_PLUGIN_FOLDER: Final = 0
TAG_DISPATCH_FOLDER: Final = 1
TAG_COMPILER_CACHE_FOLDER: Final = 18
TAG_RUNTIME_FOLDER: Final = 22
TAG_AUTO_REGISTER: Final = 24
TAG_LOG_SEVERITY: Final = 25

# Types of LiteRtAny.
ANY_INT: Final = 2
ANY_STRING: Final = 8

# Values of TAG_LOG_SEVERITY.
LOG_WARNINGS: Final = 2

LOCK_READ: Final = 0
LOCK_WRITE: Final = 1

HOST_ALIGNMENT: Final = 64
MAX_RANK: Final = 8

STATUS_INVALID_ARGUMENT: Final = 1
STATUS_UNSUPPORTED: Final = 5
# LiteRtStatus. The library has no function that names them.
STATUS_NAMES: Final[dict[int, str]] = {
    0: "ok",
    1: "invalid argument",
    2: "memory allocation failure",
    3: "runtime failure",
    4: "missing input tensor",
    5: "unsupported",
    6: "not found",
    7: "timeout expired",
    8: "wrong version",
    9: "unknown error",
    10: "already exists",
    100: "cancelled",
    500: "file input or output error",
    501: "invalid flatbuffer",
    502: "a library could not be loaded",
    503: "serialization error",
    504: "compilation error",
    1000: "index out of bounds",
    1001: "invalid type in the graph",
    1002: "a rule of the graph is broken",
    1003: "graph modification error",
    1500: "invalid tool configuration",
    2000: "no match in legalization",
    2001: "invalid legalization",
    3000: "no match of a pattern",
    3001: "invalid transformation",
    4000: "unsupported runtime version",
    4001: "unsupported compiler version",
    4002: "incompatible byte code version",
    5000: "unsupported operator in shape inference",
    5001: "shape inference failed",
}

# Types of a profiler's event (LiteRtProfilerEventType).
EVENT_DEFAULT: Final = 1
EVENT_OPERATOR: Final = 2
EVENT_DELEGATE_OPERATOR: Final = 4
EVENT_DELEGATE_PROFILED_OPERATOR: Final = 8

# LiteRtElementType: code → (name, bits an element). 0 bits: the engine has the type but no fixed size.
PER_TENSOR: Final = 1
"""LiteRtQuantizationTypeId of a tensor with one scale."""

ELEMENT_TYPES: Final[dict[int, tuple[str, int]]] = {
    1: ("float32", 32),
    2: ("int32", 32),
    3: ("uint8", 8),
    4: ("int64", 64),
    5: ("string", 0),
    6: ("bool", 8),
    7: ("int16", 16),
    8: ("complex64", 64),
    9: ("int8", 8),
    10: ("float16", 16),
    11: ("float64", 64),
    12: ("complex128", 128),
    13: ("uint64", 64),
    14: ("resource", 0),
    15: ("variant", 0),
    16: ("uint32", 32),
    17: ("uint16", 16),
    18: ("int4", 4),
    19: ("bfloat16", 16),
    20: ("int2", 2),
    21: ("uint4", 4),
    22: ("float8_e4m3fn", 8),
    23: ("float8_e5m2", 8),
}
ELEMENT_CODES: Final = {name: code for code, (name, _) in ELEMENT_TYPES.items()}


class Any(c.Structure):
    """LiteRtAny: a tagged value. Only its integer and string members are used here."""

    class _Value(c.Union):
        _fields_ = (("int_value", c.c_int64), ("string_value", c.c_char_p))

    _fields_ = (("type", c.c_int), ("value", _Value))


class EnvironmentOption(c.Structure):
    """LiteRtEnvOption."""

    _fields_ = (("tag", c.c_int), ("value", Any))


class Layout(c.Structure):
    """LiteRtLayout: seven bits of rank and one bit `has_strides` share the first word."""

    _fields_ = (
        ("rank", c.c_uint, 7),
        ("has_strides", c.c_uint, 1),
        ("dimensions", c.c_int32 * MAX_RANK),
        ("strides", c.c_uint32 * MAX_RANK),
    )

    def shape(self) -> tuple[int, ...]:
        """The dimensions that count; one below zero is open."""
        return tuple(self.dimensions[: self.rank])


class RankedTensorType(c.Structure):
    """LiteRtRankedTensorType."""

    _fields_ = (("element_type", c.c_int), ("layout", Layout))


class _MemoryUsage(c.Structure):
    _fields_ = (("total_allocated", c.c_size_t), ("in_use", c.c_size_t), ("private_footprint", c.c_size_t))


class ProfilerEvent(c.Structure):
    """ProfiledEventData."""

    _fields_ = (
        ("tag", c.c_char_p),
        ("type", c.c_int),
        ("start_us", c.c_uint64),
        ("elapsed_us", c.c_uint64),
        ("memory_before", _MemoryUsage),
        ("memory_after", _MemoryUsage),
        ("metadata1", c.c_uint64),
        ("metadata2", c.c_uint64),
        ("source", c.c_int),
    )


# A layout that differs from the library's would corrupt memory silently: better to stop at import.
EXPECTED_SIZES: Final = {Any: 16, EnvironmentOption: 24, Layout: 68, RankedTensorType: 72, ProfilerEvent: 104}
for _structure, _size in EXPECTED_SIZES.items():
    if c.sizeof(_structure) != _size:
        raise ImportError(f"{_structure.__name__} takes {c.sizeof(_structure)} bytes here, LiteRT's takes {_size}")


class PerTensorQuantization(c.Structure):
    """LiteRtQuantizationPerTensor."""

    _fields_ = (("scale", c.c_float), ("zero_point", c.c_int64))
