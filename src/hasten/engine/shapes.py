"""Shapes of inputs: what a workload may ask for, and what an open dimension becomes when it asks for nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hasten.core.errors import UsageError

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
            raise UsageError(f"the model has no input {name!r}", f"Its inputs are: {', '.join(inputs)}.")
        own = inputs[name]
        if len(wanted) != len(own):
            raise UsageError(
                f"input {name!r} has {_dimensions(len(own))}, not {len(wanted)}: {shape_text(wanted)} does not fit",
                f"Its shape in the file is {shape_text(own)}.",
            )
        if wrong := [size for size in wanted if not 1 <= size <= _LARGEST_DIMENSION]:
            raise UsageError(
                f"input {name!r} cannot have a dimension of {wrong[0]}", f"Its shape in the file is {shape_text(own)}."
            )


def refusal_of_shapes(workload: Workload) -> UsageError:
    """What to say when the engine could not lay the graph out for the shapes asked for."""
    asked = ", ".join(f"{name} {shape_text(shape)}" for name, shape in workload.shapes)
    return UsageError(
        f"the model's operators do not work with the input shapes asked for: {asked}",
        "Most models can change their batch or image size only; leave out the shape to use the file's.",
    )


def shape_text(shape: Shape) -> str:
    """A shape as people write it: 1x224x224x3, with ? for an open dimension."""
    return "x".join("?" if size < 0 else str(size) for size in shape) or "scalar"


def _dimensions(count: int) -> str:
    return "1 dimension" if count == 1 else f"{count} dimensions"
