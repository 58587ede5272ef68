"""Prepare the first samples while the runners start and cores are idle."""

from __future__ import annotations

import contextlib
import threading
from itertools import islice
from typing import TYPE_CHECKING, Final

from hasten.core.errors import HastenError
from hasten.data.prepare import Preparer

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hasten.core.remark import Remark
    from hasten.data.dataset import Array, Dataset, Sample
    from hasten.data.preprocess import Preprocess
    from hasten.data.tensor_forms import TensorForm
    from hasten.model.metadata import ModelMetadata

_MOST_SAMPLES: Final = 256
_MOST_BYTES: Final = 128 * 2**20


class Prefetch:
    """Prepares samples in threads from the moment it is made until `end`, in the order in which they will be needed.

    A sample that cannot be prepared is left to the evaluation, which reports the error.
    """

    def __init__(
        self,
        dataset: Dataset,
        forms: Sequence[TensorForm],
        preprocess: Preprocess,
        metadata: ModelMetadata | None,
        *,
        samples: int | None,
        seed: int,
        threads: int,
    ) -> None:
        self.forms = tuple(forms)
        self._found: dict[int, tuple[Array, ...]] = {}
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._preparer: Preparer | None = None
        # A stream may be slow, or may not be meant to be read twice.
        if callable(dataset.samples):
            return
        try:
            preparer = Preparer(forms, preprocess, metadata)
            each = sum(array.nbytes for array in preparer.create_buffers())
        except HastenError:
            return
        most = min(_MOST_SAMPLES, _MOST_BYTES // max(1, each))
        waiting = islice(dataset.drawn(samples, seed), most)
        self._preparer = preparer
        self._threads = [
            threading.Thread(target=self._prepare, args=(preparer, waiting), name="ahead") for _ in range(threads)
        ]
        for thread in self._threads:
            thread.start()

    @property
    def notes(self) -> tuple[Remark, ...]:
        """What had to be guessed."""
        return () if self._preparer is None else self._preparer.notes

    def end(self) -> None:
        """Prepare no more. Safe to call more than once."""
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def take(self, position: int) -> tuple[Array, ...] | None:
        """The inputs of a sample, if they are ready; they are the taker's from then on."""
        return self._found.pop(position, None)

    def _prepare(self, preparer: Preparer, waiting: Iterator[tuple[int, Sample]]) -> None:
        while not self._stop.is_set():
            with self._lock:  # an iterator is not for several threads at once
                position, sample = next(waiting, (-1, None))
            if sample is None:
                return
            with contextlib.suppress(Exception):  # the evaluation meets the same error, and reports it
                self._found[position] = preparer.prepare(sample)
