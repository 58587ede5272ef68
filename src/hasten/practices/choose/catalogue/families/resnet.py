"""ResNet-50 (arXiv:1512.03385, table 1), with the stride in the 3×3 convolution as torchvision has it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hasten.practices.choose.catalogue.families.blocks import classifier

if TYPE_CHECKING:
    from hasten.model.build import ModelBuilder
    from hasten.model.build_graph import Value
    from hasten.practices.choose.catalogue.entry import Settings

# Channels, blocks, stride.
_STAGES: Final = ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2))
_EXPANSION: Final = 4


def resnet_50(g: ModelBuilder, x: Value, settings: Settings) -> dict[str, Value]:
    """Draw a classifier."""
    y = g.max_pool2d(g.conv2d(x, 64, 7, 2, activation="relu"), 3, 2, padding="same")
    for channels, blocks, stride in _STAGES:
        for number in range(blocks):
            y = _bottleneck(g, y, channels, stride if number == 0 else 1)
    return classifier(g, y, settings.classes)


def _bottleneck(g: ModelBuilder, x: Value, channels: int, stride: int) -> Value:
    y = g.conv2d(x, channels, activation="relu")
    y = g.conv2d(y, channels, 3, stride, activation="relu")
    y = g.conv2d(y, channels * _EXPANSION)
    shortcut = x if y.shape == x.shape else g.conv2d(x, channels * _EXPANSION, 1, stride)
    return g.add(shortcut, y, activation="relu")
