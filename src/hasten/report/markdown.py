"""The report as Markdown, as a pull request shows it: the verdict, the numbers, and long tables folded away."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hasten.report.document.build import sections_of
from hasten.report.summary.build import summarise
from hasten.show.markdown import plain, section_lines, table_lines

if TYPE_CHECKING:
    from hasten.core.session import Session


def markdown_report(session: Session, *, source: str = "") -> str:
    """A session as Markdown."""
    summary = summarise(session, source)
    lines = [f"# {plain(summary.headline)}", "", f"hasten report for **{plain(summary.title)}**"]
    if summary.state in ("interrupted", "unfinished"):
        lines += ["", f"*{summary.state}: this is what there is so far.*"]
    if summary.lost_lines:
        lines += ["", f"*{summary.lost_lines} lines of the session file could not be read.*"]
    for warning in summary.warnings:
        lines += ["", f"*{plain(warning)}*"]
    if summary.facts:
        rows = [(fact.title, fact.value, fact.before, fact.note) for fact in summary.facts]
        lines += ["", *table_lines(("", "", "", ""), [tuple(map(plain, row)) for row in rows])]
    for section in sections_of(summary):
        lines += ["", *section_lines(section)]
    return "\n".join(lines).rstrip() + "\n"
