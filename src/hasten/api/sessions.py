"""Session files: read, and shown as a report."""

from __future__ import annotations

import pathlib
from typing import TYPE_CHECKING

from hasten.measure.arguments import checked

if TYPE_CHECKING:
    import contextlib
    from collections.abc import Iterator

    from hasten.api.border import Path
    from hasten.core.session import Session
    from hasten.report.live import Serving


def read_session(path: Path) -> Session:
    """What a session file holds, as far as it can be read."""
    from hasten.core.session import read_session as read

    return read(pathlib.Path(path))


@checked
def session_report(session: Path | Session, form: str = "html", source: str = "") -> str:
    """The report of a session as text: `html`, `md` or `json`."""
    from hasten.core.session import Session
    from hasten.report.forms import refuse_form, report_text

    refuse_form(form)
    if isinstance(session, Session):
        return report_text(session, form, source)
    return report_text(read_session(session), form, source or pathlib.Path(session).name)


def session_pictures(session: Session, form: str, source: str = "") -> Iterator[tuple[str, bytes]]:
    """The charts of a session's report, one after the other as they are drawn: file name and content."""
    from hasten.report.forms import pictures

    return pictures(session, form, source)


def serve_report(session: Path, port: int = 0) -> contextlib.AbstractContextManager[Serving]:
    """Serve the report of a session file on this machine while it grows; port 0 takes a free one."""
    from hasten.report.live import serve

    return serve(pathlib.Path(session), port)


def has_charts() -> bool:
    """Whether the package is there that draws the charts of a report."""
    from hasten.report.page import chart_library

    return bool(chart_library())
