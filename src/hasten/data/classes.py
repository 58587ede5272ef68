"""Names of classes, and the number that a label stands for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from hasten.core.errors import DataError, ModelError
from hasten.model.metadata import read_metadata, read_packed_file

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

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
                raise DataError(f"{place} cannot be read: {error}") from None
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
        if names and self.source != CLASSES_FILE and set(names) <= set(packed):
            # The model itself says in which order its outputs come, background and all.
            names, self.source, self._offset = tuple(packed), "the model's labels", 0
        self._names = names
        self._numbers = {name: number for number, name in reversed(list(enumerate(names)))}

    def check_count(self, outputs: int) -> None:
        """Refuse names that are not as many as the model's outputs, as their order would then be a guess."""
        count = len(self._names)
        if not count or self.source == "the model's labels" or count + self._offset == outputs or outputs == 1:
            return
        beyond = f" and --label-offset {self._offset}" if self._offset else ""
        raise DataError(
            f"the data has {count} classes ({self.source}){beyond}, and the model has {outputs} outputs",
            "List all classes in a classes.txt, in the order of the outputs; --label-offset 1 leaves out a background.",
        )

    def number(self, label: Label, outputs: int, name: str) -> int:
        """The output that stands for a label."""
        if isinstance(label, str):
            if label not in self._numbers:
                raise DataError(f"{name} is labelled {label!r}, which is none of the classes ({self.source or 'none'})")
            label = self._numbers[label]
        values = np.asarray(label)
        if values.size != 1 or values.dtype.kind not in "iub":
            raise DataError(
                f"{name} has no class as its label, but {_short(label)}", "Choose a metric for such labels."
            )
        found = int(values.reshape(-1)[0]) + self._offset
        if not 0 <= found < max(outputs, 2):
            raise DataError(
                f"{name} has the label {found - self._offset}, outside of the model's {outputs} classes",
                "If the model has a background class that the data leaves out, give --label-offset 1.",
            )
        return found


def _short(label: Label) -> str:
    return f"an array of shape {list(label.shape)}" if isinstance(label, np.ndarray) else repr(label)
