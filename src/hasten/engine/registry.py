"""Accelerators that hasten itself puts into an environment, in the order in which they may take operators."""

from __future__ import annotations

import ctypes as c
from typing import TYPE_CHECKING, Any, Final

from hasten.core.errors import TargetError
from hasten.engine import abi, abi_delegate

if TYPE_CHECKING:
    from collections.abc import Callable

    from hasten.engine.library import Library
    from hasten.engine.placement import PlacementObserver

_OK: Final = 0
_ERROR: Final = 9
_CPU_DEFINITION: Final = "LiteRtStaticLinkedAcceleratorCpuDef"

_GetName = c.CFUNCTYPE(c.c_int, c.c_void_p, c.POINTER(c.c_char_p))
_GetVersion = c.CFUNCTYPE(c.c_int, c.c_void_p, c.POINTER(c.c_int * 3))
_GetHardware = c.CFUNCTYPE(c.c_int, c.c_void_p, c.POINTER(c.c_int))
_CreateDelegate = c.CFUNCTYPE(c.c_int, c.c_void_p, c.c_void_p, c.c_void_p, c.c_void_p, c.POINTER(c.c_void_p))


class Registry:
    """Registers accelerators with an environment, and keeps their functions alive for it."""

    def __init__(self, library: Library, environment: c.c_void_p, observer: PlacementObserver) -> None:
        self._library, self._environment, self._observer = library, environment, observer
        self._kept_alive: list[Any] = []

    def add_delegate(self, name: str, create: Callable[[], int], destroy: c.c_void_p) -> None:
        """Register a delegate as an accelerator of its own; `create` answers its address, or 0 if there is none.

        It passes for a CPU's: one that claims an NPU is skipped by LiteRT 2.3 unless a compiler plugin took part, and
        one that claims a GPU changes which custom operators the engine takes for known.
        """
        library, observer = self._library, self._observer

        def get_name(_accelerator: int, answer: Any) -> int:
            answer[0] = name.encode()
            return _OK

        def get_version(_accelerator: int, answer: Any) -> int:
            answer[0][:] = [1, 0, 0]
            return _OK

        def get_hardware(_accelerator: int, answer: Any) -> int:
            answer[0] = abi.CPU
            return _OK

        def create_delegate(_context: int, _environment: int, _accelerator: int, _options: int, wrapper: Any) -> int:
            address = create()
            if not address:
                return _ERROR
            observer.watch(address)
            wrapper[0] = library.create("LiteRtWrapDelegate", address, destroy)
            return _OK

        functions = (
            _GetName(get_name),
            _GetVersion(get_version),
            _GetHardware(get_hardware),
            _CreateDelegate(create_delegate),
        )
        self._register(*map(_pointer, functions))
        self._kept_alive += functions

    def add_cpu(self) -> None:
        """Register XNNPACK from the engine's own definition of it, with its placement observed.

        The engine would register it by itself, but at once, when the environment is made: before any delegate of ours,
        so that there would be nothing left for that one to take.
        """
        library, observer = self._library, self._observer
        definition = _cpu_definition(library)
        true_create = _CreateDelegate(definition.create_delegate)

        def create_delegate(context: int, environment: int, accelerator: int, options: int, wrapper: Any) -> int:
            status = int(true_create(context, environment, accelerator, options, wrapper))
            if status == _OK and wrapper[0]:
                delegate = library.create("LiteRtUnwrapDelegate", wrapper[0])
                observer.watch(delegate.value or 0)
            return status

        function = _CreateDelegate(create_delegate)
        self._register(
            definition.get_name,
            definition.get_version,
            definition.get_hardware,
            _pointer(function),
            definition.compiles_itself,
        )
        self._kept_alive += [definition, function]

    def _register(
        self, name: int, version: int, hardware: int, create: int, compiles_itself: int | None = None
    ) -> None:
        call = self._library.call
        accelerator = self._library.create("LiteRtCreateAccelerator")
        call("LiteRtSetAcceleratorGetName", accelerator, name)
        call("LiteRtSetAcceleratorGetVersion", accelerator, version)
        call("LiteRtSetAcceleratorGetHardwareSupport", accelerator, hardware)
        call("LiteRtSetDelegateFunction", accelerator, create)
        if compiles_itself:
            call("LiteRtSetIsAcceleratorDelegateResponsibleForJitCompilation", accelerator, compiles_itself)
        call("LiteRtRegisterAccelerator", self._environment, accelerator, None, None)


def _cpu_definition(library: Library) -> abi_delegate.AcceleratorDefinition:
    address = library.data_pointer(_CPU_DEFINITION)
    definition = abi_delegate.AcceleratorDefinition.from_address(address) if address else None
    if definition is None or definition.major_version != 1:
        raise TargetError(
            "LiteRT's library does not define its CPU accelerator as hasten expects.",
            "Check the installation with hasten doctor.",
        )
    return definition


def _pointer(function: Any) -> int:
    return c.cast(function, c.c_void_p).value or 0
