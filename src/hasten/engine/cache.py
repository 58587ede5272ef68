"""The cache of a plan: a folder for each model, and packed weights that are used only as they were written.

XNNPACK knows packed weights by their place in the model file, and the GPU delegate by a name. In a folder that another
model has filled, both compute with that model's weights and report nothing. Neither of them notices damage.
"""

from __future__ import annotations

import contextlib
import mmap
import zlib
from pathlib import Path
from typing import Final

from hasten.core.errors import UsageError
from hasten.engine.model_file import file_hash

WEIGHTS: Final = "weights.xnnpack_cache"
_SEAL: Final = f"{WEIGHTS}.crc32"


def folder_for(cache: str, sha256: str) -> str:
    """The part of a cache that belongs to the model with this content."""
    return f"{cache}/{sha256[:16]}"


def open_cache(cache: str, model: Path) -> str:
    """The folder for a model, made if it is missing; packed weights that were damaged since are removed from it."""
    folder = Path(folder_for(cache, file_hash(model)))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if (folder / WEIGHTS).exists() and _checksum(folder / WEIGHTS) != _sealed(folder):
            (folder / WEIGHTS).unlink()
            (folder / _SEAL).unlink(missing_ok=True)
    except OSError as error:
        raise UsageError(
            f"The cache folder {cache} cannot be used: {error.strerror}.", "Name a folder that can be written."
        ) from error
    return str(folder)


def seal_cache(folder: str) -> None:
    """Keep the checksum of the packed weights, once the engine has written them."""
    weights, seal = Path(folder) / WEIGHTS, Path(folder) / _SEAL
    with contextlib.suppress(OSError):  # without it, the weights are packed anew the next time
        if weights.exists() and not seal.exists():
            seal.write_text(_checksum(weights))


def _sealed(folder: Path) -> str:
    """The checksum of before; empty if a process ended before it had written it."""
    seal = folder / _SEAL
    return seal.read_text(errors="replace") if seal.exists() else ""


def _checksum(path: Path) -> str:
    with path.open("rb") as stream:
        if not path.stat().st_size:
            return f"{0:08x}"
        with mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as content:
            return f"{zlib.crc32(content):08x}"
