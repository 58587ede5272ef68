"""Reports of sessions."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from hasten.core.session import read_session

if TYPE_CHECKING:
    import os


def session_report(session: str | os.PathLike[str], form: str = "html") -> str:
    """The report of a session file as text: `html`, `md` or `json`."""
    from hasten.report.forms import report_text

    path = Path(session)
    return report_text(read_session(path), form, path.name)
