"""Whether a function gives the same samples at each call: results are paired by position, and would be about nothing.

A few samples of each call are held against those of earlier ones, by a few of their values, so that it costs next to
nothing. Numbers may differ by their rounding: some libraries add up in another order each time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from hasten.core.errors import DataError
from hasten.core.units import several

if TYPE_CHECKING:
    from hasten.data.dataset import Array, Label, Sample, Source

_FIRST: Final = 32
_EVERY: Final = 64
_MOST_VALUES: Final = 512
_NUMBERS: Final = "biuf"
_OF_THE_VALUE: Final = 1e-5
_OF_THE_LARGEST: Final = 1e-6
_HINT: Final = (
    "Let each call begin anew and give the same samples in the same order: without shuffle, or with a seed that is set "
    "in the function; without random augmentation."
)


class SamePasses:
    """The samples of a function, call after call; a DataError as soon as they are seen to be others than before."""

    def __init__(self, source: str, samples: Callable[[], Iterable[Sample]]) -> None:
        self._source, self._samples = source, samples
        self._outlines: dict[int, list[str | Array]] = {}
        self._count: int | None = None

    def __call__(self) -> Iterator[Sample]:
        """All samples once."""
        count = 0
        for sample in self._samples():
            if count < _FIRST or count % _EVERY == 0:
                self._check_sample(count, sample)
            yield sample
            count += 1
        self._check_count(count)

    def _check_sample(self, position: int, sample: Sample) -> None:
        outline = _outline(sample)
        before = self._outlines.setdefault(position, outline)
        if len(before) != len(outline) or not all(map(_is_same, before, outline)):
            raise self._error(f"sample {position} is not the one that it was before")

    def _check_count(self, count: int) -> None:
        if self._count is None:
            self._count = count
        if count != self._count:
            raise self._error(f"{several(self._count, 'sample')} before, and {count} now")

    def _error(self, what: str) -> DataError:
        message = f"{self._source} gives other samples at each call ({what}), and results are compared sample by sample"
        return DataError(message, _HINT)


def _outline(sample: Sample) -> list[str | Array]:
    inputs = sample.inputs if isinstance(sample.inputs, Mapping) else dict(enumerate(sample.inputs))
    return [*map(str, inputs), *map(_part, inputs.values()), _part(sample.label)]


def _part(value: Source | Label) -> str | Array:
    """The name of a file or a class, or some of the values, spread evenly: a copy, as the function may use its memory
    again."""
    if value is None or isinstance(value, (str, Path)):
        return str(value)
    values = np.asarray(value)
    if values.dtype.hasobject:  # whoever prepares it complains of it
        return str(values.shape)
    return np.array(values.flat[:: max(1, -(-values.size // _MOST_VALUES))])


def _is_same(before: str | Array, now: str | Array) -> bool:
    if isinstance(before, str) or isinstance(now, str):
        return isinstance(before, str) and isinstance(now, str) and before == now
    kinds = before.dtype.kind + now.dtype.kind
    if before.shape != now.shape or kinds.strip(_NUMBERS):
        return before.dtype == now.dtype and np.array_equal(before, now)
    if "f" not in kinds:
        return np.array_equal(before, now)
    largest = np.abs(before.astype(np.float64)).max(initial=0, where=np.isfinite(before))
    return np.allclose(now, before, rtol=_OF_THE_VALUE, atol=_OF_THE_LARGEST * float(largest), equal_nan=True)
