"""The report as Markdown, as a pull request shows it: the verdict, the numbers, and long tables folded away."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hasten.core.units import several
from hasten.report.summary import summarize
from hasten.show.markdown import plain, section_lines, table_lines

if TYPE_CHECKING:
    from hasten.core.session import Session


def markdown_report(session: Session, *, source: str = "") -> str:
    """A session as Markdown."""
    summary = summarize(session, source)
    lines = [f"# {plain(summary.headline)}", "", f"hasten report for **{plain(summary.title)}**"]
    if summary.state in ("interrupted", "unfinished"):
        lines += ["", f"*The session is {summary.state}. This is what there is so far.*"]
    if summary.lost_lines:
        lines += ["", f"*{several(summary.lost_lines, 'line')} of the session file could not be read.*"]
    for warning in summary.warnings:
        lines += ["", f"*{plain(warning)}*"]
    if summary.facts:
        rows = [(fact.title, fact.value, fact.before, fact.note) for fact in summary.facts]
        lines += ["", *table_lines(("", "", "", ""), [tuple(map(plain, row)) for row in rows])]
    for section in summary.sections:
        lines += ["", *section_lines(section)]
    return "\n".join(lines).rstrip() + "\n"
