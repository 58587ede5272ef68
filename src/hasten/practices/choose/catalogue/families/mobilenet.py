"""The MobileNets, and YAMNet, which is MobileNet V1 on a spectrogram.

V1: arXiv:1704.04861, table 1. V2: arXiv:1801.04381, table 2. V3: arXiv:1905.02244, tables 1 and 2; minimalistic ones:
tensorflow/models (research/slim/nets/mobilenet/README.md). YAMNet: tensorflow/models (research/audioset/yamnet).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from hasten.practices.choose.catalogue.families.blocks import (
    Block,
    Stage,
    classifier,
    conv,
    dense,
    draw_blocks,
    draw_stages,
    refuse_variant,
    rounded,
    scaled,
)

if TYPE_CHECKING:
    from hasten.model.build import ModelBuilder
    from hasten.model.build_graph import Value
    from hasten.practices.choose.catalogue.entry import Settings
    from hasten.practices.choose.catalogue.families.blocks import Drawn

# Channels and stride of each depthwise separable convolution.
_V1_LAYERS: Final = (
    *((64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2)),
    *((512, 1),) * 5,
    *((1024, 2), (1024, 1)),
)
_V1_FEWEST_CHANNELS: Final = 8
_V2_STAGES: Final = (
    Stage(1, 3, 1, 1, 16),
    Stage(2, 3, 2, 6, 24),
    Stage(3, 3, 2, 6, 32),
    Stage(4, 3, 2, 6, 64),
    Stage(3, 3, 1, 6, 96),
    Stage(3, 3, 2, 6, 160),
    Stage(1, 3, 1, 6, 320),
)
_V2_LAST: Final = 1280
# Kernel, expanded channels, channels, squeeze-and-excite, activation (RE: ReLU, HS: hard swish), stride.
_V3_TABLES: Final = {
    "large": (
        (3, 16, 16, False, "RE", 1),
        (3, 64, 24, False, "RE", 2),
        (3, 72, 24, False, "RE", 1),
        (5, 72, 40, True, "RE", 2),
        (5, 120, 40, True, "RE", 1),
        (5, 120, 40, True, "RE", 1),
        (3, 240, 80, False, "HS", 2),
        (3, 200, 80, False, "HS", 1),
        (3, 184, 80, False, "HS", 1),
        (3, 184, 80, False, "HS", 1),
        (3, 480, 112, True, "HS", 1),
        (3, 672, 112, True, "HS", 1),
        (5, 672, 160, True, "HS", 2),
        (5, 960, 160, True, "HS", 1),
        (5, 960, 160, True, "HS", 1),
    ),
    "small": (
        (3, 16, 16, True, "RE", 2),
        (3, 72, 24, False, "RE", 2),
        (3, 88, 24, False, "RE", 1),
        (5, 96, 40, True, "HS", 2),
        (5, 240, 40, True, "HS", 1),
        (5, 240, 40, True, "HS", 1),
        (5, 120, 48, True, "HS", 1),
        (5, 144, 48, True, "HS", 1),
        (5, 288, 96, True, "HS", 2),
        (5, 576, 96, True, "HS", 1),
        (5, 576, 96, True, "HS", 1),
    ),
}
_V3_ACTIVATIONS: Final = {"RE": "relu", "HS": "hard_swish"}
_V3_STEM: Final = 16
_V3_LAST: Final = {"large": 1280, "small": 1024}
_V3_LAST_EXPANSION: Final = 6
# The blocks at the smallest image: detectors halve their channels, segmenters spread their taps in place of a stride.
V3_LARGE_TAIL: Final = 12
_MINIMALISTIC: Final = "minimalistic"


def mobilenet_v1(g: ModelBuilder, x: Value, settings: Settings) -> dict[str, Value]:
    """Draw a classifier."""
    return classifier(g, v1_features(g, x, settings.width)[-1], settings.classes)


def yamnet(g: ModelBuilder, x: Value, settings: Settings) -> dict[str, Value]:
    """Draw the classifier of spectrograms: scores of classes that do not exclude each other."""
    y = v1_features(g, x, settings.width, activation="relu")[-1]
    return {"scores": g.logistic(g.fully_connected(g.mean(y), settings.classes))}


def mobilenet_v2(g: ModelBuilder, x: Value, settings: Settings) -> dict[str, Value]:
    """Draw a classifier."""
    y = v2_features(g, x, settings.width)[-1].output
    last = conv(g, y, v2_last(settings.width), activation="relu6")
    return classifier(g, last, settings.classes)


def mobilenet_v3(g: ModelBuilder, x: Value, settings: Settings) -> dict[str, Value]:
    """Draw a classifier: "large" or "small", and "minimalistic" behind it for one of plain operators."""
    refuse_variant("MobileNet V3", settings.variant, [*_V3_TABLES, *(f"{size}-{_MINIMALISTIC}" for size in _V3_TABLES)])
    size, _, kind = settings.variant.partition("-")
    plain = kind == _MINIMALISTIC
    activation = "relu" if plain else "hard_swish"
    blocks = v3_blocks(size, settings.width)
    y = draw_blocks(g, v3_stem(g, x, activation), map(_plain, blocks) if plain else blocks)[-1].output
    hidden = dense(g, g.mean(v3_last(g, y, activation)), _V3_LAST[size], activation)
    return {"probabilities": g.softmax(g.fully_connected(hidden, settings.classes))}


def v1_features(g: ModelBuilder, x: Value, width: float, *, activation: str = "relu6") -> list[Value]:
    """What the stem and each of the 13 layers compute."""
    features = [g.conv2d(x, _v1_channels(32, width), 3, 2, activation=activation)]
    for channels, stride in _V1_LAYERS:
        y = g.depthwise_conv2d(features[-1], 3, stride, activation=activation)
        features.append(g.conv2d(y, _v1_channels(channels, width), activation=activation))
    return features


def v2_features(g: ModelBuilder, x: Value, width: float, *, output_stride: int = 32, multiple: int = 8) -> list[Drawn]:
    """What the blocks compute."""
    stem = rounded(32 * width, multiple)
    return draw_stages(g, x, stem, scaled(_V2_STAGES, width, multiple), "relu6", output_stride=output_stride)


def v2_last(width: float) -> int:
    """Channels of the last convolution, which narrow models keep."""
    return rounded(_V2_LAST * max(1.0, width))


def v3_blocks(size: str, width: float = 1.0) -> list[Block]:
    """The blocks of a table, scaled as tensorflow/models does it: the expansion follows the channels that come in."""
    blocks = []
    before, before_scaled = _V3_STEM, _V3_STEM
    for kernel, expanded, channels, squeezes, activation, stride in _V3_TABLES[size]:
        wide = rounded(before_scaled * expanded / before)
        squeeze = rounded(wide / 4) if squeezes else 0
        after = rounded(channels * width)
        blocks.append(Block(kernel, stride, wide, after, _V3_ACTIVATIONS[activation], squeeze, hard_gate=True))
        before, before_scaled = channels, after
    return blocks


def v3_stem(g: ModelBuilder, x: Value, activation: str = "hard_swish") -> Value:
    """Draw the first convolution."""
    return conv(g, x, _V3_STEM, 3, 2, activation=activation)


def v3_last(g: ModelBuilder, x: Value, activation: str = "hard_swish") -> Value:
    """Draw the last convolution before the mean."""
    return conv(g, x, rounded(x.shape[-1] * _V3_LAST_EXPANSION), activation=activation)


def _plain(block: Block) -> Block:
    return replace(block, kernel=3, activation="relu", squeeze=0)


def _v1_channels(channels: int, width: float) -> int:
    return max(int(channels * width), _V1_FEWEST_CHANNELS)
