"""The report's charts as pictures: drawn by the same library as on the page, without a browser."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from hasten.core.errors import UsageError
from hasten.report.summary import summarize
from hasten.show.blocks import charts_of
from hasten.show.charts import PALETTES, WIDTH, coloured

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hasten.core.session import Session

FORMS: Final = ("png", "svg")
_SHARPNESS: Final = 2.0


def pictures(session: Session, form: str) -> Iterator[tuple[str, bytes]]:
    """(file name, content) of each chart, one after the other as they are drawn."""
    if form not in FORMS:
        raise UsageError(f"There are no pictures in the form {form!r}.", f"Use one of: {', '.join(FORMS)}.")
    try:
        import vl_convert
    except ImportError:
        raise UsageError("Pictures need the package vl-convert-python.", "Run pip install 'hasten[report]'.") from None
    for chart in charts_of(summarize(session).sections):
        spec = json.dumps(picture_spec(chart.spec))
        vega = spec if "marks" in chart.spec else json.dumps(vl_convert.vegalite_to_vega(spec))
        if form == "svg":
            yield f"{chart.name}.svg", vl_convert.vega_to_svg(vega).encode()
        else:
            yield f"{chart.name}.png", vl_convert.vega_to_png(vega, scale=_SHARPNESS)


def picture_spec(spec: dict[str, Any]) -> dict[str, Any]:
    """A chart's specification with real colours, a width of its own and paper behind it."""
    drawn: dict[str, Any] = coloured(spec, PALETTES["light"])
    drawn = {**drawn, "background": PALETTES["light"]["paper"], "width": WIDTH, "padding": 12}
    if "signals" in drawn:
        drawn["signals"] = [signal for signal in drawn["signals"] if signal["name"] != "width"]
    return drawn
