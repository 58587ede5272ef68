"""Shapes of inputs: what a workload may ask for, and what an open dimension becomes when it asks for nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hasten.core.errors import UsageError
from hasten.core.failure import SHAPES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hasten.core.plan import Workload

_LARGEST_DIMENSION: Final = 2**31 - 1

Shape = tuple[int, ...]


def closed_shape(shape: Shape) -> Shape:
    """The shape with 1 for each open dimension: a batch of one, one step of a sequence."""
    return tuple(1 if size < 0 else size for size in shape)


def check_shapes(workload: Workload, inputs: Mapping[str, Shape]) -> None:
    """Refuse shapes that no model could take; whether this one takes them only the engine can tell."""
    for name, wanted in workload.shapes:
        if name not in inputs:
            raise UsageError(f"The model has no input {name!r}.", f"Choose one of its inputs: {', '.join(inputs)}.")
        own = inputs[name]
        hint = f"Give a shape like the one in the file: {shape_text(own)}."
        if len(wanted) != len(own):
            raise UsageError(
                f"Input {name!r} has {_dimensions(len(own))}, not {len(wanted)} as in {shape_text(wanted)}.", hint
            )
        if wrong := [size for size in wanted if not 1 <= size <= _LARGEST_DIMENSION]:
            raise UsageError(f"Input {name!r} cannot have a dimension of {wrong[0]}.", hint)


def refusal_of_shapes(workload: Workload) -> UsageError:
    """What to say when the engine could not lay the graph out for the shapes asked for."""
    asked = ", ".join(f"{name} {shape_text(shape)}" for name, shape in workload.shapes)
    return UsageError(
        f"The model's operators do not work with the requested input shapes: {asked}.",
        "Change only the batch or image size, or leave out --shape to use the shapes in the file.",
        code=SHAPES,
    )


def shape_text(shape: Shape) -> str:
    """A shape as people write it: 1x224x224x3, with ? for an open dimension."""
    return "x".join("?" if size < 0 else str(size) for size in shape) or "scalar"


def _dimensions(count: int) -> str:
    return "1 dimension" if count == 1 else f"{count} dimensions"
