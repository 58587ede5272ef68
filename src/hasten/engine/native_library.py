"""Shared libraries that a plan names: opened by path, with a sentence for each way in which that can fail."""

from __future__ import annotations

import ctypes as c
import platform
from pathlib import Path
from typing import TYPE_CHECKING

from hasten.core.errors import AcceleratorError
from hasten.core.failure import NOT_INSTALLED
from hasten.core.shared_library import is_cut_off, processor_of

if TYPE_CHECKING:
    from collections.abc import Sequence


def open_library(path: str, name: str, kind: str, exports: Sequence[str]) -> c.CDLL:
    """Load a library and see that it exports these functions; `name` and `kind` are what messages call it."""
    if not Path(path).is_file():
        raise AcceleratorError(
            f"There is no {name} at {path}.", "Give the path of a shared library (.so).", code=NOT_INSTALLED
        )
    if is_cut_off(Path(path)):
        raise AcceleratorError(f"The {name} {path} is damaged: it ends too early.", "Build or copy it again.")
    try:
        library = c.CDLL(str(Path(path).resolve()))
    except OSError as error:
        built_for, here = processor_of(Path(path)), platform.machine()
        if built_for and built_for != here:
            raise AcceleratorError(
                f"The {name} {path} is built for {built_for}, and this device is {here}.", f"Build it for {here}."
            ) from error
        raise AcceleratorError(
            f"The {name} does not load: {error}.",
            "Build it for this system, and install the libraries that it links to.",
        ) from error
    try:
        _ = [library[export] for export in exports]
    except AttributeError as error:
        raise AcceleratorError(f"{path} is not {kind}: {error}.", f"Export {' and '.join(exports)} from it.") from error
    return library
