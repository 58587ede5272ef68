"""Images by Pillow, which is imported when the first one is opened: it is an extra."""

from __future__ import annotations

import struct
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hasten.core.errors import DataError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from types import ModuleType

    from hasten.data.dataset import Array
    from hasten.data.preprocess import Preprocess

SUFFIXES: Final = frozenset({".jpg", ".jpeg", ".png", ".bmp", ".gif", ".ppm", ".pgm", ".tif", ".tiff", ".webp"})
_MODES: Final = {"gray": "L", "rgb": "RGB", "bgr": "RGB", "rgba": "RGBA"}
# Modes of more than 8 bits: Pillow would cut their values off at 255 instead of scaling them.
_DEEP_MODES: Final = ("I", "F")
_ORIENTATION: Final = 0x0112
# What turns an image upright, by its orientation in EXIF.
_TURNS: Final = {
    2: "FLIP_LEFT_RIGHT",
    3: "ROTATE_180",
    4: "FLIP_TOP_BOTTOM",
    5: "TRANSPOSE",
    6: "ROTATE_270",
    7: "TRANSVERSE",
    8: "ROTATE_90",
}


def pixels_from_file(path: Path, preprocess: Preprocess) -> Array:
    """An image as uint8 [height, width, channels], turned as its EXIF data say, cropped and resized."""
    with _opened(path) as image:
        return _pixels(_upright(image), preprocess, str(path))


def pixels_from_array(values: Array, preprocess: Preprocess, name: str) -> Array:
    """The same for an image that was read already: uint8 [height, width] or [height, width, channels]."""
    flat = values[..., 0] if values.ndim == 3 and values.shape[-1] == 1 else values
    return _pixels(_pillow().fromarray(np.ascontiguousarray(flat)), preprocess, name)


def mask_from_file(path: Path) -> Array:
    """A mask: the number of a class for each pixel, from a PNG of gray values or of a palette."""
    with _opened(path) as image:
        if image.mode not in ("L", "P", "1", "I;16", "I"):
            raise DataError(
                f"{path} is not a mask: its mode is {image.mode}.",
                "Store the class number of each pixel as a gray value or palette index.",
            )
        return np.asarray(image)


def _pixels(image: Any, preprocess: Preprocess, name: str) -> Array:
    if image.mode.startswith(_DEEP_MODES):
        raise DataError(
            f"{name}: pixels of more than 8 bits (mode {image.mode}) are not supported.",
            "Convert it to 8 bits, or give the values as an array.",
        )
    channels = preprocess.channels or "rgb"
    if image.mode != _MODES[channels]:
        image = image.convert(_MODES[channels])
    height, width = preprocess.size or (image.height, image.width)
    box = _box(image.width, image.height, width / height, preprocess)
    if image.size != (width, height) or box != (0, 0, *image.size):
        method = getattr(_pillow().Resampling, preprocess.resize.upper())
        image = image.resize((width, height), method, box=box)
    values = np.asarray(image)
    values = values[..., np.newaxis] if values.ndim == 2 else values
    return values[..., ::-1] if channels == "bgr" else values


def _upright(image: Any) -> Any:
    """A photo as viewers show it: many cameras store it lying, and how to turn it."""
    turn = _TURNS.get(image.getexif().get(_ORIENTATION, 1))
    return image if turn is None else image.transpose(getattr(_pillow().Transpose, turn))


def _box(width: int, height: int, aspect: float, preprocess: Preprocess) -> tuple[float, float, float, float]:
    """The part of an image that is kept: left, top, right, bottom."""
    wide, high = float(width), float(height)
    if preprocess.fit == "crop":
        wide, high = min(wide, high * aspect), min(high, wide / aspect)
    wide, high = wide * preprocess.crop, high * preprocess.crop
    left, top = (width - wide) / 2, (height - high) / 2
    return left, top, left + wide, top + high


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    pillow = _pillow()
    try:
        with pillow.open(path) as image:
            image.load()
            yield image
    except FileNotFoundError:
        raise DataError(f"There is no image {path}.") from None
    # All that Pillow raises on damaged files; a broken PNG is a SyntaxError to it, and broken EXIF data a struct.error.
    except (
        OSError,
        SyntaxError,
        ValueError,
        EOFError,
        IndexError,
        struct.error,
        pillow.DecompressionBombError,
    ) as error:
        raise DataError(
            f"{path} cannot be read as an image: {error}.", "Repair or remove it, or skip such files with --skip-bad."
        ) from error


def _pillow() -> ModuleType:
    try:
        from PIL import Image
    except ImportError:
        raise UsageError(
            "Reading images needs the package Pillow, which is not installed.",
            "Install it: pip install 'hasten[images]'",
        ) from None
    return Image
