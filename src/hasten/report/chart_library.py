"""The JavaScript of the charts' library, taken from its package; or the sentence to say where it is missing."""

from __future__ import annotations

import functools
from typing import Final

MISSING: Final = "This report has no charts, only their numbers. Run pip install 'hasten[report]' to get charts."
# Only what the page calls, under one name.
_SNIPPET: Final = "window.hastenEmbed = vegaEmbed;"


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
