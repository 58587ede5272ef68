"""Libraries of custom kernels: opened by path, and registered for the custom operators of a model.

The C code in each library (`hasten_glue.c`) does the work: it looks through the model, registers its kernels and hands
LiteRT's buffers to them. No Python runs between LiteRT and a kernel.
"""

from __future__ import annotations

import ctypes as c
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from hasten.core.errors import AcceleratorError
from hasten.engine import abi_kernel
from hasten.engine.native_library import open_library

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hasten.engine.library import Library

_ABI: Final = "hasten_kernel_abi"
_NAME: Final = "hasten_kernel_name"
_ADD: Final = "hasten_add_kernel"
_REGISTER: Final = "hasten_register_kernels"
_FAILURE: Final = "hasten_kernel_failure"
_EXPORTS: Final = (_ABI, _NAME, _ADD, _REGISTER, _FAILURE)


class KernelLibraries:
    """The kernel libraries of a plan. They must outlive the models that use them."""

    def __init__(self, settings: Sequence[str]) -> None:
        self._libraries = [KernelLibrary(setting) for setting in settings]

    def register(self, engine: Library, options: c.c_void_p, model: c.c_void_p) -> None:
        """Register a kernel for each custom operator of a loaded model that a library has one for."""
        for library in self._libraries:
            library.register(engine, options, model)

    def check(self) -> None:
        """Raise an error if a kernel failed since the last time: LiteRT 2.3 ignores what kernels answer."""
        for library in self._libraries:
            library.check()


class KernelLibrary:
    """One library (`LIB`, or `LIB:FILE.py` with kernels in Python for numba)."""

    def __init__(self, setting: str) -> None:
        path, _, source = setting.partition(":")
        self.name = Path(source or path).name
        self._library = open_library(path, "kernel library", "a library of kernels", _EXPORTS)
        version = self._function(_ABI, c.c_int)()
        if version != abi_kernel.VERSION:
            raise AcceleratorError(
                f"{path} has version {version} of the kernel interface; this release supports {abi_kernel.VERSION}.",
                "Build the library again with the hasten_kernel.h of this release.",
            )
        self._failure = self._function(_FAILURE, c.c_char_p)
        if source:
            self._add_python_kernels(Path(source))

    @property
    def kernel_names(self) -> tuple[str, ...]:
        """The names of its kernels: what stands before the # in an operator's custom code."""
        name_at = self._function(_NAME, c.c_char_p, c.c_size_t)
        names: list[str] = []
        while name := name_at(len(names)):
            names.append(name.decode(errors="replace"))
        return tuple(names)

    def register(self, engine: Library, options: c.c_void_p, model: c.c_void_p) -> None:
        """Register what it has for a model; an error if LiteRT's library is not as expected."""
        register = self._function(_REGISTER, c.c_int, *[c.c_void_p] * 4)
        look_up = c.cast(c.CDLL(None).dlsym, c.c_void_p)
        if register(options, model, look_up, engine.handle) < 0:
            self.check()
            raise AcceleratorError(f"LiteRT does not take the kernels of {self.name}.")

    def check(self) -> None:
        """Raise an error if a kernel of this library failed."""
        reason = self._failure()
        if reason is not None:
            raise AcceleratorError(
                f"A kernel of {self.name} failed: {reason.decode(errors='replace')}.",
                "Correct the kernel, or run the model without it.",
            )

    def _function(self, name: str, result: Any, *arguments: Any) -> Any:
        function = self._library[name]
        function.restype, function.argtypes = result, arguments
        return function

    def _add_python_kernels(self, path: Path) -> None:
        from hasten.engine import numba_kernels

        add = self._function(_ADD, c.c_int, c.c_char_p, c.c_void_p, c.c_void_p)
        for kernel in numba_kernels.compiled_kernels(path):
            if add(kernel.name.encode(), c.cast(kernel.shapes, c.c_void_p), kernel.run_address) != 0:
                raise AcceleratorError(f"{path.name} has too many kernels.", "Write at most 64 kernels into a file.")
