"""Reads the files of the catalogue: the one that hasten brings along, and those that users add."""

from __future__ import annotations

import dataclasses
import functools
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from hasten.core.checks import ABOVE_ZERO, FROM_ONE, SHARE_TO_LOSE, Requirement
from hasten.core.codec import checked_from_data, record
from hasten.core.errors import DataError
from hasten.core.toml_file import read_toml
from hasten.practices.choose.catalogue.entry import Counted, Entry, Published, Settings, WeightSource
from hasten.practices.choose.catalogue.families import FAMILIES
from hasten.practices.choose.catalogue.hubs import is_path

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_OWN: Final = Path(__file__).with_name("models.toml")
# Names and precisions become parts of file names.
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_SHA256: Final = re.compile(r"[0-9a-f]{64}|")
# Larger ones would not fit into any device; a slip of the hand in a file must not fill the memory.
_LARGEST_SIDE: Final = 4096
_LARGEST_SCALE: Final = 8.0
_MOST_CLASSES: Final = 100_000
_OUTPUT_STRIDES: Final = (8, 16, 32)
_PARTS: Final[dict[str, Any]] = {
    "settings": Settings,
    "counted": Counted,
    "accuracies": Published,
    "weights": WeightSource,
}


@record
class _Source:
    """Where figures come from, and under which license."""

    url: str
    license: str = ""


def entries(task: str | None = None, files: Sequence[Path] = ()) -> tuple[Entry, ...]:
    """The models for a task, or all; those in the files come on top, and replace others of the same name."""
    known = {entry.name: entry for path in (_OWN, *files) for entry in _entries_of(path)}
    return tuple(entry for entry in known.values() if task is None or entry.task == task)


def _entries_of(path: Path) -> tuple[Entry, ...]:
    return _own_entries() if path == _OWN else _read(path)


@functools.cache
def _own_entries() -> tuple[Entry, ...]:
    return _read(_OWN)


def _read(path: Path) -> tuple[Entry, ...]:
    content = read_toml(path, "catalogue")
    sources, rows = content.get("sources", {}), content.get("models", [])
    if unknown := set(content) - {"sources", "models"}:
        raise _wrong(path, f"it has {min(unknown)!r}", "Write the models as tables called [[models]].")
    if not isinstance(sources, dict) or not isinstance(rows, list):
        raise _wrong(path, "it has no list of models", "Write the models as tables called [[models]].")
    known = {name: _source(path, name, source) for name, source in sources.items()}
    found: dict[str, Entry] = {}
    for number, row in enumerate(rows, 1):
        entry = _entry(path, number, row, known)
        if entry.name in found:
            raise _wrong(path, f"it has {entry.name!r} twice", "Give each model a name of its own.")
        found[entry.name] = entry
    return tuple(found.values())


def _source(path: Path, name: str, data: Any) -> _Source:
    try:
        return checked_from_data(_Source, data if isinstance(data, dict) else {})
    except ValueError as error:
        hint = f'Write it like this: {name} = {{ url = "https://…" }}'
        raise _wrong(path, f"in [sources], {name}.{error}", hint) from None


def _entry(path: Path, number: int, row: Any, sources: Mapping[str, _Source]) -> Entry:
    name = row.get("name", "") if isinstance(row, dict) else ""
    where = f"model {name!r}" if isinstance(name, str) and name else f"model number {number}"
    try:
        if isinstance(row, dict):
            _refuse_unknown(row)
            row = _resolved(row, sources, path.parent)
        entry = checked_from_data(Entry, row)
    except (ValueError, OverflowError, RuntimeError) as error:  # a huge number, or the home of nobody
        raise _wrong(path, f"in {where}, {error}", f"Compare it with a model in {_OWN}.") from None
    if trouble := next(_troubles(entry), None):
        raise _wrong(path, f"in {where}, {trouble}", f"Compare it with a model in {_OWN}.")
    return entry


def _refuse_unknown(row: Mapping[str, Any]) -> None:
    """A misspelt key must not pass for one that was left out."""
    kinds: dict[str, Any] = {"": Entry, **_PARTS}
    for key, cls in kinds.items():
        given = row.get(key, {}) if key else row
        for part in given if isinstance(given, list) else [given]:
            names = {field.name for field in dataclasses.fields(cls)}
            if isinstance(part, dict) and (unknown := set(part) - names):
                raise ValueError(f"{f'{key}.' if key else ''}{min(unknown)} is no known key")


def _resolved(row: Mapping[str, Any], sources: Mapping[str, _Source], folder: Path) -> dict[str, Any]:
    """The row with the addresses of its sources, and with paths that do not depend on where hasten runs."""
    made = dict(row)
    for key in ("accuracies", "counted", "weights"):
        if key in row:
            several = isinstance(row[key], list)
            parts = [_with_source(part, sources) for part in (row[key] if several else [row[key]])]
            made[key] = parts if several else parts[0]
    weights = made.get("weights")
    for part in weights if isinstance(weights, list) else ():
        if isinstance(part, dict) and isinstance(place := part.get("location"), str) and is_path(place):
            part["location"] = str((folder / Path(place).expanduser()).resolve())
    return made


def _with_source(part: Any, sources: Mapping[str, _Source]) -> Any:
    if not isinstance(part, dict):
        return part
    name = part.get("source")
    source = sources.get(name) if isinstance(name, str) else None
    return dict(part) if source is None else {"license": source.license, **part, "source": source.url}


def _troubles(entry: Entry) -> Iterator[str]:
    """What is wrong with values of the right type."""
    numbers: list[tuple[str, float, Requirement, float]] = [
        ("input_size", entry.input_size, FROM_ONE, _LARGEST_SIDE),
        *(("input_shape", side, FROM_ONE, _LARGEST_SIDE) for side in entry.shape),
        ("settings.width", entry.settings.width, ABOVE_ZERO, _LARGEST_SCALE),
        ("settings.depth", entry.settings.depth, ABOVE_ZERO, _LARGEST_SCALE),
        ("settings.classes", entry.settings.classes, FROM_ONE, _MOST_CLASSES),
        *((f"accuracies[{place}].value", one.value, SHARE_TO_LOSE, 1) for place, one in enumerate(entry.accuracies)),
    ]
    if not _NAME.fullmatch(entry.name):
        yield "the name may have letters, digits, dots, dashes and underscores only"
    if entry.family and entry.family not in FAMILIES:
        yield f"there is no family {entry.family!r}; there are {', '.join(FAMILIES)}"
    if entry.settings.output_stride not in _OUTPUT_STRIDES:
        yield f"settings.output_stride must be one of {', '.join(map(str, _OUTPUT_STRIDES))}"
    for name, value, requirement, most in numbers:
        if not requirement.fits(value) or value > most:
            yield f"{name} must be {requirement.words}, and {most:g} at most"
    for place, source in enumerate(entry.weights):
        if not _NAME.fullmatch(source.precision):
            yield f"weights[{place}].precision must be a name such as int8"
        if not _SHA256.fullmatch(source.sha256):
            yield f"weights[{place}].sha256 must have 64 hexadecimal digits in lower case"


def _wrong(path: Path, what: str, hint: str) -> DataError:
    return DataError(f"The catalogue {path} cannot be used: {what}.", hint)
