"""Tensor names that say which tensor it is, for as long as the quantiser works: it knows nodes by names only.

The quantiser matches regular expressions against the names of a node's outputs, needs all names of a file to be unique,
and makes names of new tensors by adding to old ones. A tag `<subgraph.tensor>` is unique, matches exactly, and can be
found again in the names of new tensors.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from hasten.model.model_object import text

if TYPE_CHECKING:
    from hasten.variants.selection import Selection

_TAG = re.compile(r"^<(\d+)\.(\d+)>")


def put_tags(model: Any) -> list[list[bytes | None]]:
    """Name every tensor by its tag, and return the names they had."""
    names = [[tensor.name for tensor in subgraph.tensors] for subgraph in model.subgraphs]
    for number, subgraph in enumerate(model.subgraphs):
        for index, tensor in enumerate(subgraph.tensors):
            tensor.name = f"<{number}.{index}>".encode()
    return names


def pattern_of(selection: Selection) -> str:
    """A regular expression for the quantiser that matches the selected nodes, and no other."""
    here = rf"^<{selection.subgraph}\."
    if selection.outputs is not None:
        # An empty alternative would match; no tensor has the index -1.
        here += "(" + "|".join(str(index) for index in sorted(selection.outputs | {-1})) + ")>"
    others = "|".join(str(index) for index in sorted(selection.others))
    return rf"{here}|^<({others})\." if others else here


def take_tags_off(model: Any, names: list[list[bytes | None]]) -> None:
    """Give tensors their names back. New ones get the name of the tensor they came from, with what was added to it."""
    for number, subgraph in enumerate(model.subgraphs):
        for tensor in subgraph.tensors:
            tag = _TAG.match(text(tensor.name))
            if tag is None:
                continue
            source, addition = int(tag[2]), text(tensor.name)[tag.end() :]
            tensor.name = (names[number][source] or b"") + addition.encode()
            if addition and tensor.buffer == 0:
                _keep_open_dimensions(tensor, subgraph.tensors[source])


def with_names(message: str, names: list[list[bytes | None]]) -> str:
    """A message of the quantiser with the tensors' own names in place of tags."""
    return re.sub(r"<(\d+)\.(\d+)>", lambda tag: repr(text(names[int(tag[1])][int(tag[2])])), message)


def _keep_open_dimensions(tensor: Any, source: Any) -> None:
    """The quantiser gives new tensors a fixed shape, also where a batch of -1 passes through them."""
    if source.shapeSignature is not None and len(source.shapeSignature) == len(tensor.shape):
        tensor.shapeSignature = source.shapeSignature
