"""Detectors: SSD on MobileNet V1, SSDLite on V2 and V3, up to the boxes and scores before non-maximum suppression.

SSD: tensorflow/models (research/object_detection, ssd_mobilenet_v1_coco). SSDLite: arXiv:1801.04381, section 6.2; with
MobileNet V3: arXiv:1905.02244, section 6.3, as torchvision builds it (models/detection/ssdlite.py).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from hasten.practices.choose.catalogue.families.blocks import conv, draw_blocks, joined
from hasten.practices.choose.catalogue.families.mobilenet import (
    V3_LARGE_TAIL,
    v1_features,
    v2_features,
    v2_last,
    v3_blocks,
    v3_last,
    v3_stem,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hasten.model.build import ModelBuilder
    from hasten.model.build_graph import Value
    from hasten.practices.choose.catalogue.entry import Settings

# Channels of the maps beyond the backbone, each half as large as the one before.
_EXTRA: Final = (512, 256, 256, 128)
_FEWEST_CHANNELS: Final = 16
_COORDINATES: Final = 4
_ANCHORS: Final = 6
_ANCHORS_OF_FIRST: Final = 3
# Which layer of MobileNet V1, and which block of V2, gives the first map; the last layer gives the second.
_V1_TAP: Final = 11
_V2_TAP: Final = 13


def ssd_mobilenet_v1(g: ModelBuilder, x: Value, settings: Settings) -> dict[str, Value]:
    """Draw SSD with plain convolutions, and with predictors of 1×1."""
    features = v1_features(g, x, settings.width)
    maps = [features[_V1_TAP], features[-1]]
    for depth in _EXTRA:
        channels = max(int(depth * settings.width), _FEWEST_CHANNELS)
        half = g.conv2d(maps[-1], channels // 2, activation="relu6")
        maps.append(g.conv2d(half, channels, 3, 2, activation="relu6"))
    return _predictions(g, maps, _with_fewer_first(maps), settings.classes, lambda y, channels: g.conv2d(y, channels))


def ssdlite_mobilenet_v2(g: ModelBuilder, x: Value, settings: Settings) -> dict[str, Value]:
    """Draw SSDLite, which reads the expansion of the first block at a 32nd of the image."""
    blocks = v2_features(g, x, settings.width)
    last = g.conv2d(blocks[-1].output, v2_last(settings.width), activation="relu6")
    return _ssdlite(g, [blocks[_V2_TAP].expanded, last], settings.classes, fewer_first=True)


def ssdlite_mobilenet_v3(g: ModelBuilder, x: Value, settings: Settings) -> dict[str, Value]:
    """Draw SSDLite on MobileNet V3 Large with half of the channels in its last blocks."""
    table = v3_blocks("large", settings.width)
    body, (first, *rest) = table[:V3_LARGE_TAIL], table[V3_LARGE_TAIL:]
    tail = [replace(first, channels=first.channels // 2)]
    for block in rest:
        expanded = block.expanded // 2
        tail.append(replace(block, expanded=expanded, channels=block.channels // 2, squeeze=expanded // 4))
    blocks = draw_blocks(g, v3_stem(g, x), [*body, *tail])
    maps = [blocks[V3_LARGE_TAIL].expanded, v3_last(g, blocks[-1].output)]
    return _ssdlite(g, maps, settings.classes, fewer_first=False)


def _ssdlite(g: ModelBuilder, maps: list[Value], classes: int, *, fewer_first: bool) -> dict[str, Value]:
    for depth in _EXTRA:
        half = conv(g, maps[-1], depth // 2, activation="relu6")
        maps.append(conv(g, g.depthwise_conv2d(half, 3, 2, activation="relu6"), depth, activation="relu6"))
    anchors = _with_fewer_first(maps) if fewer_first else [_ANCHORS] * len(maps)

    def predict(y: Value, channels: int) -> Value:
        return g.conv2d(g.depthwise_conv2d(y, 3, activation="relu6"), channels)

    return _predictions(g, maps, anchors, classes, predict)


def _predictions(
    g: ModelBuilder, maps: Sequence[Value], anchors: Sequence[int], classes: int, predict: Callable[[Value, int], Value]
) -> dict[str, Value]:
    boxes = [predict(y, count * _COORDINATES) for y, count in zip(maps, anchors, strict=True)]
    scores = [predict(y, count * classes) for y, count in zip(maps, anchors, strict=True)]
    return {"boxes": joined(g, boxes, _COORDINATES), "scores": g.logistic(joined(g, scores, classes))}


def _with_fewer_first(maps: Sequence[Value]) -> list[int]:
    return [_ANCHORS_OF_FIRST, *[_ANCHORS] * (len(maps) - 1)]
