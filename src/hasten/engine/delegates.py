"""External delegate libraries: loaded by path, made with their options, and their complaints kept."""

from __future__ import annotations

import ctypes as c
from pathlib import Path
from typing import Final

from hasten.core.errors import AcceleratorError, UsageError
from hasten.engine.native_library import open_library

_CREATE: Final = "tflite_plugin_create_delegate"
_DESTROY: Final = "tflite_plugin_destroy_delegate"
_ReportError = c.CFUNCTYPE(None, c.c_char_p)


class ExternalDelegate:
    """A delegate library with its options (`LIB[:key=value;…]`). Must outlive the models that use it."""

    def __init__(self, setting: str) -> None:
        path, _, option_text = setting.partition(":")
        self.name = Path(path).name
        self._complaints: list[str] = []
        self.was_refused = False
        self._report_error = _ReportError(self._note)
        self._keys, self._values = _option_arrays(option_text)
        self._plugin = open_library(path, "delegate library", "an external delegate", (_CREATE, _DESTROY))
        self._create = self._plugin[_CREATE]
        self._create.restype = c.c_void_p
        self._create.argtypes = (c.c_void_p, c.c_void_p, c.c_size_t, _ReportError)

    @property
    def destructor(self) -> c.c_void_p:
        """The library's function that destroys a delegate."""
        return c.cast(self._plugin[_DESTROY], c.c_void_p)

    def create(self) -> int:
        """Make a delegate: its address, or 0 if the library refuses."""
        count = len(self._keys)
        keys, values = (self._keys, self._values) if count else (None, None)
        address = int(self._create(keys, values, count, self._report_error) or 0)
        self.was_refused = address == 0
        return address

    def refusal(self) -> AcceleratorError:
        """Why no delegate came of it, in the library's own words if it has any."""
        said = f": {' '.join(self._complaints)}" if self._complaints else " and gave no reason"
        return AcceleratorError(
            f"The delegate {self.name} could not be created{said}.", "Check the options that the plan gives it."
        )

    def _note(self, message: bytes | None) -> None:
        self._complaints.append((message or b"").decode(errors="replace").strip())


def _option_arrays(text: str) -> tuple[c.Array[c.c_char_p], c.Array[c.c_char_p]]:
    pairs = [item.partition("=") for item in text.split(";") if item]
    if wrong := [key for key, equals, _ in pairs if not equals]:
        raise UsageError(f"A delegate's options are key=value, not {wrong[0]!r}.", "Write LIB:key=value;key=value.")
    array_type = c.c_char_p * len(pairs)
    return array_type(*(key.encode() for key, _, _ in pairs)), array_type(*(value.encode() for _, _, value in pairs))
