"""The page: Session → one HTML text. Its security policy lets only its own scripts run and nothing be loaded."""

from __future__ import annotations

import base64
import functools
import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from hasten.core.units import several
from hasten.report.summary import summarize
from hasten.show.blocks import charts_of
from hasten.show.charts import PALETTES, colored
from hasten.show.html import Html, element, heading, joined, script_json, section_html

if TYPE_CHECKING:
    from hasten.core.session import Session
    from hasten.report.headline import Fact
    from hasten.report.summary import Summary
    from hasten.show.blocks import Section

MISSING: Final = "This report has no charts, only their numbers. Run pip install 'hasten[report]' to get charts."
# Only what the page calls, under one name.
_SNIPPET: Final = "window.hastenEmbed = vegaEmbed;"
_HERE: Final = Path(__file__).parent
_STATES: Final = {
    "interrupted": "The session was interrupted. This is what was found until then.",
    "unfinished": "The session is not finished. This report shows what is known so far.",
}
# Colors by name: the page's styles say what they are, so that dark mode and paper need no drawing again.
_BY_STYLE: Final = {name: f"var(--chart-{name})" for name in PALETTES["light"]}


def html_report(session: Session, *, source: str = "") -> str:
    """A session as one HTML file that needs nothing else."""
    return whole_page(summarize(session, source))


def whole_page(summary: Summary, signature: str = "") -> str:
    """The page; with a signature one that asks its server for newer content from time to time."""
    body, specs = content(summary)
    script = (_HERE / "page.js").read_text(encoding="utf-8")
    # A live page may have no chart yet, and get some later.
    library = chart_library() if specs or signature else ""
    head = [
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=_policy([library, script], bool(signature))),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("title", f"{summary.title}: hasten report"),
        element("link", rel="icon", href="data:,"),
        element("style", Html(_palette_css() + (_HERE / "styles.css").read_text(encoding="utf-8"))),
    ]
    parts = [
        element("a", "Skip to the report", href="#report", class_="skip"),
        element("div", body, id="page"),
        element("p", id="live-status", role="status", class_="live-status", hidden=not signature),
        element("script", Html(script_json(specs)), type="application/json", id="chart-specs"),
        *([element("script", Html(library))] if library else []),
        element("script", Html(script)),
    ]
    page = element(
        "html", element("head", joined(head)), element("body", joined(parts), data_live=signature or None), lang="en"
    )
    return f"<!DOCTYPE html>\n{page}\n"


def content(summary: Summary) -> tuple[Html, dict[str, Any]]:
    """What changes as a session grows: the page between its scripts, and the charts' specifications."""
    sections = summary.sections
    charts = bool(chart_library())
    names = {section.name for section in sections}
    inside = [section_html(section, names, charts=charts) for section in sections]
    specs = {chart.name: colored(chart.spec, _BY_STYLE) for chart in charts_of(sections)} if charts else {}
    body = [
        _header(summary, without_charts=bool(charts_of(sections)) and not charts),
        element(
            "div",
            joined([_contents(sections), element("main", joined(inside), id="report", tabindex="-1")]),
            class_="columns",
        ),
        _footer(summary),
    ]
    return joined(body), specs


def _header(summary: Summary, *, without_charts: bool) -> Html:
    notes = [_STATES[summary.state]] if summary.state in _STATES else []
    if summary.lost_lines:
        notes.append(
            f"{several(summary.lost_lines, 'line')} of the session file could not be read. All others are here."
        )
    notes += summary.warnings
    notes += [MISSING] if without_charts else []
    inside = [
        element("p", "hasten report for ", element("strong", summary.title), class_="kicker"),
        element("h1", heading(summary.headline)),
        *(element("p", note, class_="notice") for note in notes),
    ]
    if summary.facts:
        inside.append(element("dl", joined([_tile(fact) for fact in summary.facts]), class_="tiles"))
    return element("header", joined(inside), class_="top")


def _tile(fact: Fact) -> Html:
    inside = [element("dt", fact.title), element("dd", fact.value, class_="value")]
    inside += [element("dd", text, class_="note") for text in (fact.before, fact.note) if text]
    return element("div", joined(inside))


def _contents(sections: list[Section]) -> Html:
    links = [element("li", element("a", section.title, href=f"#{section.name}")) for section in sections]
    inside = element(
        "details", element("summary", "On this page"), element("ol", joined(links)), open=True, id="contents"
    )
    return element("nav", inside, aria_label="On this page")


def _footer(summary: Summary) -> Html:
    origin = f"Made from {summary.source}. " if summary.source else ""
    words = f"{origin}Intervals have 95 % confidence. Latency is the median of undisturbed runs in fresh processes."
    return element("footer", element("p", words))


def _policy(scripts: list[str], live: bool) -> str:
    hashes = " ".join(f"'sha256-{_digest(script)}'" for script in scripts if script)
    connect = " connect-src 'self';" if live else ""
    return (
        f"default-src 'none'; script-src {hashes};{connect} style-src 'unsafe-inline'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def _digest(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


def _palette_css() -> str:
    light, dark = (
        "".join(f"--chart-{name}:{color};" for name, color in PALETTES[mode].items()) for mode in ("light", "dark")
    )
    return f":root{{{light}}}\n@media screen and (prefers-color-scheme: dark){{:root{{{dark}}}}}\n"


@functools.cache
def chart_library() -> str:
    """Vega-Embed, Vega-Lite and Vega as one script; empty where the package is not installed."""
    try:
        import vl_convert
    except ImportError:
        return ""
    script: str = vl_convert.javascript_bundle(_SNIPPET)
    # A script element ends at this text, even inside a string of the script.
    return script.replace("</script", "<\\/script").replace("<!--", "<\\!--")
