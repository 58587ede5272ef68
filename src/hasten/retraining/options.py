"""What a retraining is asked for."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from hasten.core.checks import FROM_ONE, SEED, SHARE, check_number, text_of
from hasten.core.errors import UsageError
from hasten.retraining.backbones import backbone_named
from hasten.variants.recipes import RECIPE_NAMES

TEST_SHARE: Final = 0.2
INT8: Final = "int8"
# What int8 means to --to: the most accurate recipe of static int8.
_INT8_RECIPE: Final = "static_int8_sequential"
AUTO, BALANCED, PLAIN = "auto", "balanced", "none"
WEIGHTINGS: Final = (AUTO, BALANCED, PLAIN)
"""Whether each class counts alike in a fit: where they are uneven, always, never."""
IMAGENET, NO_WEIGHTS = "imagenet", "none"
BATCH: Final = 32


@dataclass(frozen=True, slots=True)
class HeadOptions:
    """Where the head goes, and how it is fitted."""

    output: str = ""
    """The output whose classes are replaced; empty for the first that has a head."""
    features: str = ""
    """A tensor to put the head on; empty for what feeds the old head."""
    weighting: str = AUTO
    seed: int = 0

    def __post_init__(self) -> None:
        check_number("seed", self.seed, SEED)
        if self.weighting not in WEIGHTINGS:
            raise UsageError(
                f"Classes cannot be weighted by {self.weighting!r}.", f"Use one of: {', '.join(WEIGHTINGS)}."
            )


@dataclass(frozen=True, slots=True)
class TrainingOptions:
    """Which network to train beside the head, and how."""

    backbone: str
    qat: bool = False
    """Whether to train it for integers as well."""
    weights: str = IMAGENET
    """Where to begin: imagenet, none, or a file."""
    epochs: int = 0
    """At most, with all layers; 0 for the usual number."""
    batch: int = BATCH
    seed: int = 0

    def __post_init__(self) -> None:
        known = backbone_named(text_of("backbone", self.backbone))
        text_of("weights", self.weights)
        check_number("epochs", self.epochs, SEED)
        check_number("batch", self.batch, FROM_ONE)
        check_number("seed", self.seed, SEED)
        if self.qat and not known.learns_integers:
            raise UsageError(f"{self.backbone} cannot be trained for integers.", "Use a MobileNet V1 or V2.")

    @property
    def beginning(self) -> str:
        """Where to begin, whatever folder the program runs in."""
        return self.weights if self.weights in (IMAGENET, NO_WEIGHTS) else str(Path(self.weights).resolve())


@dataclass(frozen=True, slots=True)
class RetrainOptions:
    """What a retraining is asked for."""

    test_share: float = TEST_SHARE
    """The share of each class that is kept for the test."""
    test_data: str = ""
    """Data for the test, in place of a share of the data."""
    to: str = ""
    """`int8`, or a recipe, by which the backbone is quantized before the head is fitted; empty to leave it."""
    head: HeadOptions = field(default=HeadOptions())
    training: TrainingOptions | None = None
    """A network to train beside the head; None for none."""
    force: bool = False
    """Whether files that are there may be replaced."""

    def __post_init__(self) -> None:
        check_number("test_share", self.test_share, SHARE)
        if self.to not in ("", INT8, *RECIPE_NAMES):
            raise UsageError(
                f"There is no type or recipe {self.to!r} to quantize to.",
                f"Use int8, or one of: {', '.join(RECIPE_NAMES)}.",
            )
        if self.to and self.training is not None:
            raise UsageError("--to and --fine-tune cannot be combined.", "Use --qat to train a network for int8.")

    @property
    def recipe(self) -> str:
        """The recipe to quantize by; empty for none."""
        return _INT8_RECIPE if self.to == INT8 else self.to
