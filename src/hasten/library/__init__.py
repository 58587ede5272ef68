"""hasten as a library: what the command line offers, as functions that return records and raise HastenError.

Each function is loaded when it is first asked for: timing a model needs nothing of what quantises it.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hasten.library.changing import quantize, run_quantize, study_quantize
    from hasten.library.opening import open_model
    from hasten.library.tuning import run_tune, study_tune, tune

_MODULES = {
    "open_model": "opening",
    "quantize": "changing",
    "run_quantize": "changing",
    "run_tune": "tuning",
    "study_quantize": "changing",
    "study_tune": "tuning",
    "tune": "tuning",
}

__all__ = ["open_model", "quantize", "run_quantize", "run_tune", "study_quantize", "study_tune", "tune"]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'hasten.library' has no attribute {name!r}")
    return getattr(importlib.import_module(f"hasten.library.{_MODULES[name]}"), name)
