"""The picture of a report in the README: the top of a page as a browser of 1280 pixels shows it, in at most 300 kB.

python scripts/report_picture.py tuned/report.html docs/report.png
"""

from __future__ import annotations

import io
import shutil
import sys
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

_WIDTH, _HEIGHT = 1280, 1000
_MOST_BYTES = 300_000
_COLOURS = 128


def main(report: Path, picture: Path) -> int:
    """Take the picture, and make it as small as flat colors allow."""
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))))
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": _WIDTH, "height": _HEIGHT})
        page.goto(report.resolve().as_uri())
        page.wait_for_selector("html[data-ready]", state="attached")
        raw = page.screenshot()
        browser.close()
    picture.parent.mkdir(parents=True, exist_ok=True)
    Image.open(io.BytesIO(raw)).convert("RGB").quantize(_COLOURS).save(picture, optimize=True)
    size = picture.stat().st_size
    print(f"{picture}: {size / 1e3:.0f} kB")
    return 0 if size <= _MOST_BYTES else 1


if __name__ == "__main__":
    sys.exit(main(*map(Path, sys.argv[1:3])))
