"""EfficientNet B0, EfficientNet-Lite and MnasNet: stages of inverted residuals, scaled in width and depth.

EfficientNet: arXiv:1905.11946, table 1; Lite: tensorflow/tpu (models/official/efficientnet/lite). MnasNet A1:
arXiv:1807.11626, figure 7; B1: torchvision (models/mnasnet.py).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from hasten.practices.choose.catalogue.families.blocks import (
    Stage,
    classifier,
    conv,
    draw_stages,
    refuse_variant,
    rounded,
    scaled,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hasten.model.build import ModelBuilder
    from hasten.model.build_graph import Value
    from hasten.practices.choose.catalogue.entry import Settings

_STEM: Final = 32
_LAST: Final = 1280
_LITE: Final = (
    Stage(1, 3, 1, 1, 16),
    Stage(2, 3, 2, 6, 24),
    Stage(2, 5, 2, 6, 40),
    Stage(3, 3, 2, 6, 80),
    Stage(3, 5, 1, 6, 112),
    Stage(4, 5, 2, 6, 192),
    Stage(1, 3, 1, 6, 320),
)
_SQUEEZE: Final = 0.25
_MNASNET: Final = {
    "a1": (
        Stage(1, 3, 1, 1, 16),
        Stage(2, 3, 2, 6, 24),
        Stage(3, 5, 2, 3, 40, _SQUEEZE),
        Stage(4, 3, 2, 6, 80),
        Stage(2, 3, 1, 6, 112, _SQUEEZE),
        Stage(3, 5, 2, 6, 160, _SQUEEZE),
        Stage(1, 3, 1, 6, 320),
    ),
    "b1": (
        Stage(1, 3, 1, 1, 16),
        Stage(3, 3, 2, 3, 24),
        Stage(3, 5, 2, 3, 40),
        Stage(3, 5, 2, 6, 80),
        Stage(2, 3, 1, 6, 96),
        Stage(4, 5, 2, 6, 192),
        Stage(1, 3, 1, 6, 320),
    ),
}


def efficientnet(g: ModelBuilder, x: Value, settings: Settings) -> dict[str, Value]:
    """Draw EfficientNet with squeeze-and-excite and swish; B0 is that of width and depth 1."""
    stages = [stage._replace(repeats=math.ceil(stage.repeats * settings.depth)) for stage in _LITE]
    squeezing = [stage._replace(squeeze=_SQUEEZE) for stage in scaled(stages, settings.width)]
    stem, last = (rounded(channels * settings.width) for channels in (_STEM, _LAST))
    return _classifier(g, x, squeezing, (stem, last), "swish", settings.classes)


def efficientnet_lite(g: ModelBuilder, x: Value, settings: Settings) -> dict[str, Value]:
    """Draw EfficientNet-Lite: stem, head, and the depth of the first and last stage are the same at any scale."""
    inner = [stage._replace(repeats=math.ceil(stage.repeats * settings.depth)) for stage in _LITE[1:-1]]
    stages = scaled((_LITE[0], *inner, _LITE[-1]), settings.width)
    return _classifier(g, x, stages, (_STEM, _LAST), "relu6", settings.classes)


def mnasnet(g: ModelBuilder, x: Value, settings: Settings) -> dict[str, Value]:
    """Draw MnasNet: "a1" with squeeze-and-excite, "b1" without."""
    refuse_variant("MnasNet", settings.variant, _MNASNET)
    stages = scaled(_MNASNET[settings.variant], settings.width)
    return _classifier(g, x, stages, (rounded(_STEM * settings.width), _LAST), "relu", settings.classes)


def _classifier(
    g: ModelBuilder, x: Value, stages: Sequence[Stage], ends: tuple[int, int], activation: str, classes: int
) -> dict[str, Value]:
    """Draw stages between a stem and a last convolution of so many channels."""
    stem, last = ends
    y = draw_stages(g, x, stem, stages, activation)[-1].output
    return classifier(g, conv(g, y, last, activation=activation), classes)
