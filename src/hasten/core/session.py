"""The session file: everything that was measured, line by line, each line on the disk before the next trial begins.

One JSON document a line. The first says what made the file; each further line is a trial. A line cut off by a crash or
a full disk is left out on reading, and is all that is lost. Each line ends with the CRC-32 of what stands before it, so
that a number in which a bit has flipped is not taken for a measurement. Format 1, the first; lines of older releases
have no checksum.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import math
import os
import re
import reprlib
import warnings
import zlib
from dataclasses import dataclass, field, replace
from typing import IO, TYPE_CHECKING, Any, Final

from hasten.core.errors import DataError, HastenError, UsageError
from hasten.core.regular_file import open_regular

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    Keep = Callable[[str, str, dict[str, Any]], None]
    """What saves a trial, as SessionWriter.add does: its kind, its label, its data."""

FORMAT: Final = 1
UNREADABLE: Final = (
    *(ArithmeticError, AttributeError, LookupError, RecursionError, StopIteration, TypeError, ValueError),
    HastenError,
)
"""What reading a line that is not as it should be can raise."""
_MARK: Final = "hasten_session"
TARGET: Final = "target"
"""The key of a header that names the device, where it is not this machine."""
# What may be a number too large for any measurement, or half of a character: such a line is read with more care.
_SUSPICIOUS: Final = re.compile(rb"[0-9]{19}|[0-9][eE]\+?[0-9]{3}|\\u[dD][89a-fA-F]|NaN|Infinity")
_KEYS: Final = {"kind", "label", "at", "data", "crc32"}
_SEAL: Final = b',"crc32":"'
_LARGEST: Final = 2**63
_DAMAGED: Final = "Copy the file again from its source, or remove the damaged line."


def keep_nothing(kind: str, label: str, data: dict[str, Any]) -> None:
    """For callers without a session file."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a session file: a measurement, a failure, a comparison, a profile, a trial of a search."""

    kind: str
    label: str
    at: str
    data: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Session:
    """What a session file holds."""

    header: dict[str, Any]
    lines: tuple[Line, ...]
    lost_lines: int = 0
    """Lines that could not be read: cut off by a crash, most likely."""


@dataclass(slots=True)
class SessionWriter:
    """Appends lines to a session file; never overwrites one."""

    path: Path
    header: dict[str, Any] = field(default_factory=dict)
    _stream: IO[bytes] | None = None

    def add(self, kind: str, label: str, data: dict[str, Any]) -> None:
        """Save one trial. It is on the disk when this returns."""
        self._append({"kind": kind, "label": label, "at": _now(), "data": data})

    def begin(self) -> None:
        """Open the file now, so that a place that cannot be written is known before the work and not after it."""
        try:
            if self._stream is None:
                self._open().flush()
        except OSError as error:
            self.close()
            self._remove_empty()
            raise self._trouble(error) from error

    def close(self) -> None:
        """Close the file, if it was opened."""
        if self._stream is not None:
            # What could not be written was told when it was added; closing tries once more and must not fail again.
            with contextlib.suppress(OSError):
                self._stream.close()
            self._stream = None

    def _append(self, line: dict[str, Any]) -> None:
        written = _sealed(json.dumps(line, separators=(",", ":"), allow_nan=False))
        try:
            stream = self._stream or self._open()
            stream.write(written)
            stream.flush()
            os.fsync(stream.fileno())
        except OSError as error:
            self.close()  # the next trial opens the file again, and so begins a line of its own
            raise self._trouble(error) from error

    def _trouble(self, error: OSError) -> DataError:
        kept = " Everything saved so far is still there." if self._size() else ""
        return DataError(
            f"The session file {self.path} cannot be written: {error.strerror}.",
            f"Make room there, or choose another file with --session.{kept}",
        )

    def _size(self) -> int:
        """The size of the file; 0 where it cannot be told."""
        try:
            return self.path.stat().st_size
        except OSError:
            return 0

    def _remove_empty(self) -> None:
        """Leave no file where nothing was written; a device or a pipe is not ours."""
        if self.path.is_file() and not self._size():
            with contextlib.suppress(OSError):
                self.path.unlink()

    def _open(self) -> IO[bytes]:
        """Begin a new file, or go on with one of ours. A last line without its end gets one, so that ours is whole."""
        existing = self.path.stat().st_size if self.path.exists() else 0
        if existing:
            _refuse_other_target(self.path, _header_of(self.path), self.header)
        self._stream = stream = self.path.open("ab+")
        if existing:
            stream.seek(-1, os.SEEK_END)
            if stream.read(1) != b"\n":
                stream.write(b"\n")
        else:
            stream.write(_sealed(json.dumps({_MARK: FORMAT, "created": _now(), **self.header})))
        return stream


