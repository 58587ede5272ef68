"""Files that appear whole or not at all: written beside their place, then renamed.

A full disk, Ctrl-C or a crash leaves the file that was there before.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def write_whole(path: Path, content: str | bytes, *, replace: bool = True, follow_link: bool = True) -> None:
    """Write a file; text as UTF-8. Without `replace`, a file that is there raises FileExistsError."""
    with whole_file(path, replace=replace, follow_link=follow_link) as stream:
        stream.write(content.encode() if isinstance(content, str) else content)


@contextlib.contextmanager
def whole_file(path: Path, *, replace: bool = True, follow_link: bool = True) -> Iterator[IO[bytes]]:
    """A stream whose content gets this name when the block ends without an error, and is removed otherwise.

    A file keeps its permissions. A symbolic link stays one, unless `follow_link` is off: in a folder that somebody else
    made, it could lead anywhere. A device or a pipe, which has no content to lose and must not be renamed away, is
    written directly.
    """
    if replace and follow_link and path.exists() and not path.is_file():
        with path.open("wb") as stream:
            yield stream
        return
    place = path.resolve() if replace and follow_link else path
    beside = place.with_name(f".hasten-{secrets.token_hex(8)}.new")  # short: the name itself may be as long as allowed
    try:
        with beside.open("xb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        if replace:
            with contextlib.suppress(FileNotFoundError):
                beside.chmod(stat.S_IMODE(place.stat().st_mode))
            beside.replace(place)
        else:
            _name_new(beside, place)
    finally:
        with contextlib.suppress(OSError):
            beside.unlink(missing_ok=True)


def _name_new(beside: Path, place: Path) -> None:
    """Name the file, unless another has the name: a rename would replace it, a link does not."""
    try:
        os.link(beside, place)
    except FileExistsError:
        raise
    except OSError:  # a file system without links
        if os.path.lexists(place):
            raise FileExistsError(place) from None
        beside.replace(place)
