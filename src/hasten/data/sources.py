"""The sources that --data can name: a folder, a table, arrays or a function; or random inputs without data."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from hasten.core.accuracy_notes import RANDOM_INPUTS
from hasten.core.errors import DataError
from hasten.core.remark import remark
from hasten.data.arrays import open_arrays
from hasten.data.dataset import Dataset, LazySamples, Sample
from hasten.data.folders import open_folder
from hasten.data.functions import is_function_name, open_function
from hasten.data.tables import open_table
from hasten.data.tensor_forms import numpy_type

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hasten.data.dataset import Array
    from hasten.data.tensor_forms import TensorForm

_HINT: Final = "Give a folder, a .npz, a .csv of path and label, or module:function."


def open_dataset(text: str) -> Dataset:
    """The data that the user names. Nothing but names and labels is read yet."""
    path = Path(text)
    if path.is_dir():
        try:
            return open_folder(path)
        except OSError as error:
            raise DataError(f"The folder {path} cannot be read: {error.strerror}.", "Check its permissions.") from None
    if path.is_file():
        suffix = path.suffix.lower()
        if suffix == ".npz":
            return open_arrays(path)
        if suffix in (".csv", ".tsv"):
            return open_table(path)
        raise DataError(f"hasten cannot read {path} as data.", _HINT)
    if is_function_name(text):
        return open_function(text)
    raise DataError(f"There is no data at {text}.", _HINT)


def random_dataset(forms: Sequence[TensorForm], count: int = 32, seed: int = 0) -> Dataset:
    """Inputs made up from a seed, in the model's own units: quantized types over their range, floats 0..1."""

    def sample(position: int) -> Sample:
        return Sample(f"random sample {position}", _random_inputs(forms, seed, position), is_prepared=True)

    samples = LazySamples(count, sample)
    return Dataset(f"random inputs (seed {seed})", samples, False, is_random=True, notes=(remark(RANDOM_INPUTS),))


def _random_inputs(forms: Sequence[TensorForm], seed: int, position: int) -> tuple[Array, ...]:
    source = np.random.default_rng((seed, position))
    return tuple(_random_values(form, source) for form in forms)


def _random_values(form: TensorForm, source: np.random.Generator) -> Array:
    dtype = numpy_type(form)
    if dtype.kind == "f":
        return source.random(form.shape).astype(dtype)
    if dtype.itemsize > 2 or dtype.kind == "b":  # wide integers are most often indices, which must stay small
        return source.integers(0, 2, form.shape).astype(dtype)
    limits = np.iinfo(dtype)
    return source.integers(limits.min, limits.max, form.shape, dtype, endpoint=True)
