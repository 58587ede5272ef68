"""How raw data becomes a model's input: by the user's options, by the model's metadata, or by the defaults here."""

from __future__ import annotations

import re
import shlex
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from hasten.core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from hasten.data.tensor_forms import TensorForm
    from hasten.model.metadata import TensorMetadata

CHANNELS: Final = {"gray": 1, "rgb": 3, "bgr": 3, "rgba": 4}
LAYOUTS: Final = ("nhwc", "nchw")
RESIZES: Final = ("nearest", "bilinear", "bicubic", "box", "lanczos")
FITS: Final = ("stretch", "crop")
LENGTHS: Final = ("exact", "fit")
_COLORS: Final = {"rgb": "rgb", "grayscale": "gray"}


@dataclass(frozen=True, slots=True)
class Preprocess:
    """A real value is (x - mean) / std, where x is 0..255 in an image and -1..1 in audio. What is None is not settled
    yet, or does not apply; values without a mean are raw."""

    size: tuple[int, int] | None = None
    """Height and width."""
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None
    channels: str | None = None
    layout: str | None = None
    crop: float = 1.0
    """The share of each side that is kept, around the centre, before resizing."""
    fit: str = "stretch"
    """Whether an image of another aspect is stretched, or loses the ends of its longer side."""
    resize: str = "bilinear"
    length: str = "exact"
    """Whether audio must have the model's length, or is cut and filled with silence."""
    values_from: str = ""
    """Where mean and std come from: given, metadata or default."""
    by_scale: tuple[str, ...] = ()
    """Quantized inputs of a variant whose original takes floats there: what that is fed becomes integers by the scale,
    and is never taken for stored values, whatever its type."""

    def __post_init__(self) -> None:
        for what, value, allowed in (
            ("channels", self.channels, tuple(CHANNELS)),
            ("layout", self.layout, LAYOUTS),
            ("resize", self.resize, RESIZES),
            ("fit", self.fit, FITS),
            ("length", self.length, LENGTHS),
        ):
            if value is not None and value not in allowed:
                raise UsageError(f"--preprocess {what}={value} is not supported.", f"Use one of: {', '.join(allowed)}.")
        if not 0 < self.crop <= 1:
            raise UsageError(
                f"--preprocess crop={self.crop:g} is not possible.",
                "Give a share above 0 and up to 1, such as crop=0.875.",
            )
        if self.size is not None and min(self.size) < 1:
            raise UsageError("--preprocess size must be at least 1x1.", "Give height and width: size=224x224.")
        if self.std is not None and 0 in self.std:
            raise UsageError(
                "--preprocess std must not be 0, as values are divided by it.", "Give a standard deviation."
            )

    def describe(self) -> str:
        """The preprocessing in the form that --preprocess takes."""
        words = []
        if self.size is not None:
            words.append(f"size={_size_text(self.size)}")
        words += [f"{name}={_numbers_text(found)}" for name in ("mean", "std") if (found := getattr(self, name))]
        words += [f"{name}={found}" for name in ("channels", "layout") if (found := getattr(self, name))]
        if self.crop != 1:
            words.append(f"crop={_number_text(self.crop)}")
        plain = Preprocess()
        words.extend(
            f"{name}={getattr(self, name)}"
            for name in ("fit", "resize", "length")
            if getattr(self, name) != getattr(plain, name) or (name == "resize" and self.size is not None)
        )
        return ",".join(words) or "raw"

    @property
    def forming(self) -> tuple[str, ...]:
        """What is said of the form of images and sounds, a word for each: all but their values."""
        words = replace(self, mean=None, std=None).describe().split(",")
        return tuple(word for word in words if word not in ("raw", f"resize={Preprocess().resize}"))

    def as_data(self) -> dict[str, Any]:
        """The preprocessing as JSON can hold it."""
        return {**asdict(self), "text": self.describe()}


def preprocess_from_text(text: str) -> Preprocess:
    """What stands behind --preprocess; several numbers, one for each channel, are separated by colons."""
    given: dict[str, Any] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        if part == "raw":
            continue
        key, equals, value = part.partition("=")
        if not equals or key not in _READERS:
            raise UsageError(
                f"--preprocess does not support {part!r}.", f"Write key=value; the keys are: {', '.join(_READERS)}."
            )
        if key in given:
            raise UsageError(f"--preprocess gives {key} more than once.", f"Give one {key}=….")
        try:
            given[key] = _READERS[key](value.strip())
        except ValueError:
            raise UsageError(f"--preprocess {key}={value} cannot be read.", _HINTS.get(key, "")) from None
    if given.keys() & {"mean", "std"}:
        given = {"mean": (0.0,), "std": (1.0,), **given, "values_from": "given"}
    return Preprocess(**given)


