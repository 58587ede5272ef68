"""The records of labeled data: a sample refers to its inputs, which are read only when they are needed."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from hasten.core.remark import Remark

Array = NDArray[Any]
Source = Path | Array
"""A file to be read when it is needed, or values."""
Inputs = tuple[Source, ...] | Mapping[str, Source]
"""One for each input of the model, in its order or by name."""
Label = int | float | str | Path | Array | None
"""A class by number or by name, a mask (file or values), or numbers to be predicted; None without a label."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One thing to predict; its name is what an error calls it."""

    name: str
    inputs: Inputs
    label: Label = None
    is_prepared: bool = False
    """Whether the inputs are in the model's own units already, so that no preprocessing is due."""


@dataclass(frozen=True, slots=True)
class Dataset:
    """Samples that can be taken in any order; or only in their own, where a function makes them one by one."""

    source: str
    samples: Sequence[Sample] | Callable[[], Iterable[Sample]]
    labelled: bool
    classes: tuple[str, ...] = ()
    """Names of classes in the order of their numbers."""
    classes_from: str = ""
    """Where the order of the classes comes from."""
    is_random: bool = False
    notes: tuple[Remark, ...] = field(default=())

    @property
    def count(self) -> int | None:
        """How many samples there are; None where only the end of the stream will tell."""
        return None if callable(self.samples) else len(self.samples)

    def drawn(self, limit: int | None = None, seed: int = 0) -> Iterator[tuple[int, Sample]]:
        """Samples with their positions, in random order, so that an early stop has seen a fair part of them.

        A stream comes in its own order.
        """
        if callable(self.samples):
            yield from islice(enumerate(self.samples()), limit)
            return
        for position in np.random.default_rng(seed).permutation(len(self.samples))[:limit].tolist():
            yield position, self.samples[position]


def keys_in_order(keys: Collection[str]) -> list[str]:
    """Those that stand for inputs in the model's order, whatever it calls them: x alone, or x0, x1, … without a gap."""
    if "x" in keys:
        return ["x"]
    numbered = [key for key in keys if re.fullmatch(r"x\d+", key)]
    wanted = [f"x{number}" for number in range(len(numbered))]
    return wanted if set(wanted) == set(numbered) else []


class LazySamples(Sequence[Sample]):
    """Samples that are made when they are asked for."""

    def __init__(self, count: int, make: Callable[[int], Sample]) -> None:
        self._count, self._make = count, make

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> Sample: ...
    @overload
    def __getitem__(self, index: slice) -> list[Sample]: ...
    def __getitem__(self, index: int | slice) -> Sample | list[Sample]:
        if isinstance(index, slice):
            return [self._make(position) for position in range(*index.indices(self._count))]
        if not -self._count <= index < self._count:
            raise IndexError(index)
        return self._make(index % self._count)
