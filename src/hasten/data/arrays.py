"""Arrays from a `.npz` file: inputs by their names (or x, or x0, x1, …) and labels y."""

from __future__ import annotations

import shutil
import tempfile
import tokenize
import zipfile
from functools import partial
from typing import IO, TYPE_CHECKING, Any, Final

import numpy as np

from hasten.core.archive_errors import ARCHIVE_ERRORS
from hasten.core.errors import DataError
from hasten.data.classes import CLASSES_FILE, classes_beside
from hasten.data.dataset import Dataset, LazySamples, Sample, keys_in_order

if TYPE_CHECKING:
    from pathlib import Path

    from hasten.data.dataset import Array, Inputs, Label

ARRAY_ERRORS: Final = (*ARCHIVE_ERRORS, SyntaxError, tokenize.TokenError, TypeError)
"""What reading damaged arrays raises: the header of an array is the text of a Python dictionary."""
_LABEL_KEYS: Final = ("y", "label", "labels")
_CLASS_KEYS: Final = ("classes", "class_names", "names")
_HINT: Final = "Save an array x of inputs, one sample per row, and y of labels: numpy.savez(file, x=x, y=y)."


def open_arrays(path: Path) -> Dataset:
    """The samples of a `.npz` file; its arrays are mapped into memory, and read row by row."""
    try:
        with zipfile.ZipFile(path) as archive:
            arrays = {
                name.removesuffix(".npy"): _mapped(archive, name)
                for name in archive.namelist()
                if name.endswith(".npy")
            }
    except ARRAY_ERRORS as error:
        raise DataError(f"{path} cannot be read as arrays: {error}.", _HINT) from None
    label_key = next((key for key in _LABEL_KEYS if key in arrays), None)
    labels = arrays.pop(label_key) if label_key is not None else None
    classes, classes_from = _classes(path, arrays, labels)
    inputs = _inputs(arrays)
    count = _count(path, {**dict(_named(inputs)), **({} if labels is None else {str(label_key): labels})})
    rows = LazySamples(count, partial(_sample, path, inputs, labels))
    return Dataset(str(path), rows, labels is not None, classes, classes_from)


def _sample(path: Path, inputs: tuple[Array, ...] | dict[str, Array], labels: Array | None, position: int) -> Sample:
    row: Inputs
    if isinstance(inputs, dict):
        row = {name: np.asarray(values[position]) for name, values in inputs.items()}
    else:
        row = tuple(np.asarray(values[position]) for values in inputs)
    # With the file, as there may be another one for calibration.
    return Sample(f"sample {position} of {path}", row, None if labels is None else _label(labels, position))


def _label(labels: Array, position: int) -> Label:
    label = labels[position]
    if np.ndim(label):
        return np.asarray(label)
    return str(label) if labels.dtype.kind == "U" else label.item()


def _inputs(arrays: dict[str, Array]) -> tuple[Array, ...] | dict[str, Array]:
    """In the model's order where the keys say nothing else; by name where any may be an input's: the model decides."""
    ordered = keys_in_order(arrays)
    if not ordered:
        return arrays
    if len(ordered) == len(arrays):
        return tuple(arrays[key] for key in ordered)
    rows = arrays[ordered[0]].shape[:1]  # what has others is about the data, such as its mean
    return {key: values for key, values in arrays.items() if key in ordered or values.shape[:1] == rows}


def _named(inputs: tuple[Array, ...] | dict[str, Array]) -> list[tuple[str, Array]]:
    return list(inputs.items()) if isinstance(inputs, dict) else [(f"x{i}", values) for i, values in enumerate(inputs)]


def _count(path: Path, arrays: dict[str, Array]) -> int:
    counts = {name: values.shape[0] if values.ndim else -1 for name, values in arrays.items()}
    if not counts or not set(counts) - set(_LABEL_KEYS):
        raise DataError(f"{path} holds no inputs.", _HINT)
    if len(set(counts.values())) > 1 or -1 in counts.values():
        said = ", ".join(f"{name} {list(arrays[name].shape)}" for name in counts)
        raise DataError(f"The arrays in {path} differ in their number of rows: {said}.", _HINT)
    count = next(iter(counts.values()))
    if count == 0:
        raise DataError(f"{path} holds no samples.", _HINT)
    return count


def _classes(path: Path, arrays: dict[str, Array], labels: Array | None) -> tuple[tuple[str, ...], str]:
    key = next((key for key in _CLASS_KEYS if key in arrays and arrays[key].dtype.kind == "U"), None)
    names = () if key is None else tuple(str(name) for name in arrays.pop(key))
    if labels is not None and names and len(names) != len(labels):  # as many as labels: names of samples
        return names, f"{key} in the file"
    if beside := classes_beside(path.parent / path.stem):
        return beside, CLASSES_FILE
    if labels is not None and labels.dtype.kind == "U":
        return tuple(sorted({str(label) for label in labels})), "names in alphabetical order"
    return (), ""


def _mapped(archive: zipfile.ZipFile, name: str) -> Array:
    """An array of the archive as memory that is read when it is touched: unpacked to a file without a name."""
    size, room = archive.getinfo(name).file_size, shutil.disk_usage(tempfile.gettempdir()).free
    if size > room:  # a small archive can claim any size
        raise DataError(
            f"The array {name} of {archive.filename} takes {size:,} bytes; {room:,} are free for temporary files.",
            "Make room there, or set TMPDIR to another folder.",
        )
    spilled: IO[bytes]
    with archive.open(name) as packed, tempfile.TemporaryFile() as spilled:
        shutil.copyfileobj(packed, spilled)
        spilled.seek(0)
        version = np.lib.format.read_magic(spilled)
        read_header: Any = (
            np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        )
        shape, is_fortran, dtype = read_header(spilled)
        if dtype.hasobject:
            raise ValueError(f"{name} holds Python objects")
        if 0 in shape or not shape or not dtype.itemsize:
            return np.array(np.lib.format.read_array(_rewound(spilled), allow_pickle=False))
        flat = np.memmap(spilled, dtype=dtype, mode="r", offset=spilled.tell())
        return np.asarray(flat.reshape(shape, order="F" if is_fortran else "C"))


def _rewound(file: IO[bytes]) -> IO[bytes]:
    file.seek(0)
    return file
