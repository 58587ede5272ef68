"""The record of a variant: the file, what is in it, and what a reader should know about it."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING

from hasten.core.codec import record
from hasten.core.errors import ModelError, UsageError
from hasten.core.remark import Remark
from hasten.variants.already_quantized import weight_bytes_by_dtype

if TYPE_CHECKING:
    from hasten.model.graph import Graph

_CHUNK = 1 << 20


class NothingToChangeError(ModelError):
    """The recipe has nothing to change in this model."""


@record
class Variant:
    """A file made from another. `nodes` are those that it changed, as the original numbers them."""

    path: Path
    recipe: str
    size_bytes: int
    zipped_bytes: int
    nodes: tuple[int, ...] = ()
    weight_shares: Mapping[str, float] = field(default_factory=dict)
    notes: tuple[Remark, ...] = ()


def place_for(out_path: Path, model_path: Path) -> Path:
    """Make room for a variant; it must not replace the model it is made from."""
    try:
        out_path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        message = f"The folder {out_path.parent} cannot be created: {error.strerror or error}."
        raise UsageError(message, "Choose another folder.") from None
    if out_path.is_dir() or (out_path.exists() and out_path.samefile(model_path)):
        raise UsageError(f"A variant cannot be written to {out_path}.", "Give the path of a new file.")
    return out_path


def zipped_bytes(path: Path) -> int:
    """The size of the file in a zip archive: about what a download of an application pays for it."""
    packer, total = zlib.compressobj(), 0
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            total += len(packer.compress(chunk))
    return total + len(packer.flush())


def weight_shares(graph: Graph) -> dict[str, float]:
    """The share of the weights' bytes that each type has, the largest first."""
    sizes = weight_bytes_by_dtype(graph)
    total = sum(sizes.values())
    return {dtype: size / total for dtype, size in sizes.items()} if total else {}
