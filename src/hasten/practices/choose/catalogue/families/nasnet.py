"""NASNet-A Mobile, 4 @ 1056 (arXiv:1707.07012, appendix A.4 and figure 4; as keras.applications builds it).

Two things are left out that cost next to nothing: the shift by one pixel before one of the two paths that halve an
image, and the batch normalization after a concatenation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hasten.practices.choose.catalogue.families.blocks import classifier

if TYPE_CHECKING:
    from hasten.model.build import ModelBuilder
    from hasten.model.build_graph import Value
    from hasten.practices.choose.catalogue.entry import Settings

_STEM: Final = 32
_FILTERS: Final = 44  # a 24th of the 1056 channels at the end
_CELLS: Final = 4


def nasnet_mobile(g: ModelBuilder, x: Value, settings: Settings) -> dict[str, Value]:
    """Draw a classifier."""
    y = g.conv2d(x, _STEM, 3, 2, padding="valid")
    before = y
    for filters in (_FILTERS // 4, _FILTERS // 2):
        y, before = _reduction_cell(g, y, before, filters), y
    for filters in (_FILTERS, 2 * _FILTERS, 4 * _FILTERS):
        if filters > _FILTERS:
            y, before = _reduction_cell(g, y, before, filters), y
        for _ in range(_CELLS):
            y, before = _normal_cell(g, y, before, filters), y
    return classifier(g, g.relu(y), settings.classes)


def _normal_cell(g: ModelBuilder, y: Value, before: Value, filters: int) -> Value:
    p = _adjusted(g, before, y, filters)
    h = g.conv2d(g.relu(y), filters)
    # Converters compute the ReLU of a value once, however many read it.
    active_h, active_p = g.relu(h), g.relu(p)
    pooled = g.average_pool2d(p, 3, 1, padding="same")
    sums = [
        (_separable(g, active_h, filters, 5), _separable(g, active_p, filters, 3)),
        (_separable(g, active_p, filters, 5), _separable(g, active_p, filters, 3)),
        (g.average_pool2d(h, 3, 1, padding="same"), p),
        (pooled, pooled),
        (_separable(g, active_h, filters, 3), h),
    ]
    return g.concatenation([p, *(g.add(a, b, range_of=h) for a, b in sums)])


def _reduction_cell(g: ModelBuilder, y: Value, before: Value, filters: int) -> Value:
    p = _adjusted(g, before, y, filters)
    h = g.conv2d(g.relu(y), filters)
    active_h, active_p = g.relu(h), g.relu(p)
    largest = g.max_pool2d(h, 3, 2, padding="same")
    x1 = g.add(_separable(g, active_h, filters, 5, 2), _separable(g, active_p, filters, 7, 2), range_of=h)
    x2 = g.add(largest, _separable(g, active_p, filters, 7, 2), range_of=h)
    x3 = g.add(g.average_pool2d(h, 3, 2, padding="same"), _separable(g, active_p, filters, 5, 2), range_of=h)
    x4 = g.add(x2, g.average_pool2d(x1, 3, 1, padding="same"), range_of=h)
    x5 = g.add(_separable(g, g.relu(x1), filters, 3), largest, range_of=h)
    return g.concatenation([x2, x3, x4, x5])


def _adjusted(g: ModelBuilder, before: Value, y: Value, filters: int) -> Value:
    """What the cell before the last computed, in the size of the last one."""
    if before is y:  # there is none before the first
        return y
    if before.shape[1] == y.shape[1]:
        return before if before.shape[-1] == filters else g.conv2d(g.relu(before), filters)
    halved = g.average_pool2d(g.relu(before), 1, 2)
    return g.concatenation([g.conv2d(halved, filters // 2), g.conv2d(halved, filters - filters // 2)])


def _separable(g: ModelBuilder, active: Value, filters: int, kernel: int, stride: int = 1) -> Value:
    """Two separable convolutions of a value that a ReLU made."""
    y = g.conv2d(g.depthwise_conv2d(active, kernel, stride), filters, activation="relu")
    return g.conv2d(g.depthwise_conv2d(y, kernel), filters)
