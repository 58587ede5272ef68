"""Records to plain data and back: one codec for every record that a session file, a runner or `--json` carries.

A record is a frozen dataclass whose field names are its JSON keys; `key` gives another key, or the number that stands
for null. Reading forgives: unknown keys are left out, and a key that an older release did not write takes the field's
default. Types that JSON has a form of its own for (an interval, a remark) are told to the codec by `convert`.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import math
import reprlib
import types
import typing
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from hasten.core.finding import Finding, finding_from_data
from hasten.core.remark import Remark, remark_from_data

if TYPE_CHECKING:
    from collections.abc import Callable

    from typing_extensions import dataclass_transform

    from hasten.core.phrases import Phrasebook
else:

    def dataclass_transform(**_: Any) -> Any:
        """Python 3.10 has no such decorator; only type checkers need it."""
        return lambda function: function


T = TypeVar("T")
_KEY: Final = "hasten_key"
_NULL: Final = "hasten_null"
_SENTENCE: Final = "hasten_sentence"


def key(name: str = "", *, null: float | None = None, **options: Any) -> Any:
    """A field with another key in JSON, or with the number that null stands for (an infinity, as a rule)."""
    return dataclasses.field(metadata={_KEY: name, _NULL: null}, **options)


def sentence(name: str = "", **options: Any) -> Any:
    """A remark that `--json` shows as a sentence under its key, with `KEY_code` and `KEY_facts` beside it."""
    return dataclasses.field(metadata={_KEY: name, _SENTENCE: True}, **options)


@dataclass_transform(frozen_default=True, field_specifiers=(dataclasses.field, key, sentence))
def record(cls: type[T]) -> type[T]:
    """A frozen dataclass that the codec can read: the types of its fields are known at run time."""
    return dataclasses.dataclass(frozen=True, slots=True)(cls)


_CONVERTED: Final[dict[type, tuple[Callable[[Any], Any], Callable[[Any], Any]]]] = {
    Remark: (lambda it: {"code": it.code, "facts": _plain(it.facts, None)}, remark_from_data),
    Finding: (
        lambda it: {
            "practice": it.practice,
            "verdict": it.standing.value,
            "code": it.remark.code,
            "facts": _plain(it.remark.facts, None),
        },
        finding_from_data,
    ),
    Path: (str, Path),
}


def finite(value: float | None) -> float | None:
    """The number, or None where JSON has none for it."""
    return value if value is not None and math.isfinite(value) else None


def bounds_from_data(pair: Sequence[float | None]) -> tuple[float, float]:
    """An interval's ends back from JSON; one that was null is open."""
    low, high = pair
    return (-math.inf if low is None else low, math.inf if high is None else high)


def convert(cls: type, write: Callable[[Any], Any], read: Callable[[Any], Any]) -> None:
    """Tell the codec how a type is written and read that is not simply its fields."""
    _CONVERTED[cls] = (write, read)


def to_data(value: Any, book: Phrasebook | None = None) -> dict[str, Any]:
    """A record as plain data. With a phrasebook, remarks and findings carry their words beside code and facts."""
    data = _plain(value, book)
    assert isinstance(data, dict), "a record, not a bare value"
    return data


def from_data(cls: type[T], data: Mapping[str, Any]) -> T:
    """A record back from plain data, of this release or an older one."""
    return typing.cast("T", _value(cls, data, None))


def typed_from_data(cls: type[T], data: Mapping[str, Any]) -> T:
    """The same, for figures that are computed with: a ValueError names what is not of the type of its field."""
    found = from_data(cls, data)
    if (misfit := _misfit(found)) is not None:
        raise ValueError(f"{misfit} is {reprlib.repr(getattr(found, misfit))}")
    return found


def checked_from_data(cls: type[T], data: Mapping[str, Any]) -> T:
    """A record from data that anybody may have written; a ValueError names the first value of a wrong type.

    For records of numbers, texts, tuples, mappings, other such records, and each of them or nothing.
    """
    _check(cls, data, "")
    return from_data(cls, data)


def _misfit(found: Any) -> str | None:
    """The first field of a record with a value of another type."""
    hints = _hints(found.__class__)
    return next((name for name, kind in hints.items() if not _fits(kind, getattr(found, name))), None)


def _fits(kind: Any, value: Any) -> bool:
    origin, inside = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        return any(_fits(one, value) for one in inside)
    if kind is Any:
        return True
    wanted: Any = (float, int) if kind is float else origin or kind
    if not isinstance(value, wanted):
        return False
    if origin is tuple:
        kinds = inside[:1] * len(value) if inside[-1] is Ellipsis else inside
        return len(kinds) == len(value) and all(map(_fits, kinds, value))
    if origin is Mapping:
        return all(_fits(inside[0], name) and _fits(inside[1], entry) for name, entry in value.items())
    if kind is Remark:  # its facts are plain data of any kind
        return isinstance(value.code, str)
    return not _is_record(kind) or _misfit(value) is None


