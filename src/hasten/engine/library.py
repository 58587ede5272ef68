"""libLiteRt.so: found in the installed wheel, its release checked, its functions declared and their status checked."""

from __future__ import annotations

import ctypes as c
import functools
import importlib.metadata
import importlib.util
from pathlib import Path
from typing import Any, Final

from hasten.core.errors import TargetError
from hasten.core.failure import NOT_INSTALLED
from hasten.core.shared_library import ENGINE_LIBRARY, REINSTALL, refuse_cut_off_engine
from hasten.engine import abi

# The structures in `abi` were checked against these releases. Another one may have moved a field: refuse, don't crash.
KNOWN_RELEASES: Final = ("2.3.0",)
_DISTRIBUTION: Final = "ai-edge-litert"
_INSTALL: Final = f"pip install {_DISTRIBUTION}=={KNOWN_RELEASES[-1]}"
_DOCTOR: Final = "Check the installation with hasten doctor."

_handle = c.c_void_p
_out = c.POINTER(c.c_void_p)
_size = c.c_size_t
_text = c.c_char_p
_flag_out = c.POINTER(c.c_bool)
_int_out = c.POINTER(c.c_int)
_size_out = c.POINTER(c.c_size_t)
_text_out = c.POINTER(c.c_char_p)

# Functions that answer a LiteRtStatus.
_CHECKED: Final[dict[str, tuple[Any, ...]]] = {
    "LiteRtCreateEnvironment": (c.c_int, c.POINTER(abi.EnvironmentOption), _out),
    "LiteRtCreateModelFromFile": (_handle, _text, _out),
    "LiteRtGetNumModelSignatures": (_handle, _size_out),
    "LiteRtGetModelSignature": (_handle, _size, _out),
    "LiteRtGetSignatureKey": (_handle, _text_out),
    "LiteRtGetNumSignatureInputs": (_handle, _size_out),
    "LiteRtGetSignatureInputName": (_handle, _size, _text_out),
    "LiteRtGetSignatureInputTensorByIndex": (_handle, _size, _out),
    "LiteRtGetNumSignatureOutputs": (_handle, _size_out),
    "LiteRtGetSignatureOutputName": (_handle, _size, _text_out),
    "LiteRtGetSignatureOutputTensorByIndex": (_handle, _size, _out),
    "LiteRtGetTensorTypeId": (_handle, _int_out),
    "LiteRtGetRankedTensorType": (_handle, c.POINTER(abi.RankedTensorType)),
    "LiteRtGetUnrankedTensorType": (_handle, _int_out),
    "LiteRtGetQuantizationTypeId": (_handle, _int_out),
    "LiteRtGetPerTensorQuantization": (_handle, c.POINTER(abi.PerTensorQuantization)),
    "LiteRtCreateOptions": (_out,),
    "LiteRtSetOptionsHardwareAccelerators": (_handle, c.c_int),
    "LiteRtCreateOpaqueOptions": (_text, c.c_void_p, c.c_void_p, _out),
    "LiteRtAddOpaqueOptions": (_handle, _handle),
    "LiteRtCreateCompiledModel": (_handle, _handle, _handle, _out),
    "LiteRtCompiledModelResizeInputTensorNonStrict": (_handle, _size, _size, c.POINTER(c.c_int), _size),
    "LiteRtGetCompiledModelInputTensorLayout": (_handle, _size, _size, c.POINTER(abi.Layout)),
    "LiteRtGetCompiledModelOutputTensorLayouts": (_handle, _size, _size, c.POINTER(abi.Layout), c.c_bool),
    "LiteRtGetCompiledModelInputBufferRequirements": (_handle, _size, _size, _out),
    "LiteRtGetCompiledModelOutputBufferRequirements": (_handle, _size, _size, _out),
    "LiteRtGetTensorBufferRequirementsBufferSize": (_handle, _size_out),
    "LiteRtGetNumTensorBufferRequirementsSupportedBufferTypes": (_handle, _int_out),
    "LiteRtGetTensorBufferRequirementsSupportedTensorBufferType": (_handle, c.c_int, _int_out),
    "LiteRtCreateManagedTensorBufferFromRequirements": (_handle, c.POINTER(abi.RankedTensorType), _handle, _out),
    "LiteRtCreateTensorBufferFromHostMemory": (c.POINTER(abi.RankedTensorType), c.c_void_p, _size, c.c_void_p, _out),
    "LiteRtLockTensorBuffer": (_handle, _out, c.c_int),
    "LiteRtUnlockTensorBuffer": (_handle,),
    "LiteRtRunCompiledModel": (_handle, _size, _size, c.c_void_p, _size, c.c_void_p),
    "LiteRtCompiledModelIsFullyAccelerated": (_handle, _flag_out),
    "LiteRtCompiledModelIsNonCpuFullyAccelerated": (_handle, _flag_out),
    "LiteRtCompiledModelGetErrorMessages": (_handle, _out),
    "LiteRtCompiledModelGetProfiler": (_handle, _out),
    "LiteRtStartProfiler": (_handle,),
    "LiteRtStopProfiler": (_handle,),
    "LiteRtResetProfiler": (_handle,),
    "LiteRtGetNumProfilerEvents": (_handle, _int_out),
    "LiteRtGetProfilerEvents": (_handle, c.c_int, c.POINTER(abi.ProfilerEvent)),
    "LiteRtCreateAccelerator": (_out,),
    "LiteRtRegisterAccelerator": (_handle, _handle, c.c_void_p, c.c_void_p),
    "LiteRtSetAcceleratorGetName": (_handle, c.c_void_p),
    "LiteRtSetAcceleratorGetVersion": (_handle, c.c_void_p),
    "LiteRtSetAcceleratorGetHardwareSupport": (_handle, c.c_void_p),
    "LiteRtSetDelegateFunction": (_handle, c.c_void_p),
    "LiteRtSetIsAcceleratorDelegateResponsibleForJitCompilation": (_handle, c.c_void_p),
    "LiteRtWrapDelegate": (c.c_void_p, c.c_void_p, _out),
    "LiteRtUnwrapDelegate": (c.c_void_p, _out),
}
_UNCHECKED: Final = (
    "LiteRtDestroyEnvironment",
    "LiteRtDestroyModel",
    "LiteRtDestroyOptions",
    "LiteRtDestroyCompiledModel",
    "LiteRtDestroyTensorBuffer",
)


