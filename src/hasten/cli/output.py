"""Standard output and standard error: what a command shows, and what becomes of it when nobody can read it."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import textwrap
from typing import Final

from hasten.core.errors import DataError

WIDTH: Final = 80


def prepare_streams() -> None:
    """A terminal or file that knows no µ, and a file name that is no text, become a question mark and not an error.

    Standard output is for `show` alone from then on, which programs may read: what functions of the user print, in
    whatever thread, goes to standard error.
    """
    for stream in (sys.stdout, sys.stderr):
        if reconfigure := getattr(stream, "reconfigure", None):
            reconfigure(errors="replace")
    sys.stdout = sys.stderr


def show(text: str) -> None:
    """Print on standard output, at once. A reader that has gone is a BrokenPipeError, any other trouble a DataError."""
    if sys.__stdout__ is None:  # closed by whoever started the command
        return
    try:
        print(text, file=sys.__stdout__, flush=True)
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
    if sys.__stdout__ is not None:
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.__stdout__.fileno())
