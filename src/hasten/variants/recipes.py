"""The recipes: names with a grammar for what a variant stores its weights in and what it computes in."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from hasten.core.errors import UsageError


class Ranges(Enum):
    """How the range of an activation is taken from the samples of a calibration."""

    MOVING_AVERAGE = "moving average of each sample's smallest and largest value, the quantiser's own default"
    MIN_MAX = "smallest and largest value of all samples"


class Rounding(Enum):
    """How the scale of a channel's weights is chosen."""

    LARGEST = "the largest weight decides"
    OCTAV = "large weights are clipped where that lowers the squared error, by OCTAV's iteration"
    MSE = "the scale with the lowest squared error"


@dataclass(frozen=True, slots=True)
class Recipe:
    """What becomes of weights and activations. `activations` of None stay float in the file."""

    name: str
    description: str
    weights: str
    activations: str | None = None
    computes_in_integers: bool = False
    ranges: Ranges = Ranges.MOVING_AVERAGE
    rounding: Rounding = Rounding.LARGEST
    corrects_biases: bool = False
    """Whether biases make up for what rounded weights add on average."""

    @property
    def needs_calibration(self) -> bool:
        """Whether it takes samples of the inputs to find the ranges of activations."""
        return self.activations is not None


RECIPES: tuple[Recipe, ...] = (
    Recipe("float16", "weights in float16, half the size; computed in float32", "float16"),
    Recipe(
        "dynamic_int8",
        "weights in int8, a quarter of the size; activations are quantised anew in each run",
        "int8",
        computes_in_integers=True,
    ),
    Recipe("weight_only_int8", "weights in int8, a quarter of the size; computed in float32", "int8"),
    Recipe(
        "weight_only_int4",
        "weights of dense layers and convolutions in int4, an eighth of the size; computed in float32",
        "int4",
    ),
    Recipe(
        "static_int8",
        "weights and activations in int8; ranges are a moving average over the samples",
        "int8",
        "int8",
        computes_in_integers=True,
    ),
    Recipe(
        "static_int8_min_max",
        "weights and activations in int8; ranges hold everything seen in the samples",
        "int8",
        "int8",
        computes_in_integers=True,
        ranges=Ranges.MIN_MAX,
    ),
    Recipe(
        "static_int8_corrected",
        "as static_int8_min_max, and biases make up for what rounded weights add on average",
        "int8",
        "int8",
        computes_in_integers=True,
        ranges=Ranges.MIN_MAX,
        corrects_biases=True,
    ),
    Recipe(
        "static_int8_octav",
        "weights and activations in int8; weights clipped where that lowers the error (OCTAV)",
        "int8",
        "int8",
        computes_in_integers=True,
        rounding=Rounding.OCTAV,
    ),
    Recipe(
        "static_int8_mse",
        "weights and activations in int8; scales of weights by the lowest squared error",
        "int8",
        "int8",
        computes_in_integers=True,
        rounding=Rounding.MSE,
    ),
    Recipe(
        "static_int16",
        "weights in int8, activations in int16: slower, and nearer to float",
        "int8",
        "int16",
        computes_in_integers=True,
        ranges=Ranges.MIN_MAX,
    ),
)

RECIPE_NAMES = tuple(recipe.name for recipe in RECIPES)


def recipe_from_name(name: str) -> Recipe:
    """Return the recipe of that name; an unknown name never means another recipe."""
    for recipe in RECIPES:
        if recipe.name == name:
            return recipe
    raise UsageError(f"There is no recipe {name!r}.", f"Choose among {', '.join(RECIPE_NAMES)}.")
