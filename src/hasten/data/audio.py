"""Audio from WAV files, by the standard library."""

from __future__ import annotations

import wave
from typing import TYPE_CHECKING, Final

import numpy as np

from hasten.core.errors import DataError
from hasten.core.units import several

if TYPE_CHECKING:
    from pathlib import Path

    from hasten.data.dataset import Array

SUFFIXES: Final = frozenset({".wav"})
_WIDTHS: Final = (1, 2, 3, 4)
"""Bytes of a value."""


def waveform_from_file(path: Path, channels: int = 1) -> tuple[Array, int]:
    """Values of -1..1, float32 [time, channels], and how many there are in a second. Several channels make one by
    their mean."""
    try:
        with wave.open(str(path), "rb") as file:
            found, width, rate = file.getnchannels(), file.getsampwidth(), file.getframerate()
            if width not in _WIDTHS:
                raise wave.Error(f"a value has {8 * width} bits")
            data = file.readframes(file.getnframes())
    except FileNotFoundError:
        raise DataError(f"There is no audio file {path}.") from None
    except (wave.Error, EOFError, OSError, RuntimeError) as error:  # the last where a part claims more than there is
        raise DataError(
            f"{path} cannot be read as audio: {str(error) or 'it ends too early'}.",
            "Convert it to a PCM WAV file, remove it, or skip such files with --skip-bad.",
        ) from None
    frame = found * width
    values = _values(data[: len(data) // frame * frame], width).reshape(-1, found)
    if found != channels:
        if channels != 1:
            raise DataError(f"{path} has {several(found, 'channel')}, but the model takes {channels}.")
        values = values.mean(axis=1, keepdims=True)
    return values.astype(np.float32), rate


def fitted(values: Array, length: int, how: str, name: str) -> Array:
    """Values of the given length in time: unchanged, or cut and padded with silence where asked for."""
    if len(values) == length:
        return values
    if how != "fit":
        raise DataError(
            f"{name} has {several(len(values), 'value')} per channel, but the model takes {length}.",
            "Cut it or pad it with silence: --preprocess length=fit.",
        )
    return np.pad(values[:length], ((0, max(0, length - len(values))), (0, 0)))


def _values(data: bytes, width: int) -> Array:
    if width == 1:  # the one width that WAV stores without a sign
        return (np.frombuffer(data, np.uint8).astype(np.float64) - 128) / 128
    if width == 3:
        octets = np.frombuffer(data, np.uint8).reshape(-1, 3)
        wide = np.zeros((len(octets), 4), np.uint8)
        wide[:, 1:] = octets
        return wide.view("<i4").reshape(-1) / 2.0**31
    return np.frombuffer(data, f"<i{width}") / 2.0 ** (8 * width - 1)
