"""The classes of labeled data, as a head learns them: a name for each, and a row of 0 and 1 for each sample."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from hasten.core.errors import DataError
from hasten.core.units import first_few, several
from hasten.data.classes import LabelReader, is_class_number, is_one_hot
from hasten.data.sources import open_dataset
from hasten.retraining.softmax import one_hot

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from hasten.data.dataset import Dataset, Label, Sample

_FEWEST_CLASSES: Final = 2
_MOST_NAMED: Final = 3
_TRAINING_FOLDERS: Final = ("train", "training")
_CHECKING_FOLDERS: Final = ("val", "validation", "valid", "dev")
_TEST_FOLDERS: Final = ("test", "testing")
_LABELS_HINT: Final = "Give a folder with a subfolder for each class, a .csv of path and label, or a .npz with x and y."


@dataclass(frozen=True, slots=True, eq=False)
class LabeledSamples:
    """Samples that can be taken in any order, with the classes of each."""

    dataset: Dataset
    classes: tuple[str, ...]
    targets: NDArray[np.float32]
    """A row for each sample, a column for each class."""
    multi_label: bool
    hashes: tuple[str, ...] = ()
    """What tells the contents of samples apart, once it is known."""

    @property
    def samples(self) -> Sequence[Sample]:
        """All of them."""
        found = self.dataset.samples
        assert not callable(found), "a function's samples are listed first"
        return found

    @property
    def numbers(self) -> NDArray[np.int64]:
        """The class of each sample; the first where it has several."""
        return np.asarray(self.targets.argmax(axis=1), np.int64)

    def with_rows(self, rows: Sequence[int]) -> LabeledSamples:
        """Some of the samples, in this order."""
        samples, hashes = self.samples, self.hashes
        chosen = replace(self.dataset, samples=[samples[row] for row in rows])
        own = tuple(hashes[row] for row in rows) if hashes else ()
        return LabeledSamples(chosen, self.classes, self.targets[list(rows)], self.multi_label, own)


def open_parts(source: str) -> tuple[Dataset, Dataset | None]:
    """The data to learn from, and the data to test with where the folder keeps both apart (train and test, or val).

    Where there are all three, what is for validation is learned from as well: cross-validation needs no part of its
    own.
    """
    folder = Path(source)
    names = {entry.name.lower(): entry for entry in folder.iterdir() if entry.is_dir()} if folder.is_dir() else {}
    training, checking, test = (
        next((names[name] for name in known if name in names), None)
        for known in (_TRAINING_FOLDERS, _CHECKING_FOLDERS, _TEST_FOLDERS)
    )
    others = set(names) - {*_TRAINING_FOLDERS, *_CHECKING_FOLDERS, *_TEST_FOLDERS}
    if training is None or (checking is None and test is None) or any(not name.startswith(".") for name in others):
        return open_dataset(source), None
    if test is None:
        test, checking = checking, None
    learned = open_dataset(str(training))
    if checking is not None:
        learned = _joined(learned, open_dataset(str(checking)))
    return learned, open_dataset(str(test))


def labeled(dataset: Dataset, limit: int | None = None, offset: int = 0, *, seed: int = 0) -> LabeledSamples:
    """The samples with their classes; at most so many, drawn at random. Bad labels raise a DataError."""
    dataset = _listed(dataset, limit, seed)
    if not dataset.labelled:
        raise DataError(f"{dataset.source} has no labels.", _LABELS_HINT)
    rows = _rows(dataset)
    if not rows:
        raise DataError(f"{dataset.source} holds no samples.", _LABELS_HINT)
    if unlabeled := next((sample for sample in rows if sample.label is None), None):
        raise DataError(f"{unlabeled.name} has no label, but other samples have one.", "Label it, or remove it.")
    if _has_several(rows):
        return _multi_label(dataset, rows)
    offset = 0 if dataset.classes else offset  # names need none
    count = _class_count(dataset, rows, offset)
    reader = LabelReader(dataset, (), offset)
    numbers = np.array([reader.number(sample.label, count, sample.name) for sample in rows], np.int64)
    classes = tuple(dataset.classes) or tuple(str(number) for number in range(count))
    _check_classes(dataset, classes, np.bincount(numbers, minlength=count))
    return LabeledSamples(dataset, classes, one_hot(numbers, count), multi_label=False)


def same_classes(learned: LabeledSamples, test: Dataset, offset: int) -> LabeledSamples:
    """The samples of a test set, with the classes of the samples that a head is learned from."""
    if not learned.multi_label and test.classes and (unknown := sorted(set(test.classes) - set(learned.classes))):
        raise DataError(
            f"{test.source} has classes that {learned.dataset.source} lacks: {first_few(unknown, _MOST_NAMED)}.",
            "Name the classes alike in both.",
        )
    test = replace(test, classes=learned.dataset.classes, classes_from=learned.dataset.classes_from)
    listed = _listed(test, None, 0)
    rows, count = _rows(listed), len(learned.classes)
    if unlabeled := next((sample for sample in rows if sample.label is None), None):
        raise DataError(f"{unlabeled.name} has no label.", "Label it, or remove it.")
    if learned.multi_label:
        return LabeledSamples(listed, learned.classes, _flags(rows, count), multi_label=True)
    reader = LabelReader(listed, (), 0 if listed.classes else offset)
    numbers = np.array([reader.number(sample.label, count, sample.name) for sample in rows], np.int64)
    return LabeledSamples(listed, learned.classes, one_hot(numbers, count), multi_label=False)


def _rows(listed: Dataset) -> list[Sample]:
    assert not callable(listed.samples), "it was listed"
    return list(listed.samples)


def _listed(dataset: Dataset, limit: int | None, seed: int) -> Dataset:
    """The dataset with samples that can be taken in any order: a function's are made now, all of them."""
    if callable(dataset.samples):
        return replace(dataset, samples=list(islice(dataset.samples(), limit)))
    if limit is None or limit >= len(dataset.samples):
        return dataset
    order = np.sort(np.random.default_rng(seed).permutation(len(dataset.samples))[:limit])
    samples = dataset.samples
    return replace(dataset, samples=[samples[row] for row in order.tolist()])


