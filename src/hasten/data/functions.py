"""Data and metrics that a user writes in Python, named `module:function`."""

from __future__ import annotations

import importlib
import re
import sys
import weakref
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hasten.core.accuracy_notes import FIXED_ORDER
from hasten.core.errors import DataError, UsageError
from hasten.core.remark import remark
from hasten.data.dataset import Dataset, Sample
from hasten.data.passes import SamePasses

if TYPE_CHECKING:
    from collections.abc import Callable

    from hasten.data.dataset import Inputs, Label, Source

_NAME = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")


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
