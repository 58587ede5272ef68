"""Segmenters: DeepLab V3 on MobileNet V2 without atrous pyramid, and LR-ASPP on MobileNet V3 Large.

DeepLab: arXiv:1801.04381, section 6.3; tensorflow/models (research/deeplab). LR-ASPP: arXiv:1905.02244, section 6.4, as
torchvision builds it (models/segmentation/lraspp.py).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from hasten.practices.choose.catalogue.families.blocks import draw_blocks
from hasten.practices.choose.catalogue.families.mobilenet import V3_LARGE_TAIL, v2_features, v3_blocks, v3_last, v3_stem

if TYPE_CHECKING:
    from hasten.model.build import ModelBuilder
    from hasten.model.build_graph import Value
    from hasten.practices.choose.catalogue.entry import Settings

_DEEPLAB_CHANNELS: Final = 256
_LRASPP_CHANNELS: Final = 128
# The block of MobileNet V3 Large that first has an eighth of the image.
_LRASPP_LOW: Final = 3


def deeplab_mobilenet_v2(g: ModelBuilder, x: Value, settings: Settings) -> dict[str, Value]:
    """Draw DeepLab V3; its backbone does not round channels to a multiple of 8."""
    blocks = v2_features(g, x, settings.width, output_stride=settings.output_stride, multiple=1)
    y = blocks[-1].output
    whole = g.conv2d(g.mean(y, keep_dims=True), _DEEPLAB_CHANNELS, activation="relu")
    # The resized one first: joined values of one range need no change of scale.
    branches = [g.resize_bilinear(whole, *y.shape[1:3]), g.conv2d(y, _DEEPLAB_CHANNELS, activation="relu")]
    y = g.conv2d(g.concatenation(branches), _DEEPLAB_CHANNELS, activation="relu")
    return {"classes": g.resize_bilinear(g.conv2d(y, settings.classes), *x.shape[1:3])}


def lraspp_mobilenet_v3(g: ModelBuilder, x: Value, settings: Settings) -> dict[str, Value]:
    """Draw LR-ASPP; the last blocks have dilation in the place of a stride."""
    table = v3_blocks("large", settings.width)
    dilated = [replace(block, stride=1, dilation=2) for block in table[V3_LARGE_TAIL:]]
    blocks = draw_blocks(g, v3_stem(g, x), [*table[:V3_LARGE_TAIL], *dilated])
    low, high = blocks[_LRASPP_LOW].output, v3_last(g, blocks[-1].output)
    gate = g.logistic(g.conv2d(g.mean(high, keep_dims=True), _LRASPP_CHANNELS))
    y = g.mul(g.conv2d(high, _LRASPP_CHANNELS, activation="relu"), gate)
    y = g.resize_bilinear(y, *low.shape[1:3])
    both = g.add(g.conv2d(low, settings.classes), g.conv2d(y, settings.classes))
    return {"classes": g.resize_bilinear(both, *x.shape[1:3])}
