"""Samples prepared once for all models that take the same inputs: to read an image costs as much as to run it.

They lie in memory that runners on this machine can read, so that no evaluation but the first copies them there.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np

from hasten.runner.shared_memory import create_common_memory

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hasten.core.remark import Remark
    from hasten.data.dataset import Array, Dataset
    from hasten.data.preprocess import Preprocess
    from hasten.data.tensor_forms import TensorForm
    from hasten.runner.shared_memory import CommonMemory

    _Key = tuple[int, tuple[TensorForm, ...], tuple[Preprocess, ...]]

_MOST_BYTES: Final = 2**30


@dataclass(slots=True, eq=False)
class Shelf:
    """The samples of one set of data, prepared in one way."""

    store: PreparedSamples
    notes: dict[str, Remark] = field(default_factory=dict)
    """What had to be guessed when they were prepared, by code."""
    _found: dict[int, tuple[Array, ...]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self._found)

    def get(self, position: int) -> tuple[Array, ...] | None:
        """The inputs of a sample, not to be changed; None where they are not there."""
        return self._found.get(position)

    def put(self, position: int, arrays: tuple[Array, ...]) -> tuple[Array, ...]:
        """Keep a copy of a sample's inputs, if there is room; the copy, or the inputs themselves."""
        kept = self.store.copied(arrays)
        if kept is None:
            return arrays
        self._found[position] = kept
        return kept


class PreparedSamples:
    """Shelves by data, form of the inputs and preparation. Safe to use from several threads."""

    def __init__(self, most_bytes: int = _MOST_BYTES) -> None:
        self._left, self._most = most_bytes, most_bytes
        self._memory: CommonMemory | None = None
        self._lock = threading.Lock()
        self._shelves: dict[_Key, tuple[object, Shelf]] = {}

    def shelf(self, dataset: Dataset, forms: Sequence[TensorForm], preprocess: Sequence[Preprocess]) -> Shelf | None:
        """The shelf for these; None for a stream, which may not be meant to be read twice."""
        if callable(dataset.samples):
            return None
        with self._lock:
            key = (id(dataset.samples), tuple(forms), tuple(preprocess))
            # The samples are held, so that nothing else can get their identity.
            _, shelf = self._shelves.setdefault(key, (dataset.samples, Shelf(self)))
            return shelf

    def open(self) -> None:
        """Have the memory ready before runners start that are to see it."""
        with self._lock:
            if self._memory is None:
                self._memory = create_common_memory(self._most)

    def has(self, dataset: Dataset, forms: Sequence[TensorForm]) -> bool:
        """Whether samples of this data are there in this form, so that none need to be prepared ahead."""
        with self._lock:
            keys = [key for key, (_, shelf) in self._shelves.items() if len(shelf)]
        return any(key[:2] == (id(dataset.samples), tuple(forms)) for key in keys)

    def copied(self, arrays: Sequence[Array]) -> tuple[Array, ...] | None:
        """A copy of these in memory that runners see, where there is such memory; None where there is no room."""
        wanted = sum(array.nbytes for array in arrays)
        with self._lock:
            if wanted > self._left:
                return None
            self._left -= wanted
        return tuple(self._copy(array) for array in arrays)

    def _copy(self, array: Array) -> Array:
        place = self._memory.take(array.nbytes) if self._memory is not None else None
        kept = np.empty_like(array) if place is None else np.frombuffer(place, array.dtype).reshape(array.shape)
        kept[...] = array
        return kept
