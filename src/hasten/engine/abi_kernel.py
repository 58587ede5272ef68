"""The C structures of a library of custom kernels (`hasten_kernel.h`)."""

from __future__ import annotations

import ctypes as c
from typing import Final

from hasten.engine.abi import MAX_RANK

VERSION: Final = 1
"""Of the interface between a library and the engine (HASTEN_KERNEL_ABI)."""


class KernelTensor(c.Structure):
    """HastenTensor."""

    _fields_ = (("type", c.c_int32), ("rank", c.c_int32), ("shape", c.c_int32 * MAX_RANK), ("data", c.c_void_p))


class KernelCall(c.Structure):
    """HastenCall."""

    _fields_ = (
        ("input_count", c.c_int),
        ("inputs", c.POINTER(KernelTensor)),
        ("output_count", c.c_int),
        ("outputs", c.POINTER(KernelTensor)),
        ("attributes", c.c_void_p),
        ("attributes_size", c.c_size_t),
        ("state", c.c_void_p),
        ("error", c.c_char_p),
    )


Shapes: Final = c.CFUNCTYPE(c.c_int, c.POINTER(KernelCall))
"""A function that works out the shapes of a call's outputs."""
