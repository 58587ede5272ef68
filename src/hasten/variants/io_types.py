"""The types of a variant's inputs and outputs, and which recipes can have them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from hasten.core.errors import UsageError

if TYPE_CHECKING:
    from hasten.variants.recipes import Recipe

FLOAT: Final = "float32"


@dataclass(frozen=True, slots=True)
class IoTypes:
    """The types that floats at the model's inputs and outputs get."""

    input_type: str = FLOAT
    output_type: str = FLOAT

    @property
    def is_float(self) -> bool:
        """Whether inputs and outputs stay as they are."""
        return self.input_type == self.output_type == FLOAT

    def describe(self) -> str:
        """What is not float, in words: "int8 inputs", "int8 inputs and uint8 outputs", "int8 inputs and outputs"."""
        if self.input_type == self.output_type:
            return f"{self.input_type} inputs and outputs"
        ends = ((self.input_type, "inputs"), (self.output_type, "outputs"))
        return " and ".join(f"{dtype} {end}" for dtype, end in ends if dtype != FLOAT)


FLOAT_IO: Final = IoTypes()


def fits(recipe: Recipe, io_types: IoTypes) -> bool:
    """Whether variants by this recipe can have these types."""
    return {io_types.input_type, io_types.output_type} <= set(_types_of(recipe))


def check_types(recipe: Recipe, io_types: IoTypes) -> None:
    """Raise where variants by this recipe cannot have these types."""
    allowed = _types_of(recipe)
    for dtype in (io_types.input_type, io_types.output_type):
        if dtype not in allowed:
            message = f"Inputs and outputs of {recipe.name} cannot be {dtype!r}."
            raise UsageError(message, f"Choose one of {', '.join(allowed)}.")


def _types_of(recipe: Recipe) -> tuple[str, ...]:
    """Integer inputs and outputs have the type that the recipe computes in; uint8 is int8 with another zero point."""
    if recipe.activations is None:
        return (FLOAT,)
    return (FLOAT, "int8", "uint8") if recipe.activations == "int8" else (FLOAT, recipe.activations)
