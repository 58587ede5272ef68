"""Data and metrics that a user writes in Python, named `module:function`."""

from __future__ import annotations

import importlib
import re
import sys
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hasten.core.accuracy_notes import FIXED_ORDER
from hasten.core.errors import DataError, UsageError
from hasten.core.remark import remark
from hasten.core.units import several
from hasten.data.dataset import Dataset, Sample

if TYPE_CHECKING:
    from hasten.data.dataset import Array, Inputs, Label, Source

_NAME = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")
_FIRST_CHECKED: Final = 32
_CHECKED_EVERY: Final = 64
_MOST_VALUES: Final = 512
_NUMBERS: Final = "biuf"
_OF_THE_VALUE: Final = 1e-5
_OF_THE_LARGEST: Final = 1e-6
_SAME_HINT: Final = (
    "Let each call begin anew and give the same samples in the same order: without shuffle, or with a seed that is set "
    "in the function; without random augmentation."
)


def is_function_name(text: str) -> bool:
    """Whether the text can be `module:function`."""
    return _NAME.fullmatch(text) is not None


def load_function(text: str) -> Any:
    """What `module:function` names. Modules of the current folder are found, as python -m finds them."""
    module_name, _, path = text.partition(":")
    here = str(Path.cwd())
    if here not in sys.path and "" not in sys.path:
        sys.path.insert(0, here)
    try:
        found = importlib.import_module(module_name)
        for name in path.split("."):
            found = getattr(found, name)
    except (ImportError, AttributeError) as error:
        raise UsageError(f"{text} cannot be found: {error}.", "Write module:function, as in mydata:samples.") from None
    except (Exception, SystemExit) as error:
        raise DataError(
            f"{text} cannot be loaded: {words_of(error)}.", "Make sure that the module can be imported."
        ) from error
    return found


def words_of(error: BaseException) -> str:
    """What a user's function ended with. An exit is as much an error as others: it would end hasten without a word."""
    if isinstance(error, SystemExit):
        return f"it called sys.exit({'' if error.code is None else repr(error.code)})"
    return f"{type(error).__name__}: {error}"


def open_function(text: str) -> Dataset:
    """The samples that a function returns or yields, the same at each call: pairs of inputs and label."""
    function = load_function(text)
    if not callable(function):
        raise UsageError(f"{text} is not a function.", "It must return an iterable of (inputs, label).")
    begun = _BegunAnew(text, function)
    samples = SamePasses(text, lambda: _samples(text, begun))
    first = next(samples(), None)
    if first is None:
        raise DataError(f"{text} returned no samples.")
    notes = (remark(FIXED_ORDER),)
    return Dataset(text, samples, first.label is not None, notes=notes)


def _samples(text: str, function: Callable[[], Iterable[Any]]) -> Iterator[Sample]:
    position, is_labelled = 0, True
    try:
        for item in function():
            sample = _sample(f"{text}, sample {position}", item)
            if position == 0:
                is_labelled = sample.label is not None
            elif sample.label is not None and not is_labelled:
                # What was judged without labels until here cannot be judged by them from here on.
                raise DataError(
                    f"{sample.name} has a label, but sample 0 has none.", "Give all samples labels, or none of them."
                )
            yield sample
            position += 1
    except DataError:
        raise
    except (Exception, SystemExit) as error:
        raise DataError(f"{text} failed at sample {position}: {words_of(error)}.") from error


class _BegunAnew:
    """Calls a function that gives samples; a DataError where it gives what was read before, and cannot be again."""

    def __init__(self, text: str, function: Callable[[], Iterable[Any]]) -> None:
        self._text, self._function = text, function
        self._before: Callable[[], object] = lambda: None

    def __call__(self) -> Iterable[Any]:
        """What the function returns."""
        found = self._function()
        if not isinstance(found, Iterator):
            return found
        if self._before() is found:
            raise DataError(
                f"{self._text} returns the same iterator at each call, and an iterator can be read only once.",
                "Create the iterator inside the function.",
            )
        try:
            # What was left half read should not be kept open for this.
            self._before = weakref.ref(found)
        except TypeError:  # as zip and map
            self._before = lambda: found
        return found


def _sample(name: str, item: Any) -> Sample:
    if not isinstance(item, (tuple, list)) or len(item) != 2:
        raise DataError(f"{name} is not a pair of inputs and label.", "Yield (inputs, label); label may be None.")
    inputs, label = item
    return Sample(name, _inputs(inputs), _label(label))


def _inputs(inputs: Any) -> Inputs:
    """A tuple holds several inputs, a dict names them; anything else is one input."""
    if isinstance(inputs, Mapping):
        return {str(name): _source(value) for name, value in inputs.items()}
    return tuple(_source(value) for value in inputs) if isinstance(inputs, tuple) else (_source(inputs),)


def _source(value: Any) -> Source:
    return Path(value) if isinstance(value, (str, Path)) else np.asarray(value)


def _label(label: Any) -> Label:
    if label is None or isinstance(label, (str, int, float, Path)):
        return label
    values = np.asarray(label)
    return values if values.ndim else values.item()


class SamePasses:
    """The samples of a function, call after call; a DataError as soon as they are seen to be others than before.

    Results are paired by position, and would be about nothing. A few samples of each call are held against those of
    earlier ones, by a few of their values, so that it costs next to nothing. Numbers may differ by their rounding: some
    libraries add up in another order each time.
    """

    def __init__(self, source: str, samples: Callable[[], Iterable[Sample]]) -> None:
        self._source, self._samples = source, samples
        self._outlines: dict[int, list[str | Array]] = {}
        self._count: int | None = None

    def __call__(self) -> Iterator[Sample]:
        """All samples once."""
        count = 0
        for sample in self._samples():
            if count < _FIRST_CHECKED or count % _CHECKED_EVERY == 0:
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
        return DataError(message, _SAME_HINT)


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
