"""Standard output and standard error: what a command shows, and how it ends when the reader closes the pipe."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import textwrap
from typing import TYPE_CHECKING, Final, TextIO

from hasten.core.errors import DataError
from hasten.core.printable import LOG_INDENT, printable, printable_lines, with_log

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

WIDTH: Final = 80
_STDOUT: Final = 1
_STDERR: Final = 2
_kept: Final[list[TextIO | None]] = []
"""Standard output, while `own_output` keeps it from others."""


def prepare_streams() -> None:
    """Replace characters that the stream cannot encode with '?'."""
    for stream in (sys.stdout, sys.stderr):
        if reconfigure := getattr(stream, "reconfigure", None):
            reconfigure(errors="replace")


@contextlib.contextmanager
def own_output() -> Iterator[None]:
    """Standard output is for `show` alone meanwhile, as programs may read it: what functions of the user print, in
    whatever thread, and what C code in this process writes, goes to standard error."""
    with _kept_apart(sys.stdout) as stream:
        _kept.append(stream)
        try:
            with contextlib.redirect_stdout(sys.stderr):
                yield
        finally:
            _kept.pop()


def program_output() -> int | None:
    """The descriptor of standard output, for a program that writes there itself; None where it has none of its own."""
    return _descriptor_of(_output())


def show(text: str) -> None:
    """Print on standard output, at once. A reader that has gone is a BrokenPipeError, any other trouble a DataError."""
    stream = _output()
    if stream is None:  # closed by whoever started the command
        return
    try:
        print(printable_lines(text), file=stream, flush=True)
    except BrokenPipeError:
        raise
    except OSError as error:
        _silence_output()
        raise DataError(f"The output cannot be written: {error.strerror}.") from error


def give_up_output() -> None:
    """Discard buffered output after the reader closed the pipe."""
    _silence_output()


def complain(sentence: str, hint: str, log: Sequence[str] = ()) -> None:
    """What went wrong and what to try, on standard error; wrapped on a terminal, in one line each elsewhere."""
    sentence, *log = with_log(f"hasten: {sentence}", log).split("\n")
    told = [part for line in log for part in _wrapped(line.removeprefix(LOG_INDENT), LOG_INDENT)]
    lines = [*_wrapped(sentence, ""), *told, *(_wrapped(printable(hint), "  ") if hint else ())]
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
        text,
        width,
        initial_indent=indent,
        subsequent_indent=indent or "  ",
        break_long_words=False,
        break_on_hyphens=False,
    )


def _silence_output() -> None:
    stream = _output()
    if stream is not None:
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


@contextlib.contextmanager
def _kept_apart(stream: TextIO | None) -> Iterator[TextIO | None]:
    """A private duplicate of standard output; what it is duplicated from leads to standard error meanwhile.

    A stream that is not the process's own, as a test may put in its place, is taken as it is.
    """
    if stream is None or _descriptor_of(stream) != _STDOUT:
        yield stream
        return
    stream.flush()
    # First, so that the duplicate does not take the place of a standard error that was closed.
    errors = os.dup(_STDERR) if sys.stderr is not None else os.open(os.devnull, os.O_WRONLY)
    private = os.fdopen(os.dup(_STDOUT), "w", encoding=stream.encoding, errors=stream.errors)
    os.dup2(errors, _STDOUT)
    os.close(errors)
    try:
        yield private
    finally:
        _flush_c_streams()
        os.dup2(private.fileno(), _STDOUT)
        with contextlib.suppress(OSError):  # its reader may have gone; whoever cares has been told
            private.close()


def _descriptor_of(stream: TextIO | None) -> int | None:
    try:
        return None if stream is None else stream.fileno()
    except (OSError, ValueError):  # it has none, or is closed
        return None


def _flush_c_streams() -> None:
    """Flush C stdio before standard output is restored."""
    import ctypes

    with contextlib.suppress(OSError, AttributeError, TypeError):  # where there is no such library, as on Windows
        ctypes.CDLL(None).fflush(None)


def _output() -> TextIO | None:
    return _kept[-1] if _kept else sys.stdout
