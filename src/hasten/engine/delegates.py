"""External delegate libraries: loaded by path and registered with the engine as an accelerator of their own."""

from __future__ import annotations

import ctypes as c
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from hasten.core.errors import AcceleratorError
from hasten.engine import abi

if TYPE_CHECKING:
    from hasten.engine.library import Library

_NAME: Final = b"hasten external delegate"
_OK: Final = 0
_ERROR: Final = 9

_GetName = c.CFUNCTYPE(c.c_int, c.c_void_p, c.POINTER(c.c_char_p))
_GetVersion = c.CFUNCTYPE(c.c_int, c.c_void_p, c.POINTER(c.c_int * 3))
_GetHardware = c.CFUNCTYPE(c.c_int, c.c_void_p, c.POINTER(c.c_int))
_CreateDelegate = c.CFUNCTYPE(c.c_int, c.c_void_p, c.c_void_p, c.c_void_p, c.c_void_p, c.POINTER(c.c_void_p))
_ReportError = c.CFUNCTYPE(None, c.c_char_p)


def register_delegate(library: Library, environment: c.c_void_p, setting: str) -> list[Any]:
    """Load the library (`LIB[:key=value;…]`) and register it. The caller keeps what is returned alive."""
    path, _, option_text = setting.partition(":")
    plugin = _open(path)
    keys, values = _option_arrays(option_text)

    @_ReportError
    def report_error(message: bytes) -> None:
        raise AcceleratorError(f"the delegate {path} says: {message.decode(errors='replace')}")

    @_GetName
    def get_name(_accelerator: int, name: Any) -> int:
        name[0] = _NAME
        return _OK

    @_GetVersion
    def get_version(_accelerator: int, version: Any) -> int:
        version[0][:] = [0, 1, 0]
        return _OK

    @_GetHardware
    def get_hardware(_accelerator: int, bits: Any) -> int:
        bits[0] = abi.NPU
        return _OK

    @_CreateDelegate
    def create(_context: int, _environment: int, _accelerator: int, _options: int, wrapper: Any) -> int:
        delegate = plugin.tflite_plugin_create_delegate(keys, values, len(keys), report_error)
        if not delegate:
            return _ERROR
        destroy = c.cast(plugin.tflite_plugin_destroy_delegate, c.c_void_p)
        wrapper[0] = library.create("LiteRtWrapDelegate", delegate, destroy)
        return _OK

    accelerator = library.create("LiteRtCreateAccelerator")
    library.call("LiteRtSetAcceleratorGetName", accelerator, c.cast(get_name, c.c_void_p))
    library.call("LiteRtSetAcceleratorGetVersion", accelerator, c.cast(get_version, c.c_void_p))
    library.call("LiteRtSetAcceleratorGetHardwareSupport", accelerator, c.cast(get_hardware, c.c_void_p))
    library.call("LiteRtSetDelegateFunction", accelerator, c.cast(create, c.c_void_p))
    library.call("LiteRtRegisterAccelerator", environment, accelerator, None, None)
    return [plugin, keys, values, report_error, get_name, get_version, get_hardware, create]


def _open(path: str) -> c.CDLL:
    if not Path(path).is_file():
        raise AcceleratorError(f"there is no delegate library at {path}", "Give the path of a shared library (.so).")
    try:
        plugin = c.CDLL(str(Path(path).resolve()))
        plugin.tflite_plugin_create_delegate.restype = c.c_void_p
        plugin.tflite_plugin_create_delegate.argtypes = (c.c_void_p, c.c_void_p, c.c_size_t, _ReportError)
        _ = plugin.tflite_plugin_destroy_delegate
    except OSError as error:
        raise AcceleratorError(f"the delegate library will not load: {error}") from error
    except AttributeError as error:
        raise AcceleratorError(
            f"{path} is not an external delegate: {error}",
            "It must export tflite_plugin_create_delegate and tflite_plugin_destroy_delegate.",
        ) from error
    return plugin


def _option_arrays(text: str) -> tuple[c.Array[c.c_char_p], c.Array[c.c_char_p]]:
    pairs = [item.partition("=") for item in text.split(";") if item]
    array_type = c.c_char_p * len(pairs)
    return array_type(*(key.encode() for key, _, _ in pairs)), array_type(*(value.encode() for _, _, value in pairs))
