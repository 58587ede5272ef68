"""A sample as the bytes that a model's inputs take; a sample that does not fit is named, with the reason."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hasten.core.accuracy_notes import GUESSED_FLOAT, GUESSED_INT8, UNUSED_PREPROCESS
from hasten.core.errors import DataError, ModelError, UsageError
from hasten.core.remark import Remark
from hasten.core.units import several
from hasten.data import audio, images
from hasten.data.dataset import keys_in_order
from hasten.data.preprocess import Preprocess, check_image, resolved
from hasten.data.tensor_forms import numpy_type, stored_from_real

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hasten.core.errors import HastenError
    from hasten.data.dataset import Array, Inputs, Sample, Source
    from hasten.data.tensor_forms import TensorForm
    from hasten.model.metadata import ModelMetadata

SKIP_HINT: Final = "Repair or remove it, or skip such samples with --skip-bad."


class Preparer:
    """Prepares samples for one model. Safe to use from several threads."""

    def __init__(
        self, forms: Sequence[TensorForm], given: Preprocess = Preprocess(), metadata: ModelMetadata | None = None
    ) -> None:
        known = {entry.tensor: entry for entry in metadata.inputs} if metadata is not None else {}
        said = [known.get(form.tensor_name) for form in forms]
        self.forms, self._given = tuple(forms), given
        self.preprocess = tuple(resolved(given, form, entry) for form, entry in zip(forms, said, strict=True))
        self._rates = tuple(entry.sample_rate_hz if entry is not None else None for entry in said)
        self._notes: dict[str, Remark] = {}
        self._forming = given.forming

    @property
    def notes(self) -> tuple[Remark, ...]:
        """What had to be guessed so far."""
        return tuple(self._notes.values())

    def prepare(self, sample: Sample, buffers: Sequence[Array] | None = None) -> tuple[Array, ...]:
        """The stored values of each input, in the model's order and shape.

        They may be put into `buffers`, one for each input: fresh memory for each image costs as much as decoding it.
        """
        sources = self._sources(sample.inputs, sample.name)
        if self._forming and not sample.is_prepared:
            self._note_unused(sources)
        return tuple(
            self._input(position, source, sample, None if buffers is None else buffers[position])
            for position, source in enumerate(sources)
        )

    def create_buffers(self) -> tuple[Array, ...]:
        """Memory for the inputs of one sample, to be used again and again."""
        return tuple(np.empty(form.shape, numpy_type(form)) for form in self.forms)

    def _sources(self, inputs: Inputs, name: str) -> list[Source]:
        if not isinstance(inputs, Mapping):
            if len(inputs) != len(self.forms):
                raise DataError(
                    f"{name} has {several(len(inputs), 'input')}, but the model takes {len(self.forms)}.",
                    self._names_hint(),
                )
            return list(inputs)
        by_name = [next((key for key in (form.name, form.tensor_name) if key in inputs), None) for form in self.forms]
        if None not in by_name:
            return [inputs[key] for key in by_name if key is not None]
        ordered = keys_in_order(inputs)
        if len(ordered) == len(self.forms):
            return [inputs[key] for key in ordered]
        missing = self.forms[by_name.index(None)].name
        raise DataError(
            f"{name} has no values for input {missing!r}; it has {', '.join(inputs) or 'none'}.", self._names_hint()
        )

    def _note_unused(self, sources: Sequence[Source]) -> None:
        """Images and sounds are brought into form, arrays of other numbers are not, whatever the user says."""
        arrays = [np.asarray(source) for source in sources if not isinstance(source, Path)]
        if len(arrays) < len(sources) or any(array.dtype == np.uint8 for array in arrays):
            return
        is_turned = any(
            not _same_apart_from_ones(array.shape, form.shape) for array, form in zip(arrays, self.forms, strict=True)
        )
        unused = [word for word in self._forming if not (is_turned and word.startswith("layout="))]
        if unused:
            types = list(dict.fromkeys(str(array.dtype) for array in arrays))
            self._note(UNUSED_PREPROCESS, options=",".join(unused), types=types)
            self._forming = ()

    def _note(self, code: str, **facts: Any) -> None:
        self._notes.setdefault(code, Remark(code, facts))

    def _names_hint(self) -> str:
        wanted = ", ".join(form.name for form in self.forms)
        return f"Name them as the model does ({wanted}), or x0, x1, … in its order."

    def _input(self, position: int, source: Source, sample: Sample, buffer: Array | None) -> Array:
        form, preprocess, name = self.forms[position], self.preprocess[position], sample.name
        values = self._read(position, source) if isinstance(source, Path) else np.asarray(source)
        if values.dtype.hasobject or values.dtype.kind in "USVmM":
            raise DataError(f"{name} holds values of type {values.dtype}, which no input takes.")
        if values.dtype.kind == "c":
            raise DataError(
                f"{name} holds complex numbers, but input {form.name!r} takes {form.dtype}.",
                "Give real numbers as the model was trained on: magnitudes, or real and imaginary parts.",
            )
        # An input of integers would hide it, and an operator may; infinity, as in a mask, is a value like others.
        if values.dtype.kind == "f" and np.isnan(values).any():
            raise DataError(f"{name} has NaN in input {form.name!r}.", SKIP_HINT)
        if sample.is_prepared:
            shaped = _shaped(values, form, name)
            by_scale = form.name in preprocess.by_scale
            return stored_from_real(shaped, form, name) if by_scale else shaped.astype(numpy_type(form))
        if not isinstance(source, Path) and _is_image_of_other_size(values, form, preprocess):
            check_image(self._given, form)
            values = images.pixels_from_array(values, preprocess, name)
        is_raw = isinstance(source, Path) or values.dtype == np.uint8
        stored = self._stored(values, form, preprocess, name, buffer if is_raw else None, is_raw=is_raw)
        if preprocess.layout == "nchw" and stored.ndim == 3 and stored.shape != form.sample_shape:
            stored = np.ascontiguousarray(stored.transpose(2, 0, 1))
        return _shaped(stored, form, name)

    def _read(self, position: int, path: Path) -> Array:
        form, preprocess = self.forms[position], self.preprocess[position]
        suffix = path.suffix.lower()
        if suffix in images.SUFFIXES:
            check_image(self._given, form)
            if preprocess.size is None:
                size = f"--shape {shlex.quote(form.name)}=1x224x224x3"
                raise DataError(
                    f"{path} is an image, but input {form.name!r} of shape {list(form.shape)} does not take one.",
                    f"Give arrays (.npz), or {size} where the model leaves its size open.",
                )
            return images.pixels_from_file(path, preprocess)
        if suffix in audio.SUFFIXES:
            return self._read_audio(position, path)
        raise DataError(f"{path} is neither an image nor a WAV file.", "Give arrays as .npz.")

    def _read_audio(self, position: int, path: Path) -> Array:
        form, preprocess, wanted = self.forms[position], self.preprocess[position], self._rates[position]
        shape = form.sample_shape
        channels = shape[-1] if len(shape) > 1 and shape[-1] in (1, 2) else 1
        values, rate = audio.waveform_from_file(path, channels)
        if wanted and rate != wanted:
            raise DataError(f"{path} has a sample rate of {rate} Hz, but the model takes {wanted} Hz.", "Resample it.")
        return audio.fitted(values, form.elements // channels, preprocess.length, str(path))

    def _stored(
        self, values: Array, form: TensorForm, preprocess: Preprocess, name: str, buffer: Array | None, *, is_raw: bool
    ) -> Array:
        # Arrays of other types are taken for the model's own units, unless the user says otherwise.
        if preprocess.mean is not None and (is_raw or preprocess.values_from == "given"):
            return _normalized(values, form, preprocess, name, buffer)
        if form.name in preprocess.by_scale:
            return stored_from_real(values, form, name)
        if values.dtype == numpy_type(form):
            return values
        is_bytes = values.dtype == np.uint8
        if is_bytes and form.dtype == "int8":
            self._note(GUESSED_INT8)
            return (values.astype(np.int16) - 128).astype(np.int8)
        if is_bytes and form.is_float:
            self._note(GUESSED_FLOAT)
        return stored_from_real(values, form, name)


def _normalized(values: Array, form: TensorForm, preprocess: Preprocess, name: str, buffer: Array | None) -> Array:
    mean, std = np.asarray(preprocess.mean), np.asarray(preprocess.std)
    if mean.size == std.size == 1 and values.dtype == np.uint8:
        return _normalized_bytes(values, form, float(mean.item()), float(std.item()), buffer)
    depth = values.shape[-1] if values.ndim else 1
    if {mean.size, std.size} - {1, depth}:
        wrong = next(count for count in (mean.size, std.size) if count not in (1, depth))
        raise _wrong_count(wrong, f"{name} has {several(depth, 'channel')}", preprocess)
    return stored_from_real((values - mean) / std, form, name)


def _wrong_count(numbers: int, channels: str, preprocess: Preprocess) -> HastenError:
    wrong = f"{numbers} numbers for mean or std, and {channels}"
    if preprocess.values_from == "given":
        return UsageError(f"--preprocess gives {wrong}.", "Give one, or one for each channel.")
    return ModelError(f"The model's metadata has {wrong}.", "Set the right values: --preprocess mean=…,std=….")


def _normalized_bytes(values: Array, form: TensorForm, mean: float, std: float, buffer: Array | None) -> Array:
    """Each of 256 values is worked out once and then looked up, unless plain arithmetic, which is faster, agrees."""
    table, is_plain = _table(form, mean, std)
    return _plainly(values, mean, std, buffer) if is_plain else table.take(values)


@lru_cache(maxsize=16)
def _table(form: TensorForm, mean: float, std: float) -> tuple[Array, bool]:
    octets = np.arange(256, dtype=np.uint8)
    table = stored_from_real((octets - np.float64(mean)) / std, form, form.name)
    return table, form.dtype == "float32" and np.array_equal(_plainly(octets, mean, std), table)


def _plainly(values: Array, mean: float, std: float, buffer: Array | None = None) -> Array:
    fits = buffer is not None and buffer.size == values.size and buffer.dtype == np.float32
    real = buffer.reshape(values.shape) if buffer is not None and fits else np.empty(values.shape, np.float32)
    np.subtract(values, np.float32(mean), out=real, dtype=np.float32)
    real /= np.float32(std)
    return np.asarray(real)


def _is_image_of_other_size(values: Array, form: TensorForm, preprocess: Preprocess) -> bool:
    if values.dtype != np.uint8 or preprocess.size is None or values.ndim not in (2, 3):
        return False
    if values.size == form.elements and preprocess.crop == 1:
        return False
    return values.ndim == 2 or values.shape[-1] in (1, 3, 4)


def _shaped(values: Array, form: TensorForm, name: str) -> Array:
    if values.size == form.elements and _same_apart_from_ones(values.shape, form.shape):
        return np.ascontiguousarray(values).reshape(form.shape)
    hint = f"Give samples of shape {list(form.shape)}; the first dimension is the batch."
    if form.shape and form.shape[0] != 1 and values.size * form.shape[0] == form.elements:
        size = f"--shape {shlex.quote(form.name)}=1x…"
        hint = f"Set a batch of 1, as the model takes {form.shape[0]} samples at once: {size}."
    raise DataError(f"{name} has the shape {list(values.shape)}, which does not fit input {form.name!r}.", hint)


def _same_apart_from_ones(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    return [size for size in a if size != 1] == [size for size in b if size != 1]
