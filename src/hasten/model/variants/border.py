"""The types of a variant's inputs and outputs, and which recipes can have them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from hasten.core.errors import UsageError

if TYPE_CHECKING:
    from hasten.model.variants.recipes import Recipe

FLOAT: Final = "float32"
BORDER_TYPES: Final = (FLOAT, "int8", "uint8", "int16")


@dataclass(frozen=True, slots=True)
class Border:
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


FLOAT_BORDER: Final = Border()


def fits(recipe: Recipe, border: Border) -> bool:
    """Whether variants by this recipe can have these types."""
    return {border.input_type, border.output_type} <= set(_types_of(recipe))


def check_types(recipe: Recipe, border: Border) -> None:
    """Raise where variants by this recipe cannot have these types."""
    allowed = _types_of(recipe)
    for dtype in (border.input_type, border.output_type):
        if dtype not in allowed:
            message = f"Inputs and outputs of {recipe.name} cannot be {dtype!r}."
            raise UsageError(message, f"Choose among {', '.join(allowed)}.")


def _types_of(recipe: Recipe) -> tuple[str, ...]:
    """Integers at the border are those that the recipe computes in; uint8 is int8 with another zero point."""
    if recipe.activations is None:
        return (FLOAT,)
    return (FLOAT, "int8", "uint8") if recipe.activations == "int8" else (FLOAT, recipe.activations)
