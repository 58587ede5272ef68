"""What a value must be, in one place for the command line and the functions: a number above 0, a share, a path.

A wrong value ends in a UsageError before any work begins.
"""

from __future__ import annotations

import math
import numbers
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

from hasten.core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Requirement:
    """What a number must be, in words and as a test, with an example."""

    words: str
    fits: Callable[[Any], bool]
    example: str


def _is_number(value: object) -> bool:
    return type(value) is not bool and isinstance(value, numbers.Real) and math.isfinite(value)


def _is_whole(value: object) -> bool:
    return type(value) is not bool and isinstance(value, numbers.Integral)


ABOVE_ZERO: Final = Requirement("a number above 0", lambda value: _is_number(value) and value > 0, "10")
FROM_ZERO: Final = Requirement("a number of at least 0", lambda value: _is_number(value) and value >= 0, "10")
WHOLE: Final = Requirement("a whole number", _is_whole, "1")
SEED: Final = Requirement("a whole number of at least 0", lambda value: _is_whole(value) and value >= 0, "1")
FROM_ONE: Final = Requirement("a whole number of at least 1", lambda value: _is_whole(value) and value >= 1, "2")
THREADS: Final = Requirement(
    "a whole number from 1 to 1024", lambda value: _is_whole(value) and 1 <= value <= 1024, "2"
)
SHARE: Final = Requirement(
    "a share above 0% and below 100%, such as 1% or 0.01", lambda value: _is_number(value) and 0 < value < 1, "0.01"
)
SHARE_TO_LOSE: Final = Requirement(
    "a share from 0% to 100%, such as 1% or 0.01", lambda value: _is_number(value) and 0 <= value <= 1, "0.01"
)


def check_number(name: str, value: Any, requirement: Requirement) -> None:
    """Refuse a number that is not as required."""
    if not requirement.fits(value):
        raise UsageError(
            f"The value of {name} must be {requirement.words}, not {value!r}.", f"Pass {name}={requirement.example}."
        )


def check_given(record: object, names: Iterable[str], requirement: Requirement) -> None:
    """Refuse fields of a record that are neither None nor as required."""
    for name in names:
        if (value := getattr(record, name)) is not None:
            check_number(name, value, requirement)


def check_kind(name: str, value: object, kind: type | tuple[type, ...], example: str) -> None:
    """Refuse a value of another type; the example shows a right one."""
    if not isinstance(value, kind):
        raise UsageError(f"The value of {name} cannot be {value!r}.", f"Pass {example}.")


def check_callable(name: str, value: object) -> None:
    """Refuse what cannot be called."""
    if not callable(value):
        raise UsageError(f"The value of {name} must be a function, not {value!r}.", f"Pass a function as {name}.")


def path_text(name: str, value: object) -> str:
    """The text of a path; refuses what is none."""
    if isinstance(value, str | os.PathLike):
        text = os.fspath(value)
        if isinstance(text, str) and "\0" not in text:
            return text
    raise UsageError(
        f"The value of {name} must be a path, not {value!r}.", f'Pass a text or a pathlib.Path, such as {name}="x".'
    )


def text_of(name: str, value: object) -> str:
    """The text, or that of a path; refuses everything else."""
    if isinstance(value, str | os.PathLike):
        text = os.fspath(value)
        if isinstance(text, str):
            return text
    raise UsageError(f"The value of {name} must be a text, not {value!r}.", f'Pass {name}="…".')
