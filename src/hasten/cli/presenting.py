"""A result as the user asked for it: on the terminal, or as the one JSON document; and into the session file."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Final, TypeVar

from hasten.cli.output import WIDTH, complain, show
from hasten.core.errors import Interrupted

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from hasten.core.session import SessionWriter

T = TypeVar("T")
INTERRUPTED: Final = 130
_WIDEST: Final = 160


def completed(measure: Callable[[], T]) -> tuple[T, bool]:
    """What was found, and whether Ctrl-C cut it short."""
    try:
        return measure(), False
    except Interrupted as interrupted:
        complain("Interrupted. This is what was measured until then.", "")
        found: T = interrupted.found
        return found, True


def present(
    arguments: argparse.Namespace, found: object, *, session: SessionWriter | None = None, interrupted: bool = False
) -> int:
    """Save and show a record; the exit code."""
    from hasten import api
    from hasten.cli.options import as_json
    from hasten.show.terminal import terminal_text

    if session is not None:
        for line in api.session_lines(found):
            session.add(*line)
    if arguments.json:
        show(as_json(api.document(found)))
    else:
        width = max(WIDTH, min(_WIDEST, shutil.get_terminal_size((WIDTH, 24)).columns))
        show(terminal_text(api.blocks(found), width=width, verbose=arguments.verbose))
    return INTERRUPTED if interrupted else 0
