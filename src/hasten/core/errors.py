"""The one exception tree of hasten. Only `cli` turns an error into an exit code.

HastenError
├── UsageError         2  the command or the call was wrong
├── ModelError         3  the model file cannot be used
├── DataError          3  the data cannot be used
├── TargetError        4  the device or its runner is in trouble
└── AcceleratorError   4  the accelerator is missing or failed
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from hasten.core.printable import printable, with_log

if TYPE_CHECKING:
    from collections.abc import Iterable


class HastenError(Exception):
    """Something a user can act on: what failed, on what, and what to try."""

    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, hint: str = "", *, code: str = "", log: Iterable[str] = ()) -> None:
        # Messages name tensors, classes and files, and end on a terminal, whoever catches them.
        self.sentence = printable(message)
        self.log = tuple(map(printable, log))
        """The last lines of a runner."""
        self.message = with_log(self.sentence, self.log)
        """Both of them."""
        super().__init__(self.message)
        self.hint = printable(hint)
        self.found: Any = None
        """What was found before it, where that is of use: an error of writing costs no measurement."""
        self.code = code
        """What callers decide by, in place of the message: see `core.failure`."""


class Interrupted(KeyboardInterrupt):
    """Ctrl-C came after something was found. It is no error of ours, and carries what there is."""

    def __init__(self, found: Any) -> None:
        super().__init__()
        self.found = found


class UsageError(HastenError):
    """The command or the call was wrong."""

    exit_code = 2


class ModelError(HastenError):
    """The model file cannot be read, is damaged, or needs what the engine does not have."""

    exit_code = 3


class DataError(HastenError):
    """The data cannot be read, or does not fit the model."""

    exit_code = 3


class TargetError(HastenError):
    """The device cannot be reached, or its runner is in trouble."""

    exit_code = 4


class AcceleratorError(HastenError):
    """The accelerator is missing, refused the model, or failed."""

    exit_code = 4
