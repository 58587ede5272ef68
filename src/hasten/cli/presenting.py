"""A result as the user asked for it: on the terminal, or as the one JSON document; and into the session file."""

from __future__ import annotations

import contextlib
import shutil
import sys
from typing import TYPE_CHECKING, Any, Final, TypeVar

from hasten.cli.ending import INTERRUPTED
from hasten.cli.output import WIDTH, complain, show
from hasten.cli.unsaved import UNSAVED
from hasten.core.errors import HastenError, Interrupted
from hasten.core.printable import printable

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator

    from hasten.core.session import SessionWriter

T = TypeVar("T")
_WIDEST: Final = 160


def completed(measure: Callable[[], T], hint: str = "") -> tuple[T, bool]:
    """What was found, and whether Ctrl-C cut it short; the hint then says how to go on.

    An error that carries what was found waits until that was shown.
    """
    try:
        return measure(), False
    except Interrupted as interrupted:
        complain("Interrupted. This is what was measured until then.", hint)
        found: T = interrupted.found
        return found, True
    except HastenError as error:
        if error.found is None:
            raise
        UNSAVED.add(error)
        found = error.found
        return found, False


@contextlib.contextmanager
def recorded(session: SessionWriter | None, label: str) -> Iterator[None]:
    """Let the session file keep a failure, or what was measured before Ctrl-C, marked as such."""
    from hasten import api

    try:
        yield
    except HastenError as error:
        if session is not None:
            with UNSAVED.deferred():
                session.add("failure", label, {"message": error.message, "hint": error.hint})
        raise
    except Interrupted as interrupted:
        if session is not None:
            with UNSAVED.deferred():
                for kind, _, data in api.session_lines(interrupted.found):
                    session.add(kind, label, {**data, "interrupted": True})
        raise


def present(
    arguments: argparse.Namespace,
    found: object,
    *,
    session: SessionWriter | None = None,
    interrupted: bool = False,
    on_error_stream: bool = False,
    **options: Any,
) -> int:
    """Save and show a record, as text with the options of its view; the exit code.

    Text goes to standard error where standard output is somebody else's. Another device than this machine is named.
    """
    from hasten import api
    from hasten.cli.options import as_json

    keep(session, found)
    device = getattr(arguments, "target", "")
    if arguments.json:
        show(as_json({**api.document(found), **({"target": device} if device else {})}))
    elif on_error_stream:
        with contextlib.suppress(OSError):
            print(f"\n{shown(found, verbose=arguments.verbose, **options)}", file=sys.stderr, flush=True)
    else:
        show(shown(found, verbose=arguments.verbose, **options))
        if device not in ("", "local"):
            show(f"\nMeasured on {printable(device)}.")
    return INTERRUPTED if interrupted else 0


def keep(session: SessionWriter | None, found: object, label: str = "") -> None:
    """Save a record, under another label than its own if one is given."""
    from hasten import api

    if session is not None:
        with UNSAVED.deferred():
            for kind, own, data in api.session_lines(found):
                session.add(kind, label or own, data)


def shown(found: object, *, verbose: bool, **options: Any) -> str:
    """A record as text for this terminal."""
    from hasten import api
    from hasten.show.terminal import terminal_text

    width = max(WIDTH, min(_WIDEST, shutil.get_terminal_size((WIDTH, 24)).columns))
    return terminal_text(api.blocks(found, **options), width=width, verbose=verbose)
