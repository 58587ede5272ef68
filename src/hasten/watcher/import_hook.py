"""Patches LiteRT's modules at the moment when the program imports them, whichever package it uses."""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import ModuleType

    from .patches import Patches

_INTERPRETERS: Final = (
    "ai_edge_litert.interpreter",
    "tflite_runtime.interpreter",
    "tensorflow.lite.python.interpreter",
)
_COMPILED: Final = ("ai_edge_litert.compiled_model", "ai_edge_litert.tensor_buffer")


def patcher_of(name: str) -> Callable[[Any, Patches], None] | None:
    """What patches a module of this name; the patches themselves are loaded only when one is needed."""
    if name in _INTERPRETERS:
        from .interpreter import patch_interpreter_module

        return patch_interpreter_module
    if name in _COMPILED:
        from .compiled import patch_compiled_module

        return patch_compiled_module
    return None


def patch_loaded(patches: Patches) -> None:
    """Patch what the program has imported already."""
    for name in (*_INTERPRETERS, *_COMPILED):
        module = sys.modules.get(name)
        patch = patcher_of(name) if module is not None else None
        if patch is not None:
            patch(module, patches)


class Finder:
    """Finds nothing itself: it lets the others find LiteRT's modules, and patches what their loaders have made."""

    def __init__(self, patches: Patches) -> None:
        self._patches = patches

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The specification that another finder gives, with a loader that patches after loading."""
        if name not in _INTERPRETERS and name not in _COMPILED:
            return None
        for finder in sys.meta_path:
            find = getattr(finder, "find_spec", None)
            spec = None if isinstance(finder, Finder) or find is None else find(name, path, target)
            if isinstance(spec, ModuleSpec):
                if hasattr(spec.loader, "exec_module"):
                    spec.loader = _Loader(spec.loader, name, self._patches)  # type: ignore[assignment]
                return spec
        return None


class _Loader:
    """A loader that patches; in all else the one that it wraps."""

    def __init__(self, loader: Any, name: str, patches: Patches) -> None:
        self._loader, self._name, self._patches = loader, name, patches

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """As the real loader does."""
        made: ModuleType | None = self._loader.create_module(spec)
        return made

    def exec_module(self, module: ModuleType) -> None:
        """As the real loader does, then the patches. The module gets its real loader back."""
        self._loader.exec_module(module)
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        module.__loader__ = self._loader
        patch = patcher_of(self._name)
        if patch is not None:
            patch(module, self._patches)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)
