"""The forms that a report has as text: HTML, Markdown and JSON, all from the same summary."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from hasten.core.errors import UsageError
from hasten.report.summary import summarize

if TYPE_CHECKING:
    from hasten.core.session import Session

TEXTS: Final = ("html", "md", "json")


def report_text(session: Session, form: str = "html", source: str = "") -> str:
    """A session as text in one of the forms."""
    if form == "html":
        from hasten.report.page import html_report

        return html_report(session, source=source)
    if form == "md":
        from hasten.report.markdown import markdown_report

        return markdown_report(session, source=source)
    if form == "json":
        return json.dumps(summarize(session, source).as_data(), indent=2, allow_nan=False)
    raise UsageError(f"There is no report in the form {form!r}.", f"Use one of: {', '.join(TEXTS)}.")