def _check(kind: Any, value: Any, name: str) -> None:
    origin, inside = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        _check_member(inside, value, name)
        return
    if _is_record(kind):
        fits = isinstance(value, dict)
    elif kind is float:
        fits = type(value) in (int, float) and math.isfinite(value)
    elif kind is Path:
        fits = type(value) is str
    else:
        wanted = {tuple: list, Mapping: dict}.get(origin or kind, kind)
        fits = kind is Any or type(value) is wanted
    if not fits:
        raise ValueError(f"{name} is {reprlib.repr(value)}")
    if _is_record(kind):
        _check_fields(kind, value, name)
    elif origin is tuple:
        kinds = [inside[0]] * len(value) if inside[-1] is Ellipsis else inside
        if len(kinds) != len(value):
            raise ValueError(f"{name} is {reprlib.repr(value)}")
        for place, (each, entry) in enumerate(zip(kinds, value, strict=True)):
            _check(each, entry, f"{name}[{place}]")


def _check_member(kinds: Sequence[Any], value: Any, name: str) -> None:
    """A value that may be left out, or one of a single kind."""
    (known,) = [kind for kind in kinds if kind is not types.NoneType]
    if value is not None:
        _check(known, value, name)


def _check_fields(cls: type, data: Mapping[str, Any], name: str) -> None:
    dot = f"{name}." if name else ""
    if missing := [entry for entry in _required(cls) if entry not in data]:
        raise ValueError(f"{dot}{missing[0]} is missing")
    for field, entry, _ in _fields(cls):
        if entry in data:
            _check(_hints(cls)[field.name], data[entry], f"{dot}{entry}")


def _plain(value: Any, book: Phrasebook | None) -> Any:
    if isinstance(value, enum.Enum):
        return value.value
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return finite(value)
    if isinstance(value, Path):  # its class is the platform's own
        return str(value)
    if book is not None and isinstance(value, Remark | Finding):
        return book.remark_data(value) if isinstance(value, Remark) else book.finding_data(value)
    if type(value) in _CONVERTED:
        return _CONVERTED[type(value)][0](value)
    if _is_record(type(value)):
        return _entries(value, book)
    return _collection(value, book)


def _entries(value: Any, book: Phrasebook | None) -> dict[str, Any]:
    data: dict[str, Any] = {}
    for field, name, _ in _fields(value.__class__):
        entry = getattr(value, field.name)
        if book is not None and isinstance(entry, Remark) and field.metadata.get(_SENTENCE):
            data |= {name: book.text(entry), f"{name}_code": entry.code, f"{name}_facts": _plain(entry.facts, None)}
        else:
            data[name] = _plain(entry, book)
    return data


def _collection(value: Any, book: Phrasebook | None) -> Any:
    if isinstance(value, Mapping):
        return {str(name): _plain(entry, book) for name, entry in value.items()}
    if isinstance(value, Sequence | set | frozenset):
        return [_plain(entry, book) for entry in value]
    if hasattr(value, "item"):  # a NumPy number
        return _plain(value.item(), book)
    raise TypeError(f"{type(value).__name__} has no place in JSON")


def _value(kind: Any, data: Any, null: float | None) -> Any:
    origin, inside = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        return _member(inside, data, null)
    if data is None:
        return null
    if origin is tuple:
        return _tuple(inside, data)
    if origin in (list, Sequence):
        return [_value(inside[0], entry, None) for entry in data]
    if origin in (dict, Mapping):
        return {_value(inside[0], name, None): _value(inside[1], entry, None) for name, entry in data.items()}
    if kind in _CONVERTED:
        return _CONVERTED[kind][1](data)
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return kind(data)
    if _is_record(kind):
        return _record(kind, data)
    return int(data) if kind is int and isinstance(data, str) else data


def _member(kinds: Sequence[Any], data: Any, null: float | None) -> Any:
    """The value of a union: nothing, or the first kind that the data fits."""
    if data is None:
        return null
    known = [kind for kind in kinds if kind is not types.NoneType]
    if len(known) == 1:
        return _value(known[0], data, null)
    records = [kind for kind in known if _is_record(kind)]
    if isinstance(data, Mapping):
        return _value(next(kind for kind in records if set(_required(kind)) <= set(data)), data, null)
    return data


def _tuple(inside: Sequence[Any], data: Sequence[Any]) -> tuple[Any, ...]:
    if len(inside) == 2 and inside[1] is Ellipsis:
        return tuple(_value(inside[0], entry, None) for entry in data)
    if tuple(inside) == (float, float):
        return bounds_from_data(data)
    return tuple(_value(kind, entry, None) for kind, entry in zip(inside, data, strict=True))


def _record(cls: type, data: Mapping[str, Any]) -> Any:
    hints = _hints(cls)
    given = {
        field.name: _value(hints[field.name], data[name], null)
        for field, name, null in _fields(cls)
        if name in data and field.init
    }
    return cls(**given)


def _is_record(kind: Any) -> bool:
    return isinstance(kind, type) and dataclasses.is_dataclass(kind)


def _required(cls: type) -> list[str]:
    missing = dataclasses.MISSING
    return [name for field, name, _ in _fields(cls) if field.default is missing and field.default_factory is missing]


@functools.cache
def _fields(cls: Any) -> tuple[tuple[dataclasses.Field[Any], str, float | None], ...]:
    """The fields of a record, each with its key and what null stands for."""
    return tuple(
        (field, field.metadata.get(_KEY) or field.name, field.metadata.get(_NULL)) for field in dataclasses.fields(cls)
    )


@functools.cache
def _hints(cls: Any) -> dict[str, Any]:
    return typing.get_type_hints(cls)
