"""hasten as a library: what the command line offers, as functions that return records and raise HastenError.

Each function is loaded when it is first asked for: timing a model needs nothing of what quantises it.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hasten.library.opening import open_model

_MODULES = {"open_model": "opening"}

__all__ = ["open_model"]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'hasten.library' has no attribute {name!r}")
    return getattr(importlib.import_module(f"hasten.library.{_MODULES[name]}"), name)