def _joined(first: Dataset, second: Dataset) -> Dataset:
    if set(second.classes) - set(first.classes) or callable(first.samples) or callable(second.samples):
        raise DataError(
            f"{second.source} has classes that {first.source} lacks.", "Name the folders of the classes alike in both."
        )
    return replace(first, samples=[*first.samples, *second.samples])


def _has_several(rows: Sequence[Sample]) -> bool:
    """Whether a sample may have several classes, or none: its label is a row of 0 and 1, and not a class."""
    return any(_is_row(sample.label) and not is_one_hot(sample.label) for sample in rows)


def _is_row(label: Label) -> bool:
    if label is None or isinstance(label, str | Path):
        return False
    values = np.asarray(label)
    return bool(values.size > 1 and values.size in values.shape and set(np.unique(values)) <= {0, 1})


def _multi_label(dataset: Dataset, rows: Sequence[Sample]) -> LabeledSamples:
    width = np.asarray(rows[0].label).size
    targets = _flags(rows, width)
    classes = tuple(dataset.classes) or tuple(str(number) for number in range(width))
    if len(classes) != width:
        raise DataError(
            f"The data names {several(len(classes), 'class')}, but its labels have {width} columns.",
            "Name one class for each column in a classes.txt.",
        )
    present = targets.sum(axis=0)
    for name, count in zip(classes, present.tolist(), strict=True):
        if count in (0, len(rows)):
            have = "No sample has" if count == 0 else "Every sample has"
            raise DataError(f"{have} the class {name!r}.", "A head needs samples with and without each class.")
    return LabeledSamples(dataset, classes, targets, multi_label=True)


def _flags(rows: Sequence[Sample], width: int) -> NDArray[np.float32]:
    found = np.zeros((len(rows), width), np.float32)
    for place, sample in enumerate(rows):
        if not _is_row(sample.label) or np.asarray(sample.label).size != width:
            raise DataError(
                f"{sample.name} has a label that is not a row of {width} zeros and ones.", "Mend the label."
            )
        found[place] = np.asarray(sample.label, np.float32).reshape(-1)
    return found


def _class_count(dataset: Dataset, rows: Sequence[Sample], offset: int) -> int:
    """How many classes there are: those with names, or one more than the largest number."""
    if dataset.classes:
        return len(dataset.classes)
    first = rows[0].label
    if is_one_hot(first):
        return int(np.asarray(first).size)
    numbers = [int(np.asarray(sample.label).reshape(-1)[0]) for sample in rows if is_class_number(sample.label)]
    if len(numbers) < len(rows):
        bad = next(sample for sample in rows if not is_class_number(sample.label))
        raise DataError(f"{bad.name} has a label that is not a class.", _LABELS_HINT)
    return max(numbers) + offset + 1


def _check_classes(dataset: Dataset, classes: Sequence[str], counts: NDArray[np.int64]) -> None:
    if len(classes) < _FEWEST_CLASSES:
        raise DataError(f"{dataset.source} has only one class.", "A head needs samples of two classes at least.")
    for name, count in zip(classes, counts.tolist(), strict=True):
        if count == 0:
            hint = "Add samples of it, or remove it from the list of classes."
            if not dataset.classes:
                hint = (
                    "If classes count from 1, give --label-offset -1; if numbers are names, list them in classes.txt."
                )
            raise DataError(f"No sample of {dataset.source} has the class {name!r}.", hint)