class EngineError(Exception):
    """A call into LiteRT that answered a status other than OK. Mapped to a Failure by the runner."""

    def __init__(self, function: str, status: int) -> None:
        super().__init__(f"{function} answered {abi.STATUS_NAMES.get(status, 'an unknown status')} ({status})")
        self.function = function
        self.status = status


class Library:
    """The engine's functions. `call` checks the status; `function` hands out the bare one for timed loops."""

    def __init__(self, path: Path) -> None:
        self.folder = path.parent
        self._library = c.CDLL(str(path))
        self._thin = c.PyDLL(str(path))
        for name, argument_types in _CHECKED.items():
            declared = self._library[name]
            declared.argtypes, declared.restype = argument_types, c.c_int
            setattr(self._library, name, declared)
        for name in _UNCHECKED:
            declared = self._library[name]
            declared.argtypes, declared.restype = (_handle,), None
            setattr(self._library, name, declared)

    @property
    def handle(self) -> int:
        """What the dynamic linker calls this library: other native code looks its functions up by it."""
        return int(self._library._handle)

    def function(self, name: str) -> Any:
        """The bare C function."""
        return getattr(self._library, name)

    def thin_function(self, name: str) -> Any:
        """The function for timed loops: it takes ready-made C values, and keeps Python's lock, as nobody else wants it.

        Checking the arguments and letting the lock go costs about a microsecond a call, as much as a tiny model.
        """
        declared = self._thin[name]
        declared.restype = c.c_int
        return declared

    def data_pointer(self, name: str) -> int | None:
        """The address that an exported pointer holds."""
        return c.c_void_p.in_dll(self._library, name).value

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function; a status other than OK is an EngineError."""
        status = getattr(self._library, name)(*arguments)
        if status != 0:
            raise EngineError(name, status)

    def create(self, name: str, *arguments: Any) -> c.c_void_p:
        """Call a function whose last parameter receives a handle, and return that handle."""
        handle = c.c_void_p()
        self.call(name, *arguments, c.byref(handle))
        return handle

    def number(self, name: str, *arguments: Any) -> int:
        """Call a function whose last parameter receives a size."""
        value = c.c_size_t()
        self.call(name, *arguments, c.byref(value))
        return value.value

    def integer(self, name: str, *arguments: Any) -> int:
        """Call a function whose last parameter receives an int or an enumerator."""
        value = c.c_int()
        self.call(name, *arguments, c.byref(value))
        return value.value

    def flag(self, name: str, *arguments: Any) -> bool:
        """Call a function whose last parameter receives a bool."""
        value = c.c_bool()
        self.call(name, *arguments, c.byref(value))
        return value.value

    def text(self, name: str, *arguments: Any) -> str:
        """Call a function whose last parameter receives a string that the engine keeps."""
        value = c.c_char_p()
        self.call(name, *arguments, c.byref(value))
        return (value.value or b"").decode(errors="replace")


def release() -> str:
    """The installed release of LiteRT, checked against those that this binding knows."""
    try:
        found = importlib.metadata.version(_DISTRIBUTION)
    except importlib.metadata.PackageNotFoundError:
        raise TargetError("LiteRT is not installed.", f"Install it: {_INSTALL}", code=NOT_INSTALLED) from None
    if found not in KNOWN_RELEASES:
        raise TargetError(
            f"This hasten supports LiteRT {', '.join(KNOWN_RELEASES)}, but {found} is installed.",
            f"Install a supported release ({_INSTALL}), or a newer hasten.",
        )
    refuse_cut_off_engine()
    return found


@functools.cache
def load() -> Library:
    """The engine, loaded once a process."""
    release()
    spec = importlib.util.find_spec("ai_edge_litert")
    if spec is None or not spec.submodule_search_locations:
        raise TargetError("LiteRT is installed but cannot be imported.", REINSTALL)
    path = Path(spec.submodule_search_locations[0]) / ENGINE_LIBRARY
    try:
        return Library(path)
    except OSError as error:
        raise TargetError(f"LiteRT's library does not load: {error}.", _DOCTOR) from error
    except AttributeError as error:
        raise TargetError(f"LiteRT's library lacks a function: {error}.", _DOCTOR) from error
