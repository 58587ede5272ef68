"""Maps of classes, pixel by pixel: from a model's output, and masks at another size."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from hasten.core.errors import DataError

if TYPE_CHECKING:
    from hasten.data.dataset import Array

_HALF: Final = 0.5
# Probabilities of a quantized output may end a little beyond 0 and 1.
_ROUNDING: Final = 0.02


def class_map(output: Array, mask_shape: tuple[int, ...] | None = None) -> Array:
    """The classes that an output tells: a score for each class, one probability a pixel, or classes themselves.

    Scores may have their classes last or first; the mask's shape tells where the output's own does not.
    """
    values = output[0] if output.ndim > 2 and output.shape[0] == 1 else output
    if values.ndim == 3 and 1 in (values.shape[0], values.shape[-1]):
        values = values[..., 0] if values.shape[-1] == 1 else values[0]
    if values.ndim == 3:
        return np.asarray(values.argmax(axis=0 if _classes_come_first(values.shape, mask_shape) else -1))
    if values.ndim != 2 or 1 in values.shape:
        raise DataError(
            f"An output of shape {list(output.shape)} is not a class map.", "Choose another metric, or another output."
        )
    return _classes(values)


def nearest_resized(mask: Array, shape: tuple[int, ...]) -> Array:
    """A mask at another size: each pixel takes the class of the nearest one."""
    flat = flat_mask(mask)
    rows, columns = (
        (2 * np.arange(wanted) + 1) * found // (2 * wanted)  # whole numbers: a pixel's centre may fall on an edge
        for found, wanted in zip(flat.shape, shape, strict=True)
    )
    return np.asarray(flat[rows[:, None], columns])


def flat_mask(mask: Array) -> Array:
    """A mask with height and width alone."""
    flat = mask[..., 0] if mask.ndim == 3 and mask.shape[-1] == 1 else mask
    if flat.ndim != 2:
        raise DataError(f"A mask must have height and width; this one has the shape {list(mask.shape)}.")
    return flat


def _classes_come_first(shape: tuple[int, ...], mask_shape: tuple[int, ...] | None) -> bool:
    first, last = shape[1:], shape[:2]
    if first != last and mask_shape in (first, last):
        return mask_shape == first
    # Images are square more often than they have as many rows as there are classes.
    return first[0] == first[1] and last[0] != last[1]


def _classes(values: Array) -> Array:
    """One value a pixel: a class, or the probability of class 1."""
    if values.dtype.kind != "f" or np.array_equal(values, np.rint(values)):
        return values
    if values.min() < -_ROUNDING or values.max() > 1 + _ROUNDING:
        raise DataError(
            "The output has one score per pixel that is neither a class nor a probability.",
            "Set the threshold in a metric of your own: --metric module:function.",
        )
    return np.asarray(values > _HALF)
