"""Backbones that can be trained: names as the catalogue has them, and how Keras Applications builds each of them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from hasten.core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

# Pixels of 0 to 255 become -1 to 1.
_SIGNED: Final = (127.5, 127.5)
# The network scales pixels itself.
_RAW: Final = (0.0, 1.0)


@dataclass(frozen=True, slots=True)
class Backbone:
    """A network without its head: the function of Keras Applications, its arguments, and how its input is made."""

    name: str
    function: str
    size: int
    mean: float
    std: float
    learns_integers: bool
    """Whether the tools for quantization-aware training know its layers."""
    arguments: Mapping[str, Any] = field(default_factory=dict)

    @property
    def preprocess(self) -> str:
        """How images become its input, as --preprocess has it."""
        return f"size={self.size}x{self.size},mean={self.mean:g},std={self.std:g},channels=rgb"


@dataclass(frozen=True, slots=True)
class _Family:
    function: str
    has_width: bool = True
    scaling: tuple[float, float] = _SIGNED
    learns_integers: bool = False
    fixed: Mapping[str, Any] = field(default_factory=dict)


_V3: Final = {"include_preprocessing": False}
_MINIMALISTIC: Final = {**_V3, "minimalistic": True}
_FAMILIES: Final = {
    "mobilenet_v1": _Family("MobileNet", learns_integers=True),
    "mobilenet_v2": _Family("MobileNetV2", learns_integers=True),
    "mobilenet_v3_small": _Family("MobileNetV3Small", fixed=_V3),
    "mobilenet_v3_large": _Family("MobileNetV3Large", fixed=_V3),
    "mobilenet_v3_small_minimalistic": _Family("MobileNetV3Small", fixed=_MINIMALISTIC),
    "mobilenet_v3_large_minimalistic": _Family("MobileNetV3Large", fixed=_MINIMALISTIC),
    "efficientnet_b0": _Family("EfficientNetB0", has_width=False, scaling=_RAW),
    "nasnet_mobile": _Family("NASNetMobile", has_width=False),
}
_NAME: Final = re.compile(r"(?P<family>\w+?)(?:_(?P<width>\d(?:\.\d+)?))?_(?P<size>\d{1,4})")
EXAMPLES: Final = (
    *("mobilenet_v1_0.25_224", "mobilenet_v2_1.0_224", "mobilenet_v3_small_1.0_224"),
    *("efficientnet_b0_224", "nasnet_mobile_224"),
)
SMALLEST: Final = 32


def backbone_named(name: str) -> Backbone:
    """The backbone of a name such as mobilenet_v2_1.0_224: its family, its width and the size of its images."""
    match = _NAME.fullmatch(name)
    family = _FAMILIES.get(match["family"]) if match else None
    if match is None or family is None or family.has_width != bool(match["width"]):
        raise UsageError(
            f"There is no backbone {name!r} to train.",
            f"Use one such as {', '.join(EXAMPLES)}; the last number is the size of images.",
        )
    size = int(match["size"])
    if size < SMALLEST:
        raise UsageError(f"The backbone {name!r} has images of {size} pixels.", f"Use {SMALLEST} or more.")
    width = {"alpha": float(match["width"])} if family.has_width else {}
    return Backbone(name, family.function, size, *family.scaling, family.learns_integers, {**width, **family.fixed})
