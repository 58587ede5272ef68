"""The data of a search: one part to choose by and one to report on, and samples for calibration."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hasten.core.errors import DataError, UsageError
from hasten.core.units import several
from hasten.data.dataset import Dataset, LazySamples
from hasten.data.prepare import SKIP_HINT, Preparer
from hasten.data.tensor_forms import forms_from_graph
from hasten.evaluate.evaluation import Skipped
from hasten.model.metadata import read_metadata

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from hasten.core.plan import Workload
    from hasten.data.dataset import Array, Sample
    from hasten.data.preprocess import Preprocess
    from hasten.model.graph import Graph

SEED: Final = 0
CALIBRATION_SAMPLES: Final = 100
FEWEST_SAMPLES: Final = 10
"""With fewer samples nothing is chosen."""
FEW_SAMPLES: Final = 30
"""With fewer, what is chosen comes with a doubt."""
_FEWEST_TO_SPLIT: Final = 2
_TWO_NEEDED: Final = "a choice needs at least 2, one to choose by and one to report on"


def parts(dataset: Dataset, samples: int | None) -> tuple[Dataset, Dataset]:
    """A part to choose by and one to report on, which share no sample, always the same ones; of at most `samples`
    samples, drawn at random.

    A third is for choosing, which takes an estimate; a verdict on the choice takes more. Of few samples it is a half.
    A stream that can be taken in its own order only is split by turns.
    """
    if callable(dataset.samples):
        stream = dataset.samples
        _check_count(dataset, sum(1 for _ in islice(stream(), _FEWEST_TO_SPLIT)), samples)
        choosing, reporting = (replace(dataset, samples=_by_turns(stream, one, samples)) for one in (True, False))
        return choosing, reporting
    order = np.random.default_rng(SEED).permutation(len(dataset.samples))[:samples].tolist()
    _check_count(dataset, len(dataset.samples), samples)
    middle = max(-(-len(order) // 3), min(-(-len(order) // 2), FEW_SAMPLES))
    return _part(dataset, sorted(order[:middle])), _part(dataset, sorted(order[middle:]))


def _check_count(dataset: Dataset, count: int, limit: int | None) -> None:
    if limit is not None and limit < _FEWEST_TO_SPLIT:
        raise UsageError(f"--samples {limit} is too few: {_TWO_NEEDED}.", "Give --samples 100 or more.")
    if count < _FEWEST_TO_SPLIT:
        raise DataError(f"{dataset.source} has only {several(count, 'sample')}: {_TWO_NEEDED}.", "Give more data.")


def calibration_samples(
    graph: Graph, workload: Workload, dataset: Dataset, preprocess: Preprocess, *, limit: int, skip_bad: bool
) -> tuple[list[dict[str, Any]], tuple[Skipped, ...]]:
    """Samples as the quantizer takes them: arrays by the names of the inputs; and those that were left out."""
    forms = forms_from_graph(graph, workload).inputs
    names = [form.name for form in forms]
    if graph.signature(workload.signature or None) is None:  # as the signature that such a file is given names them
        names = [name if name and names.count(name) == 1 else f"input_{at}" for at, name in enumerate(names)]
    preparer = Preparer(forms, preprocess, read_metadata(graph))
    found: list[dict[str, Any]] = []
    skipped: list[Skipped] = []
    for _, sample in dataset.drawn(None, SEED):
        if len(found) == limit:
            break
        try:
            arrays = preparer.prepare(sample)
            _check_finite(sample.name, names, arrays)
        except DataError as error:
            if not skip_bad:
                raise
            skipped.append(Skipped(sample.name, error.message))
            continue
        found.append({name: np.array(array) for name, array in zip(names, arrays, strict=True)})
    if skipped and not found:
        raise DataError(
            f"None of {several(len(skipped), 'sample')} of {dataset.source} can be used for calibration. "
            f"The first: {skipped[0].reason}"
        )
    return found, tuple(skipped)


def _check_finite(sample: str, names: list[str], arrays: tuple[Array, ...]) -> None:
    """An infinite value may be a mask's, but leaves no range for the others."""
    for name, array in zip(names, arrays, strict=True):
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise DataError(
                f"{sample} cannot be used for calibration: input {name!r} has values that are not finite.", SKIP_HINT
            )


def _part(dataset: Dataset, positions: list[int]) -> Dataset:
    samples = dataset.samples
    assert not callable(samples)
    return replace(dataset, samples=LazySamples(len(positions), lambda place: samples[positions[place]]))


def _by_turns(
    stream: Callable[[], Iterable[Sample]], choosing: bool, limit: int | None
) -> Callable[[], Iterable[Sample]]:
    def taken() -> Iterable[Sample]:
        for place, sample in enumerate(islice(stream(), limit)):
            turns = 2 if place < 2 * FEW_SAMPLES else 3
            if (place % turns == 0) is choosing:
                yield sample

    return taken
