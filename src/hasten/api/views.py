"""Records as a user meets them: blocks, JSON, Markdown, and lines of a session."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from hasten.show.blocks import Block

# Records that have no `view` beside their module → the module that shows them.
_VIEWS: Final = {
    "ComparisonResult": "hasten.report.timing",
    "Measurement": "hasten.report.timing",
    "Prediction": "hasten.report.prediction",
    "Profile": "hasten.practices.profile.view",
    "SustainedFound": "hasten.report.timing",
}


def blocks(found: object, **options: Any) -> list[Block]:
    """What a record shows: the same blocks on a terminal, on a page and in Markdown. Some views have options."""
    shown: list[Block] = _view_of(found).view(found, **options)
    return shown


def document(found: object) -> dict[str, Any]:
    """The JSON document of a record, as `--json` prints it."""
    data: dict[str, Any] = _view_of(found).document(found)
    return data


def markdown(found: object) -> str:
    """A record as Markdown, as a pull request shows it."""
    from hasten.show.markdown import block_lines

    own = getattr(_view_of(found), "markdown", None)
    return str(own(found)) if own else "\n".join(block_lines(blocks(found)))


def session_lines(found: object) -> list[tuple[str, str, dict[str, Any]]]:
    """The lines of a session file (kind, label, data) that keep a record: its facts, and the finding that follows."""
    lines: list[tuple[str, str, dict[str, Any]]] = _view_of(found).session_lines(found)
    return lines


def _view_of(found: object) -> Any:
    """The `view` in the folder of the record's `facts`, or the one named above."""
    folder, _, _ = type(found).__module__.rpartition(".")
    return importlib.import_module(_VIEWS.get(type(found).__name__, f"{folder}.view"))
