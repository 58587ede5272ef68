"""Standard output and standard error: what a command shows, and what becomes of it when nobody can read it."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import textwrap
from typing import TYPE_CHECKING, Final, TextIO

from hasten.core.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Iterator

WIDTH: Final = 80
_kept: Final[list[TextIO | None]] = []
"""Standard output, while `own_output` keeps it from others."""


def prepare_streams() -> None:
    """A terminal or file that knows no µ, and a file name that is no text, become a question mark and not an error."""
    for stream in (sys.stdout, sys.stderr):
        if reconfigure := getattr(stream, "reconfigure", None):
            reconfigure(errors="replace")


@contextlib.contextmanager
def own_output() -> Iterator[None]:
    """Standard output is for `show` alone meanwhile, as programs may read it: what functions of the user print, in
    whatever thread, goes to standard error."""
    _kept.append(sys.stdout)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        _kept.pop()


def show(text: str) -> None:
    """Print on standard output, at once. A reader that has gone is a BrokenPipeError, any other trouble a DataError."""
    stream = _output()
    if stream is None:  # closed by whoever started the command
        return
    try:
        print(text, file=stream, flush=True)
    except BrokenPipeError:
        raise
    except OSError as error:
        _silence_output()
        raise DataError(f"the output cannot be written: {error.strerror}") from error


def give_up_output() -> None:
    """Nobody reads any more: drop what is still buffered, which Python would else complain about on its way out."""
    _silence_output()


def complain(message: str, hint: str) -> None:
    """What went wrong and what to try, on standard error; wrapped on a terminal, in one line each elsewhere."""
    sentence, *log = f"hasten: {message}".split("\n")
    lines = [*_wrapped(sentence, ""), *log, *(_wrapped(hint, "  ") if hint else ())]
    with contextlib.suppress(OSError):
        print("\n".join(lines), file=sys.stderr)


def watched() -> bool:
    """Whether a person looks at standard error."""
    return sys.stderr is not None and sys.stderr.isatty()


def _wrapped(text: str, indent: str) -> list[str]:
    if not watched():
        return [indent + text]
    width = max(40, shutil.get_terminal_size((WIDTH, 24)).columns)
    return textwrap.wrap(
        text, width, initial_indent=indent, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
    )


def _silence_output() -> None:
    stream = _output()
    if stream is not None:
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _output() -> TextIO | None:
    return _kept[-1] if _kept else sys.stdout
