"""Report: how long a browser takes to open the report of a session with 500 trials, and how large it is.

Wanted: open (loaded, the charts in sight drawn) in under 2 s, at most 6 MB. Beside it an empty page, in turns, for the
browser's own part. The median of seven lets three disturbed ones go by. Needs Chromium and the contributors' packages.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from playwright.sync_api import sync_playwright

from benchmarks.common import record

if TYPE_CHECKING:
    from playwright.sync_api import Browser

_GENERATOR = Path(__file__).parents[1] / "tests" / "unit" / "report" / "tune_session.py"
_ROUNDS = 7
_MOST_SECONDS = 2.0
_MOST_BYTES = 6_000_000


def main() -> int:
    """Make the report, open it again and again in turns with an empty page, and keep the medians."""
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if chromium is None:
        print("report: no Chromium on this machine, nothing was measured")
        return 1
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        page, empty = Path(folder, "report.html"), Path(folder, "empty.html")
        making = _make(Path(folder, "session.jsonl"), page)
        empty.write_text("<!DOCTYPE html><title>empty</title><p>empty")
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        rounds = [(_open(browser, empty, ""), *_open_and_draw(browser, page)) for _ in range(_ROUNDS)]
        browser.close()
        size = page.stat().st_size
    nothing, opened, everything = (statistics.median(column) for column in zip(*rounds, strict=True))
    figures = {
        "trials": 500,
        "megabytes": round(size / 1e6, 2),
        "making_seconds": round(making, 2),
        "open_seconds": round(opened, 2),
        "all_charts_seconds": round(everything, 2),
        "empty_page_seconds": round(nothing, 2),
        "open_over_empty_page": round(opened / nothing, 1),
    }
    # The load beside it: on a busy machine the browser waits for a core.
    figures["load_average_for_each_core"] = round(os.getloadavg()[0] / (os.cpu_count() or 1), 1)
    return record("report", figures, passed=opened < _MOST_SECONDS and size <= _MOST_BYTES)


def _make(session: Path, page: Path) -> float:
    subprocess.run([sys.executable, str(_GENERATOR), str(session), "--trials", "500"], check=True)
    begin = time.monotonic()
    subprocess.run([sys.executable, "-m", "hasten", "report", str(session), "-o", str(page)], check=True)
    return time.monotonic() - begin


def _open(browser: Browser, path: Path, wanted: str) -> float:
    """Seconds until the page is loaded and what is wanted is there, in a window of its own without a cache."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    window = context.new_page()
    begin = time.monotonic()
    window.goto(path.as_uri(), wait_until="load")
    if wanted:
        window.wait_for_selector(wanted, state="attached")
    seconds = time.monotonic() - begin
    context.close()
    return seconds


def _open_and_draw(browser: Browser, path: Path) -> tuple[float, float]:
    return _open(browser, path, "#front-plot svg"), _open(browser, path, "html[data-ready]")


if __name__ == "__main__":
    sys.exit(main())