def resolved(given: Preprocess, form: TensorForm, metadata: TensorMetadata | None = None) -> Preprocess:
    """Everything settled for one input: what is given, then what the model says of itself, then what its shape says."""
    layout = given.layout or _layout(form.sample_shape)
    size, depth = _image_size(form.sample_shape, layout)
    color = _COLORS.get(metadata.color_space or "") if metadata is not None else None
    channels = given.channels or (color if color and CHANNELS[color] == depth else _channels(depth))
    settled = replace(
        given, size=given.size or size, layout=layout if size else None, channels=channels if size else None
    )
    if given.mean is not None:
        return replace(settled, values_from="given")
    # The Task Library, which the metadata were made for, feeds uint8 inputs as they are and so does everybody.
    is_normalized = form.dtype != "uint8" or form.name in given.by_scale
    if metadata is not None and metadata.mean and metadata.std and is_normalized:
        return replace(settled, mean=metadata.mean, std=metadata.std, values_from="metadata")
    return replace(settled, values_from="default")


def check_image(given: Preprocess, form: TensorForm) -> None:
    """Raise where options, and not an image, are to blame for what does not fit an input. Only an image is asked so:
    beside it, a model may have inputs of other kinds, for which the options are not meant."""
    shape, layout = form.sample_shape, given.layout or _layout(form.sample_shape)
    size, depth = _image_size(shape, layout)
    if size is None and _image_size(shape, _layout(shape))[0] is not None:
        raise _misfit(f"layout={layout}", form, f"layout={_layout(shape)}")
    if size is None:
        return
    if given.size is not None and given.size != size:
        raise _misfit(f"size={_size_text(given.size)}", form, f"size={_size_text(size)}")
    if given.channels is not None and CHANNELS[given.channels] != depth:
        raise _misfit(f"channels={given.channels}", form, f"channels={_channels(depth)}")


def _misfit(option: str, form: TensorForm, fitting: str) -> UsageError:
    hint = f"Omit it, or give {fitting}."
    if fitting == "size=1x1":  # what stands in a file for a size that is open
        hint = f"If the model leaves its size open, set it: --shape {shlex.quote(form.name)}=…."
    return UsageError(f"--preprocess {option} does not fit input {form.name!r} of shape {list(form.shape)}.", hint)


def _layout(shape: tuple[int, ...]) -> str:
    depths = set(CHANNELS.values())
    return "nchw" if len(shape) == 3 and shape[-1] not in depths and shape[0] in depths else "nhwc"


def _image_size(shape: tuple[int, ...], layout: str) -> tuple[tuple[int, int] | None, int]:
    """Height and width, and how many channels; None for what cannot be an image."""
    if len(shape) == 2:
        return (shape[0], shape[1]), 1
    if len(shape) != 3:
        return None, 0
    height, width, depth = shape if layout == "nhwc" else (shape[1], shape[2], shape[0])
    return ((height, width), depth) if depth in CHANNELS.values() else (None, 0)


def _channels(depth: int) -> str | None:
    return next((name for name, count in CHANNELS.items() if count == depth), None)


def _size(text: str) -> tuple[int, int]:
    match = re.fullmatch(r"(\d{1,6})(?:x(\d{1,6}))?", text)
    if match is None:
        raise ValueError(text)
    return int(match[1]), int(match[2] or match[1])


def _size_text(size: tuple[int, int]) -> str:
    return f"{size[0]}x{size[1]}"


def _numbers(text: str) -> tuple[float, ...]:
    numbers = tuple(float(part) for part in text.split(":"))
    if not all(abs(number) < float("inf") for number in numbers):
        raise ValueError(text)
    return numbers


def _numbers_text(numbers: tuple[float, ...]) -> str:
    return ":".join(_number_text(number) for number in numbers)


def _number_text(number: float) -> str:
    return str(int(number)) if number == int(number) else repr(number)


_READERS: Final[dict[str, Callable[[str], Any]]] = {
    "size": _size,
    "mean": _numbers,
    "std": _numbers,
    "channels": str,
    "layout": str,
    "crop": float,
    "fit": str,
    "resize": str,
    "length": str,
}
_HINTS: Final = {
    "size": "Height and width: size=224x224.",
    "mean": "One number, or one for each channel: mean=127.5 or mean=123.7:116.3:103.5.",
    "std": "One number, or one for each channel: std=127.5 or std=58.4:57.1:57.4.",
    "crop": "The share of each side that is kept: crop=0.875.",
}
