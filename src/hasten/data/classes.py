"""Names of classes, and the number that a label stands for."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from hasten.core.errors import DataError, ModelError
from hasten.model.metadata import read_metadata, read_packed_file

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hasten.data.dataset import Dataset, Label
    from hasten.model.graph import Graph

CLASSES_FILE: Final = "classes.txt"
_LABEL_KINDS: Final = ("axis labels", "value labels")


def classes_beside(folder: Path) -> tuple[str, ...]:
    """The names in a classes.txt in this folder or beside it, a line each; none without one."""
    for place in (folder / CLASSES_FILE, folder.parent / CLASSES_FILE):
        if place.is_file():
            try:
                lines = place.read_text(encoding="utf-8").splitlines()
            except (OSError, UnicodeDecodeError) as error:
                raise DataError(f"{place} cannot be read: {error}.") from None
            return tuple(line.strip() for line in lines if line.strip())
    return ()


def packed_labels(graph: Graph) -> tuple[str, ...]:
    """The labels packed behind a model, in the order of its outputs; none if it carries none."""
    try:
        metadata = read_metadata(graph)
        files = [] if metadata is None else [file for output in metadata.outputs for file in output.files]
        name = next((file.name for file in files if file.kind in _LABEL_KINDS), None)
        if name is None:
            return ()
        return tuple(line.strip() for line in read_packed_file(graph, name).decode("utf-8", "replace").splitlines())
    except ModelError:
        return ()  # labels are a help; the model runs without them


class LabelReader:
    """Turns labels into the numbers of a model's outputs."""

    def __init__(self, dataset: Dataset, packed: Sequence[str] = (), offset: int = 0) -> None:
        names, self.source, self._offset = dataset.classes, dataset.classes_from, offset
        # The model itself says in which order its outputs come, background and all.
        self._by_model = bool(names) and self.source != CLASSES_FILE and set(names) <= set(packed)
        if self._by_model:
            names, self.source, self._offset = tuple(packed), "the model's labels", 0
        self._names = names
        self._numbers = {name: number for number, name in reversed(list(enumerate(names)))}

    def check_count(self, outputs: int) -> None:
        """Refuse names that are not as many as the model's outputs, as their order would then be a guess."""
        count = len(self._names)
        if not count or self._by_model or count + self._offset == outputs or outputs == 1:
            return
        classes = "1 class" if count == 1 else f"{count} classes"
        beyond = f" and --label-offset {self._offset}" if self._offset else ""
        raise DataError(
            f"The data has {classes} ({self.source}){beyond}, but the model has {outputs} outputs.",
            "List all classes in a classes.txt, in the order of the outputs; --label-offset 1 leaves out a background.",
        )

    def number(self, label: Label, outputs: int, name: str) -> int:
        """The output that stands for a label."""
        if isinstance(label, str):
            if label not in self._numbers:
                raise DataError(
                    f"{name} has the label {label!r}, which is not one of the classes ({self.source or 'none'})."
                )
            label = self._numbers[label]
        if is_one_hot(label):
            label = int(np.argmax(np.asarray(label)))
        if not is_class_number(label):
            raise DataError(
                f"{name} has the label {_short(label)}, which is not a class.",
                "Choose a metric for such labels: --metric.",
            )
        number = int(np.asarray(label).reshape(-1)[0])
        classes = max(outputs, 2)
        if not 0 <= number + self._offset < classes:
            raise self._outside(number, classes, name)
        return number + self._offset

    def _outside(self, number: int, classes: int, name: str) -> DataError:
        moved = f", which --label-offset {self._offset} makes {number + self._offset}" if self._offset else ""
        hint = "Mend the label, or leave such samples out with --skip-bad."
        if self._offset and 0 <= number < classes:
            hint = "Without --label-offset it would be inside."
        elif number == classes and not self._offset:
            hint = "If the data counts classes from 1, and the model from 0, give --label-offset -1."
        return DataError(f"{name} has the label {number}{moved}, outside the model's {classes} classes.", hint)


def is_class_number(label: Label) -> bool:
    """Whether a label is one whole number, of whatever type: 6.0 is class 6."""
    if isinstance(label, (str, Path)):
        return False
    values = np.asarray(label)
    if values.size != 1 or values.dtype.kind not in "iubf":
        return False
    return values.dtype.kind != "f" or float(values.item()).is_integer()


def is_one_hot(label: Label) -> bool:
    """Whether a label is a class as a row of zeros with a single 1."""
    if isinstance(label, (str, Path)):
        return False
    values = np.asarray(label)
    if values.size < 2 or values.size not in values.shape or values.dtype.kind not in "iubf":
        return False
    return bool(np.count_nonzero(values) == 1 and values.max() == 1)


def _short(label: Label) -> str:
    return f"an array of shape {list(label.shape)}" if isinstance(label, np.ndarray) else repr(label)
