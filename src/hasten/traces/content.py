"""A trace file's bytes: mapped into memory, never read as a whole; a gzip around them is taken off."""

from __future__ import annotations

import contextlib
import gzip
import mmap
import tempfile
import zlib
from typing import TYPE_CHECKING, Final

from hasten.core.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from typing import IO

    Progress = Callable[[float, str], None]

_GZIP: Final = b"\x1f\x8b"
_MOST_UNPACKED: Final = 4 << 30
_STEP: Final = 1 << 20


class Content:
    """The bytes, and how far a reader has come."""

    def __init__(self, path: Path, data: mmap.mmap, progress: Progress | None = None, *, cut: bool = False) -> None:
        self.path = path
        self.data = data
        self.size = len(data)
        self.cut = cut
        """Whether the gzip around it ended early."""
        self._progress = progress
        self._told = 0

    def told(self, position: int) -> None:
        """Say how far the reading has come; now and then it reaches the progress bar."""
        if position - self._told >= _STEP:
            self._told = position
            if self._progress:
                self._progress(position / self.size, f"{position / 1e6:.0f} of {self.size / 1e6:.0f} MB")

    def lines(self) -> Iterator[str]:
        """Line by line, whatever stands in them; without the line's end."""
        self.data.seek(0)
        position = 0
        while line := self.data.readline():
            position += len(line)
            self.told(position)
            yield line.rstrip(b"\r\n").decode("utf-8", "replace")

    def chunks(self, size: int = _STEP) -> Iterator[bytes]:
        """Pieces one after the other."""
        for position in range(0, self.size, size):
            yield self.data[position : position + size]
            self.told(position + size)


@contextlib.contextmanager
def opened(path: Path, progress: Progress | None = None) -> Iterator[Content]:
    """The file's content for as long as the `with` lasts."""
    with contextlib.ExitStack() as stack:
        try:
            stream: IO[bytes] = stack.enter_context(path.open("rb"))
            head = stream.read(len(_GZIP))
        except IsADirectoryError:
            raise DataError(f"{path} is a folder.", _folder_hint(path)) from None
        except OSError as error:
            raise DataError(
                f"{path} cannot be read: {error.strerror}.", "Check the path and its permissions."
            ) from None
        except ValueError:
            raise DataError(f"{str(path)!r} is not a file name.", "Give the name of a trace file.") from None
        if not head:
            raise DataError(f"{path} is empty.", "Record again, as the tool wrote nothing.")
        cut = False
        if head == _GZIP:
            stream, cut = _unpacked(path, stack.enter_context(tempfile.TemporaryFile()))
        try:
            data = stack.enter_context(mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ))
        except (OSError, ValueError) as error:
            raise DataError(f"{path} cannot be read: {error}.", "Give a plain file.") from None
        yield Content(path, data, progress, cut=cut)


def _unpacked(path: Path, room: IO[bytes]) -> tuple[IO[bytes], bool]:
    """The content without its gzip, in a nameless file; and whether the gzip ended early."""
    cut = False
    with gzip.open(path) as packed:
        try:
            while room.tell() < _MOST_UNPACKED and (chunk := packed.read(_STEP)):
                room.write(chunk)
        except (EOFError, OSError, zlib.error):
            cut = True
    room.flush()
    return room, cut


def _folder_hint(path: Path) -> str:
    if path.suffix == ".trace":
        return (
            f"Export a table of it first: xcrun xctrace export --input {path.name} --output trace.xml "
            "--xpath '/trace-toc/run/data/table[@schema=\"os-signpost-interval\"]'"
        )
    return "Give the name of a trace file."
