"""SqueezeNet 1.0 and 1.1 (arXiv:1602.07360, table 1; as torchvision builds them, models/squeezenet.py)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hasten.practices.choose.catalogue.families.blocks import refuse_variant

if TYPE_CHECKING:
    from hasten.model.build import ModelBuilder
    from hasten.model.build_graph import Value
    from hasten.practices.choose.catalogue.entry import Settings

# Filters and kernel of the stem; then the squeezed channels of each fire module, and the padding of each pooling. One
# pooling of 1.0 rounds up at 224 pixels, for which TensorFlow Lite has the padding "same".
_TABLES: Final[dict[str, tuple[tuple[int, int], tuple[int | str, ...]]]] = {
    "1.0": ((96, 7), ("valid", 16, 16, 32, "same", 32, 48, 48, 64, "valid", 64)),
    "1.1": ((64, 3), ("valid", 16, 16, "valid", 32, 32, "valid", 48, 48, 64, 64)),
}
_EXPANSION: Final = 4


def squeezenet(g: ModelBuilder, x: Value, settings: Settings) -> dict[str, Value]:
    """Draw a classifier, whose logits are means over the image."""
    refuse_variant("SqueezeNet", settings.variant, _TABLES)
    (filters, kernel), layers = _TABLES[settings.variant]
    y = g.conv2d(x, filters, kernel, 2, padding="valid", activation="relu")
    for layer in layers:
        y = g.max_pool2d(y, 3, 2, padding=layer) if isinstance(layer, str) else _fire(g, y, layer)
    y = g.mean(g.conv2d(y, settings.classes, activation="relu"))
    return {"probabilities": g.softmax(y)}


def _fire(g: ModelBuilder, x: Value, squeezed: int) -> Value:
    y = g.conv2d(x, squeezed, activation="relu")
    expanded = squeezed * _EXPANSION
    return g.concatenation([g.conv2d(y, expanded, kernel, activation="relu") for kernel in (1, 3)])
