"""Preparation of a running process for an accelerator.

A runner's process restarts itself with LD_LIBRARY_PATH set. An application cannot, so this module loads the libraries
by their full path first: the dynamic linker then gives a plugin that asks for one by name the loaded one.
"""

from __future__ import annotations

import ctypes
import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hasten.core.errors import AcceleratorError
from hasten.engine.accelerators import process_environment

if TYPE_CHECKING:
    from hasten.core.plan import Plan

_FOLDERS: Final = "LD_LIBRARY_PATH"
# What each accelerator's plugin asks for by name, dependencies first.
_LIBRARIES: Final = {"npu": ("libtbb.so.*", "libopenvino.so.*"), "gpu": ("libvulkan.so.1",)}


def prepare_process(plan: Plan) -> None:
    """Load the accelerator's libraries, and set the variables that its driver reads when it starts."""
    needed = process_environment(plan)
    for name, value in needed.items():
        if name != _FOLDERS:
            os.environ.setdefault(name, value)
    folder = Path(needed.get(_FOLDERS, "").partition(":")[0])
    if not needed.get(_FOLDERS):
        return
    for pattern in _LIBRARIES[plan.accelerator]:
        for path in sorted(folder.glob(pattern)):
            _load(path, plan.accelerator)


def _load(path: Path, accelerator: str) -> None:
    try:
        ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)
    except OSError as error:
        raise AcceleratorError(
            f"The {accelerator.upper()} library {path} cannot be loaded into this process: {error}.",
            f"Start the program with {_FOLDERS}={path.parent}.",
        ) from error
