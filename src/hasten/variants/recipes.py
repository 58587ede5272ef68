"""The recipes: what happens to a model's weights and activations, and the names of the variants."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from hasten.core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    Kernels = tuple[str, str | None, bool]


class Ranges(Enum):
    """How calibration takes the range of an activation from the samples."""

    MOVING_AVERAGE = "moving average of each sample's minimum and maximum (the quantizer's default)"
    MIN_MAX = "minimum and maximum of all samples"
    TOGETHER = "no range, but how the inputs of dense layers vary together (for GPTQ)"


class Rounding(Enum):
    """How the scale of a channel's weights is chosen."""

    LARGEST = "the largest weight sets the scale"
    OCTAV = "large weights are clipped where that lowers the squared error (OCTAV)"
    MSE = "the scale with the lowest squared error"
    GPTQ = "in dense layers, later weights make up for the rounding of earlier ones (GPTQ)"


class Biases(Enum):
    """What becomes of the biases of quantized layers."""

    ROUNDED = "only rounded"
    FOR_WEIGHTS = "moved by the mean error of rounded weights"
    IN_ORDER = "moved layer by layer, for all that rounding has done up to there"


@dataclass(frozen=True, slots=True)
class Recipe:
    """What becomes of weights and activations. `activations` of None stay float in the file."""

    name: str
    short_name: str
    """Its part in the name of a variant that keeps some nodes in float."""
    description: str
    weights: str
    activations: str | None = None
    computes_in_integers: bool = False
    ranges: Ranges = Ranges.MOVING_AVERAGE
    rounding: Rounding = Rounding.LARGEST
    biases: Biases = Biases.ROUNDED

    @property
    def is_static(self) -> bool:
        """Whether activations are stored as integers."""
        return self.activations is not None

    @property
    def needs_calibration(self) -> bool:
        """Whether it takes samples of the inputs."""
        return self.is_static or self.rounding is Rounding.GPTQ

    @property
    def is_static_int8(self) -> bool:
        """Whether activations are stored and computed in int8."""
        return self.activations == "int8"

    @property
    def is_int8(self) -> bool:
        """Whether it computes in int8, be it that activations are stored in float."""
        return self.computes_in_integers and self.activations in (None, "int8")

    @property
    def kernels(self) -> Kernels:
        """What decides which kernels run: recipes that agree in it differ in their numbers only."""
        return self.weights, self.activations, self.computes_in_integers


def _static(
    name: str,
    short_name: str,
    description: str,
    activations: str = "int8",
    *,
    ranges: Ranges = Ranges.MOVING_AVERAGE,
    rounding: Rounding = Rounding.LARGEST,
    biases: Biases = Biases.ROUNDED,
) -> Recipe:
    return Recipe(name, short_name, description, "int8", activations, True, ranges, rounding, biases)


RECIPES: tuple[Recipe, ...] = (
    Recipe("float16", "float16", "weights in float16, half the size; computed in float32", "float16"),
    Recipe(
        "dynamic_int8",
        "dynamic-int8",
        "weights in int8, a quarter of the size; activations are quantized again in each run",
        "int8",
        computes_in_integers=True,
    ),
    Recipe("weight_only_int8", "weights-int8", "weights in int8, a quarter of the size; computed in float32", "int8"),
    Recipe(
        "weight_only_int4",
        "weights-int4",
        "weights of dense layers and convolutions in int4, an eighth of the size; computed in float32",
        "int4",
    ),
    Recipe(
        "weight_only_int4_gptq",
        "weights-int4-gptq",
        "as weight_only_int4; errors of rounding in dense layers make up for each other (GPTQ)",
        "int4",
        ranges=Ranges.TOGETHER,
        rounding=Rounding.GPTQ,
    ),
    _static("static_int8", "int8", "weights and activations in int8; ranges are a moving average over the samples"),
    _static(
        "static_int8_min_max",
        "int8-minmax",
        "weights and activations in int8; ranges cover all values of the samples",
        ranges=Ranges.MIN_MAX,
    ),
    _static(
        "static_int8_corrected",
        "int8-corrected",
        "as static_int8_min_max; biases compensate for the mean error of rounded weights",
        ranges=Ranges.MIN_MAX,
        biases=Biases.FOR_WEIGHTS,
    ),
    _static(
        "static_int8_sequential",
        "int8-sequential",
        "as static_int8_min_max; biases corrected layer by layer, to the original's mean outputs",
        ranges=Ranges.MIN_MAX,
        biases=Biases.IN_ORDER,
    ),
    _static(
        "static_int8_octav",
        "int8-octav",
        "weights and activations in int8; weights clipped where that lowers the error (OCTAV)",
        rounding=Rounding.OCTAV,
    ),
    _static(
        "static_int8_mse",
        "int8-mse",
        "weights and activations in int8; scales of weights by the lowest squared error",
        rounding=Rounding.MSE,
    ),
    _static(
        "static_int16",
        "int16",
        "weights in int8, activations in int16: slower, and closer to float",
        "int16",
        ranges=Ranges.MIN_MAX,
    ),
)

RECIPE_NAMES = tuple(recipe.name for recipe in RECIPES)


def recipe_from_name(name: str) -> Recipe:
    """The recipe of that name; an unknown name never means another recipe."""
    for recipe in RECIPES:
        if recipe.name == name:
            return recipe
    raise UsageError(f"There is no recipe {name!r}.", f"Choose one of {', '.join(RECIPE_NAMES)}.")


def quick_like(name: str) -> str:
    """The recipe by which nodes are tried one at a time: the one of that name, or a quick one nearly as good."""
    return "static_int8_corrected" if recipe_from_name(name).biases is Biases.IN_ORDER else name


def same_kernels(recipe: Recipe) -> tuple[Recipe, ...]:
    """The other recipes that run on the same kernels: their speed is the same, their accuracy is not."""
    return tuple(other for other in RECIPES if other is not recipe and other.kernels == recipe.kernels)


def variant_name(
    recipe: Recipe, float_nodes: Collection[int] = (), taken: Mapping[str, Collection[int]] | None = None
) -> str:
    """The name of a variant: the recipe's own, or `int8+float9` where 9 nodes stay in float.

    `taken` has the float nodes of the variants that there are, by name. The same nodes give the same name again; other
    nodes of the same number give `int8+float9-2`. Names are for people; the record has the recipe and the nodes.
    """
    if not float_nodes:
        return recipe.name
    plain = f"{recipe.short_name}+float{len(float_nodes)}"
    wanted, name, number = sorted(float_nodes), plain, 1
    while name in (taken or {}) and sorted((taken or {})[name]) != wanted:
        number += 1
        name = f"{plain}-{number}"
    return name
