"""Which samples are learned from and which are kept for the test: seeded, even over the classes, and by content.

A file is known by the hash of its bytes. Copies of one file are always on the same side, whatever their names; and when
others are added, few of those that were tested with are learned from.
"""

from __future__ import annotations

import csv
import hashlib
import io
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from hasten.core.errors import DataError
from hasten.core.units import several
from hasten.engine.model_file import file_hash
from hasten.retraining.softmax import FOLDS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from hasten.data.dataset import Sample, Source
    from hasten.retraining.labels import LabeledSamples

_FEWEST_OF_A_CLASS: Final = 2
_LETTERS: Final = 16
TRAIN, TEST = "train", "test"


class Split(NamedTuple):
    """The samples of each part, as rows of the labeled samples."""

    train: tuple[int, ...]
    test: tuple[int, ...]


def content_hashes(
    samples: Sequence[Sample], progress: Callable[[float], None] = lambda share: None
) -> tuple[str, ...]:
    """What tells samples apart, whatever they are called."""
    found = []
    for place, sample in enumerate(samples):
        found.append(_content_hash(sample))
        progress((place + 1) / len(samples))
    return tuple(found)


def split_samples(labeled: LabeledSamples, share: float, seed: int) -> Split:
    """Keep a share of each class for the test, at least one sample; all others are learned from."""
    hashes = labeled.hashes
    order = {code: hashlib.sha256(f"{seed}:{code}".encode()).hexdigest() for code in set(hashes)}
    numbers, kept = labeled.numbers, set[str]()
    for number, name in enumerate(labeled.classes):
        rows = np.flatnonzero(numbers == number).tolist()
        own = sorted({hashes[row] for row in rows}, key=lambda code: order[code])
        if len(own) < _FEWEST_OF_A_CLASS:
            if labeled.multi_label:
                continue
            raise DataError(
                f"The class {name!r} has only {several(len(own), 'different sample')}.",
                "Give at least 2 samples of each class: one to learn from, one to test with.",
            )
        kept.update(own[: min(len(own) - 1, max(1, round(share * len(own))))])
    train = tuple(row for row, code in enumerate(hashes) if code not in kept)
    test = tuple(row for row, code in enumerate(hashes) if code in kept)
    if name := _class_without(labeled, train):  # all of its samples are copies of those of other classes
        raise DataError(f"The class {name!r} has no sample of its own.", "Remove copies that have two labels.")
    return Split(train, test)


def rows_apart(labeled: LabeledSamples, tested: Sequence[str]) -> tuple[int, ...]:
    """The rows to learn from where the test data is given: none whose content is tested with."""
    kept = {*tested}
    train = tuple(row for row, code in enumerate(labeled.hashes) if code not in kept)
    if name := _class_without(labeled, train) or ("" if train else labeled.classes[0]):
        raise DataError(
            f"The test data has all samples of the class {name!r}, and none is left to learn from.",
            "Keep test data and data to learn from apart, or leave out --test.",
        )
    return train


def _class_without(labeled: LabeledSamples, train: Sequence[int]) -> str:
    """The first class of which nothing is learned; empty where there is none, or samples have several classes."""
    missing = {*labeled.numbers.tolist()} - {int(labeled.numbers[row]) for row in train}
    return labeled.classes[min(missing)] if missing and not labeled.multi_label else ""


def folds_of(numbers: NDArray[np.int64], hashes: Sequence[str], seed: int, count: int = FOLDS) -> NDArray[np.int64]:
    """With which part each sample is left out of the fit: even over the classes, copies together."""
    groups: dict[str, int] = {}
    place = 0
    random = np.random.default_rng(seed)
    for number in np.unique(numbers).tolist():
        own = list(dict.fromkeys(hashes[row] for row in np.flatnonzero(numbers == number).tolist()))
        for index in random.permutation(len(own)).tolist():
            if own[index] not in groups:
                groups[own[index]] = place % count
                place += 1
    return np.array([groups[code] for code in hashes], np.int64)


@dataclass(frozen=True, slots=True)
class HeldOut:
    """The test part as data that any command takes: the end of the file's name, and its content."""

    suffix: str
    content: bytes


def held_out(labeled: LabeledSamples, rows: Sequence[int], folder: Path) -> HeldOut | None:
    """Files as a .csv of path and label, relative to `folder` where they lie below it; arrays as a .npz. None for
    samples that are neither."""
    chosen = labeled.with_rows(rows)
    files = [path for sample in chosen.samples if (path := _file_of(sample)) is not None]
    if len(files) == len(rows):
        return None if labeled.multi_label else HeldOut(".csv", _table(chosen, files, folder))
    arrays = [_arrays_of(sample) for sample in chosen.samples]
    if any(not entry or entry.keys() != arrays[0].keys() for entry in arrays):
        return None
    stacked = {name: [entry[name] for entry in arrays] for name in arrays[0]}
    if any(len({(value.shape, value.dtype) for value in values}) > 1 for values in stacked.values()):
        return None
    content = io.BytesIO()
    labels = chosen.targets.astype(np.int64) if labeled.multi_label else chosen.numbers
    inputs: dict[str, Any] = {name: np.stack(values) for name, values in stacked.items()}
    np.savez(content, **inputs, y=labels, classes=np.array(labeled.classes))
    return HeldOut(".npz", content.getvalue())


def _table(chosen: LabeledSamples, files: Sequence[Path], folder: Path) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("file", "label"))
    # Names that are numbers would be read as the places of outputs: then those are written.
    names = range(len(chosen.classes)) if all(map(_is_number, chosen.classes)) else chosen.classes
    for path, number in zip(files, chosen.numbers.tolist(), strict=True):
        place = path.resolve()
        shown = place.relative_to(folder.resolve()) if place.is_relative_to(folder.resolve()) else place
        writer.writerow((str(shown), names[number]))
    return text.getvalue().encode()


def _is_number(name: str) -> bool:
    try:
        float(name)
    except ValueError:
        return False
    return True


def _arrays_of(sample: Sample) -> dict[str, NDArray[np.generic]]:
    """The inputs as arrays under the names that a .npz has for them; none where one is a file, or made ready."""
    if sample.is_prepared:
        return {}
    inputs = sample.inputs
    if isinstance(inputs, tuple):
        inputs = {"x": inputs[0]} if len(inputs) == 1 else {f"x{at}": part for at, part in enumerate(inputs)}
    if any(isinstance(part, Path) for part in inputs.values()):
        return {}
    return {name: np.asarray(part) for name, part in inputs.items()}


def _file_of(sample: Sample) -> Path | None:
    inputs = sample.inputs
    return inputs[0] if isinstance(inputs, tuple) and len(inputs) == 1 and isinstance(inputs[0], Path) else None


def _content_hash(sample: Sample) -> str:
    parts = sample.inputs if isinstance(sample.inputs, tuple) else tuple(sample.inputs.values())
    digest = hashlib.sha256()
    for part in parts:
        digest.update(_part_hash(part).encode())
    return digest.hexdigest()[:_LETTERS]


def _part_hash(part: Source) -> str:
    if not isinstance(part, Path):
        values = np.ascontiguousarray(part)
        return hashlib.sha256(f"{values.dtype}{values.shape}".encode() + values.tobytes()).hexdigest()
    try:
        return file_hash(part)
    except OSError:  # who reads it next names the file, or skips it
        return hashlib.sha256(str(part).encode(errors="surrogateescape")).hexdigest()
