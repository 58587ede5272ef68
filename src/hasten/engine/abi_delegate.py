"""The C structures of TensorFlow Lite's delegate interface, which LiteRT's accelerators are built on, and of an
accelerator's definition."""

from __future__ import annotations

import ctypes as c
from typing import Final

BUILTIN_DELEGATE: Final = 51
"""The operator code of a node that stands for a whole partition of a delegate."""

STATUS_OK: Final = 0

Prepare: Final = c.CFUNCTYPE(c.c_int, c.c_void_p, c.c_void_p)
_GetExecutionPlan: Final = c.CFUNCTYPE(c.c_int, c.c_void_p, c.POINTER(c.c_void_p))
_GetNode: Final = c.CFUNCTYPE(c.c_int, c.c_void_p, c.c_int, c.POINTER(c.c_void_p), c.POINTER(c.c_void_p))


class Delegate(c.Structure):
    """TfLiteDelegate."""

    _fields_ = (
        ("data", c.c_void_p),
        ("prepare", c.c_void_p),
        ("copy_from_buffer", c.c_void_p),
        ("copy_to_buffer", c.c_void_p),
        ("free_buffer", c.c_void_p),
        ("flags", c.c_int64),
        ("opaque_builder", c.c_void_p),
    )


class Context(c.Structure):
    """TfLiteContext, as far as it is read here. Its functions may be called inside a delegate's Prepare only."""

    _fields_ = (
        ("tensors_size", c.c_size_t),
        ("get_execution_plan", _GetExecutionPlan),
        ("tensors", c.c_void_p),
        ("implementation", c.c_void_p),
        ("resize_tensor", c.c_void_p),
        ("report_error", c.c_void_p),
        ("add_tensors", c.c_void_p),
        ("get_node", _GetNode),
    )


class Node(c.Structure):
    """TfLiteNode."""

    _fields_ = (
        ("inputs", c.c_void_p),
        ("outputs", c.c_void_p),
        ("intermediates", c.c_void_p),
        ("temporaries", c.c_void_p),
        ("user_data", c.c_void_p),
        ("builtin_data", c.c_void_p),
        ("custom_data", c.c_void_p),
        ("custom_size", c.c_int),
        ("delegate", c.c_void_p),
    )


class Registration(c.Structure):
    """TfLiteRegistration, as far as it is read here."""

    _fields_ = (
        ("init", c.c_void_p),
        ("free", c.c_void_p),
        ("prepare", c.c_void_p),
        ("invoke", c.c_void_p),
        ("profiling_string", c.c_void_p),
        ("builtin_code", c.c_int32),
        ("custom_name", c.c_char_p),
    )


class PartitionParameters(c.Structure):
    """TfLiteDelegateParams: what the node of a partition holds as its data."""

    _fields_ = (("delegate", c.c_void_p), ("nodes", c.c_void_p))


class OpaquePartitionParameters(c.Structure):
    """TfLiteOpaqueDelegateParams: the same for a delegate that was made by an opaque builder."""

    _fields_ = (("delegate", c.c_void_p), ("delegate_data", c.c_void_p), ("nodes", c.c_void_p))


class AcceleratorDefinition(c.Structure):
    """LiteRtAcceleratorDef, version 1, up to the functions that every accelerator has."""

    _fields_ = (
        ("struct_size", c.c_uint16),
        ("major_version", c.c_uint16),
        ("minor_version", c.c_uint16),
        ("reserved", c.c_uint16),
        ("get_name", c.c_void_p),
        ("get_version", c.c_void_p),
        ("get_hardware", c.c_void_p),
        ("compiles_itself", c.c_void_p),
        ("create_delegate", c.c_void_p),
    )


def integers_at(address: int | None) -> tuple[int, ...]:
    """The content of a TfLiteIntArray: its size, then its elements."""
    if not address:
        return ()
    size = c.c_int.from_address(address).value
    return tuple((c.c_int * size).from_address(address + c.sizeof(c.c_int)))
