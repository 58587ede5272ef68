"""The forms of a report, all from the same summary: HTML, Markdown, JSON, and its charts as pictures."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from hasten.core.errors import UsageError
from hasten.core.session import damage_as_error
from hasten.core.units import several
from hasten.report.summary import summarize
from hasten.show.blocks import charts_of
from hasten.show.charts import PALETTES, WIDTH, colored
from hasten.show.markdown import plain, section_lines, table_lines

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hasten.core.session import Session

TEXTS: Final = ("html", "md", "json")
PICTURES: Final = ("png", "svg")
_SHARPNESS: Final = 2.0


def report_text(session: Session, form: str = "html", source: str = "") -> str:
    """A session as text in one of the forms."""
    refuse_form(form)
    with damage_as_error(source):
        if form == "html":
            from hasten.report.page import html_report

            return html_report(session, source=source)
        if form == "md":
            return markdown_report(session, source=source)
        return json.dumps(summarize(session, source).as_data(), indent=2, allow_nan=False)


def refuse_form(form: str) -> None:
    """Refuse a form that no report has."""
    if form not in TEXTS:
        raise UsageError(f"There is no report in the form {form!r}.", f"Use one of: {', '.join(TEXTS)}.")


def markdown_report(session: Session, *, source: str = "") -> str:
    """A session as Markdown."""
    summary = summarize(session, source)
    lines = [f"# {plain(summary.headline)}", "", f"hasten report for **{plain(summary.title)}**"]
    if summary.state in ("interrupted", "unfinished"):
        lines += ["", f"*The session is {summary.state}. This report shows what is known so far.*"]
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


def pictures(session: Session, form: str, source: str = "") -> Iterator[tuple[str, bytes]]:
    """(file name, content) of each chart, one after the other as they are drawn."""
    if form not in PICTURES:
        raise UsageError(f"There are no pictures in the form {form!r}.", f"Use one of: {', '.join(PICTURES)}.")
    try:
        import vl_convert
    except ImportError:
        raise UsageError("Pictures need the package vl-convert-python.", "Run pip install 'hasten[report]'.") from None
    with damage_as_error(source):
        charts = list(charts_of(summarize(session).sections))
    for chart in charts:
        spec = json.dumps(picture_spec(chart.spec))
        vega = spec if "marks" in chart.spec else json.dumps(vl_convert.vegalite_to_vega(spec))
        if form == "svg":
            yield f"{chart.name}.svg", vl_convert.vega_to_svg(vega).encode()
        else:
            yield f"{chart.name}.png", vl_convert.vega_to_png(vega, scale=_SHARPNESS)


def picture_spec(spec: dict[str, Any]) -> dict[str, Any]:
    """A chart's specification with real colors, a width of its own and paper behind it."""
    drawn: dict[str, Any] = colored(spec, PALETTES["light"])
    drawn = {**drawn, "background": PALETTES["light"]["paper"], "width": WIDTH, "padding": 12}
    if "signals" in drawn:
        drawn["signals"] = [signal for signal in drawn["signals"] if signal["name"] != "width"]
    return drawn
