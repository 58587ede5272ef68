"""Trouble with a file that is not itself the result: the result is shown first, then what could not be written."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final

from hasten.cli.output import complain
from hasten.core.errors import HastenError

if TYPE_CHECKING:
    from collections.abc import Iterator


class Unsaved:
    """The errors that wait until a command has shown what it found."""

    def __init__(self) -> None:
        self._errors: list[HastenError] = []

    @contextlib.contextmanager
    def deferred(self) -> Iterator[None]:
        """Keep an error of this block for the end of the command, so that a full disk costs no measurement."""
        try:
            yield
        except HastenError as error:
            self.add(error)

    def add(self, error: HastenError) -> None:
        """Keep an error for the end of the command."""
        self._errors.append(error)

    def told(self, code: int) -> int:
        """Say what could not be written, each file once; the exit code is the first error's unless the command has one
        of its own."""
        errors = list({error.sentence: error for error in self._errors}.values())
        self._errors.clear()
        for error in errors:
            complain(error.sentence, error.hint, error.log)
        return code or (errors[0].exit_code if errors else 0)


UNSAVED: Final = Unsaved()