def read_session(path: Path) -> Session:
    """A session file, as far as it can be read."""
    try:
        _header_of(path)
    except UsageError:
        message = f"{path} is not a session file, or its first line is damaged."
        raise DataError(message, "Give the file that --session named, or the folder of a hasten tune.") from None
    lines = path.read_bytes().split(b"\n")
    with damage_as_error(str(path)):
        header = _entry(lines[0], path, 1)
        if not _is_whole(lines[0]):
            raise ValueError("the checksum of the first line is wrong")
        header.pop("crc32", None)
    found, lost = [], 0
    for number, line in enumerate(lines[1:], 2):
        if not line.strip():
            continue
        if not _is_whole(line):
            lost += 1
            continue
        try:
            found.append(_line(_entry(line, path, number)))
        except (ValueError, KeyError, TypeError):
            lost += 1
    return Session(header, tuple(found), lost)


@contextlib.contextmanager
def damage_as_error(name: str) -> Iterator[None]:
    """Let data that no release of hasten writes end in a sentence; a file can come from anywhere."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # NumPy's, about means of nothing and the like
            yield
    except DataError:
        raise
    except HastenError as error:
        raise DataError(f"The session {name} is damaged: {error.message}", _DAMAGED) from error
    except UNREADABLE as error:
        what = reprlib.repr(str(error))
        raise DataError(f"The session {name} is damaged ({type(error).__name__}: {what}).", _DAMAGED) from error


def _sealed(document: str) -> bytes:
    """A line of the file: the document, whose last entry is the checksum of what stands before it."""
    content = document.encode()[:-1]
    return content + f'{_SEAL.decode()}{zlib.crc32(content):08x}"}}\n'.encode()


def _is_whole(line: bytes) -> bool:
    """Whether a line is as it was written, as far as its checksum tells. Lines of older releases have none."""
    content, seal, rest = line.rstrip(b"\r").rpartition(_SEAL)
    return not seal or rest == f'{zlib.crc32(content):08x}"}}'.encode()


@dataclass(slots=True)
class _Numbers:
    """Reads numbers, and notes those that no measurement has: what follows may show that the line is no JSON at all."""

    impossible: list[str] = field(default_factory=list)

    def integer(self, text: str) -> int:
        """A whole number."""
        return int(text) if len(text) < 21 and -_LARGEST <= int(text) < 2 * _LARGEST else self.refuse(text)

    def real(self, text: str) -> float:
        """Any other number."""
        found = float(text)
        return found if math.isfinite(found) else self.refuse(text)

    def refuse(self, text: str) -> int:
        """Something in place of a number that cannot be."""
        self.impossible.append(text if len(text) <= 12 else f"{text[:12]}…")
        return 0


def _entry(line: bytes, path: Path, number: int) -> Any:
    """What a line holds. A number that JSON cannot hold, or nesting without end, is no accident of a full disk."""
    try:
        if not _SUSPICIOUS.search(line):
            return json.loads(line)
        numbers = _Numbers()
        found = json.loads(line, parse_int=numbers.integer, parse_float=numbers.real, parse_constant=numbers.refuse)
        json.dumps(found, ensure_ascii=False).encode()  # a ValueError for half of a character
    except RecursionError:
        raise DataError(f"Line {number} of {path} is nested too deeply.", _DAMAGED) from None
    if numbers.impossible:
        message = f"Line {number} of {path} contains the impossible number {numbers.impossible[0]}."
        raise DataError(message, _DAMAGED)
    return found


def _line(entry: dict[str, Any]) -> Line:
    line = Line(entry["kind"], entry["label"], entry["at"], entry["data"])
    if not entry.keys() <= _KEYS:  # a line without a checksum has no other keys: this was the checksum's
        raise ValueError("a line has a key that no release writes")
    if not (isinstance(line.data, dict) and all(isinstance(one, str) for one in (line.kind, line.label, line.at))):
        raise TypeError("a line has a kind, a label and a time, which are texts, and data")
    return line


def merged_rounds(lines: Iterable[Line]) -> list[Line]:
    """The lines, with a measurement that was saved round by round as one line that has the blocks of all rounds.

    One that was saved as a whole in the end takes the place of its rounds.
    """
    merged: list[Line] = []
    growing: dict[str, int] = {}
    for line in lines:
        turn = line.data.get("round") if line.kind == "measurement" else None
        before = growing.get(line.label) if turn is not None and turn > 1 else None
        if before is not None:
            merged[before] = replace(line, data={**line.data, **_joined(merged[before].data, line.data)})
            continue
        if turn is not None:
            growing[line.label] = len(merged)
        elif line.kind == "measurement" and _holds(line, merged, growing.get(line.label)):
            merged[growing.pop(line.label)] = line
            continue
        merged.append(line)
    return merged


def _holds(whole: Line, merged: Sequence[Line], rounds: int | None) -> bool:
    """Whether a measurement begins with the blocks of these rounds."""
    if rounds is None:
        return False
    try:
        known, blocks = (line.data["samples"]["blocks"] for line in (merged[rounds], whole))
        return bool(blocks[: len(known)] == known)
    except (KeyError, TypeError):  # whoever reads the line says what is wrong with it
        return False


def _joined(before: dict[str, Any], data: dict[str, Any]) -> dict[str, Any]:
    """What was taken in both of two rounds."""
    blocks = [*before["samples"]["blocks"], *data["samples"]["blocks"]]
    known = [name for name in ("starts", "bursts") if isinstance(data.get(name), list)]
    others = {name: [*(before.get(name) or ()), *data[name]] for name in known}
    return {"samples": {**data["samples"], "blocks": blocks}, **others}


def _refuse_other_target(path: Path, before: dict[str, Any], now: dict[str, Any]) -> None:
    """Figures of two devices are never mixed."""
    there, here = (str(header.get(TARGET, "local")) for header in (before, now))
    if there != here:
        message = f"{path} holds measurements on {there}, not on {here}."
        raise UsageError(message, "Choose another file with --session. Nothing was changed.")


def _header_of(path: Path) -> dict[str, Any]:
    """The first line of a session, if the file is one."""
    try:
        with open_regular(path) as stream:
            header: dict[str, Any] = json.loads(stream.readline(1 << 20))
            version = header[_MARK]
    except OSError as error:
        raise DataError(f"The session file {path} cannot be read: {error.strerror}.", "Check the path.") from error
    except (ValueError, KeyError, TypeError, RecursionError):
        raise UsageError(
            f"{path} exists and is not a session file.", "Choose another name. Nothing was changed."
        ) from None
    if version != FORMAT:
        hint = "Update hasten." if isinstance(version, int) and version > FORMAT else "The file is damaged."
        raise DataError(f"{path} is a session of format {reprlib.repr(version)}; hasten reads format {FORMAT}.", hint)
    return header


def _now() -> str:
    return datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
