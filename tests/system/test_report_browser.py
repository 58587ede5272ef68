"""The report in a real browser: Chromium, driven by Playwright, judged by axe-core."""

from __future__ import annotations

import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Any, Final

import pytest
from commandline import ROOT, hasten

from hasten.report.live import serve

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Browser, Page

_GENERATOR: Final = ROOT / "tests" / "unit" / "report" / "tune_session.py"
_CHROMIUM: Final = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), "")
_HOSTILE: Final = "</script><img src=http://127.0.0.1:9/x onerror=document.title='owned'>.tflite"
_PATIENCE_MS: Final = 60_000

pytestmark = pytest.mark.skipif(not _CHROMIUM, reason="no Chromium on this machine: the report is not looked at")


def make_session(path: Path, trials: int, name: str = "mobilenet_v2.tflite") -> Path:
    command = [sys.executable, str(_GENERATOR), str(path), "--trials", str(trials), "--name", name]
    subprocess.run(command, check=True)
    return path


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    session = make_session(folder / "session.jsonl", 60, _HOSTILE)
    assert hasten("report", session, "-o", folder / "report.html").code == 0
    return folder / "report.html"


@pytest.fixture(scope="module")
def short_report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every section, and no more rows than it needs: axe looks at each element."""
    folder = tmp_path_factory.mktemp("short")
    session = make_session(folder / "session.jsonl", 16)
    assert hasten("report", session, "-o", folder / "report.html").code == 0
    return folder / "report.html"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright.sync_playwright() as driver:
        found = driver.chromium.launch(executable_path=_CHROMIUM, args=["--no-sandbox"])
        yield found
        found.close()


class Visit:
    """A page in the browser, and everything it complained about or asked for."""

    def __init__(self, browser: Browser, address: str, width: int = 1280, scheme: Any = "light") -> None:
        self.context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        self.page: Page = self.context.new_page()
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", lambda entry: self.complaints.append(f"{entry.type}: {entry.text}"))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(address)
        self.page.wait_for_selector("html[data-ready]", timeout=_PATIENCE_MS)

    def __enter__(self) -> Visit:
        return self

    def __exit__(self, *_: object) -> None:
        self.context.close()

    def number(self, expression: str) -> float:
        found: float = self.page.evaluate(expression)
        return found


@pytest.mark.parametrize("width", [380, 1600])
def test_it_draws_everything_and_asks_for_nothing(browser: Browser, report: Path, width: int) -> None:
    with Visit(browser, report.as_uri(), width) as visit:
        assert visit.complaints == []
        assert visit.requests == [report.as_uri()]
        assert visit.page.title() != "owned"
        assert visit.number("document.documentElement.scrollWidth") <= width
        drawings = visit.page.query_selector_all("[data-chart]")
        assert len(drawings) == 10
        for drawing in drawings:
            name = drawing.get_attribute("data-chart")
            assert len(drawing.query_selector_all("svg path, svg text")) > 10, name
            box, place = drawing.query_selector("svg"), drawing.bounding_box()
            size = box.bounding_box() if box else None
            assert size is not None, name
            assert place is not None
            assert size["width"] <= place["width"] + 1, name
            assert size["height"] > 60, name


@pytest.mark.parametrize("scheme", ["light", pytest.param("dark", marks=pytest.mark.slow)])
def test_axe_finds_nothing_serious(browser: Browser, short_report: Path, scheme: str) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is not installed")
    with Visit(browser, short_report.as_uri(), 1280, scheme) as visit:
        # The second profile's table is as the first one's, and twice the work.
        tables = "details:not(#profile-tree-1-numbers)"
        visit.page.evaluate(f"document.querySelectorAll('{tables}').forEach((details) => (details.open = true))")
        found = axe.Axe().run(visit.page).response["violations"]
    serious = [
        f"{entry['id']}: {entry['nodes'][0]['html'][:120]}"
        for entry in found
        if entry["impact"] in ("serious", "critical")
    ]
    assert serious == []


def test_dark_mode_and_paper_change_the_colours_of_charts_too(browser: Browser, report: Path) -> None:
    ink = "getComputedStyle(document.querySelector('#front-plot .role-axis-label text')).fill"
    with Visit(browser, report.as_uri(), 1280, "dark") as visit:
        dark = visit.page.evaluate(ink)
        visit.page.emulate_media(media="print", color_scheme="dark")
        paper = visit.page.evaluate(ink)
        visit.page.emulate_media(media="screen", color_scheme="light")
        light = visit.page.evaluate(ink)
    assert dark != light
    assert paper == light


def test_tables_sort_and_filter_by_keyboard(browser: Browser, report: Path) -> None:
    latencies = """[...document.querySelectorAll('#trials-table tbody tr')]
        .filter((row) => !row.hidden).map((row) => row.cells[2].dataset.sort).filter(Boolean).map(Number)"""
    with Visit(browser, report.as_uri()) as visit:
        page = visit.page
        page.focus("#trials-table thead th:nth-child(3) button")
        page.keyboard.press("Enter")
        assert page.get_attribute("#trials-table thead th:nth-child(3)", "aria-sort") == "ascending"
        rising = page.evaluate(latencies)
        assert rising == sorted(rising)
        assert len(rising) > 20
        page.keyboard.press("Space")
        assert page.get_attribute("#trials-table thead th:nth-child(3)", "aria-sort") == "descending"
        assert page.evaluate(latencies) == rising[::-1]
        page.focus("#trials-table-filter")
        page.keyboard.type("static_wi8_ai8 2 threads")
        shown = page.evaluate(latencies)
        assert 0 < len(shown) < len(rising) / 2
        assert "of 60 rows" in (page.text_content("#trials-table-count") or "")
        page.fill("#trials-table-filter", "")
        page.select_option("#trials-table-filter-status", "chosen")
        assert len(page.evaluate(latencies)) == 1


def test_the_first_tab_skips_to_the_report(browser: Browser, report: Path) -> None:
    with Visit(browser, report.as_uri()) as visit:
        visit.page.keyboard.press("Tab")
        assert visit.page.evaluate("document.activeElement.textContent") == "Skip to the report"
        visit.page.keyboard.press("Enter")
        assert visit.page.evaluate("document.activeElement.id") == "report"


@pytest.mark.slow
def test_five_hundred_trials_open_in_a_file_of_modest_size(browser: Browser, tmp_path: Path) -> None:
    session, page = make_session(tmp_path / "s.jsonl", 500), tmp_path / "r.html"
    assert hasten("report", session, "-o", page).code == 0
    assert page.stat().st_size <= 6_000_000
    with Visit(browser, page.as_uri()) as visit:
        assert visit.complaints == []
        assert visit.number("document.querySelectorAll('#trials-table tbody tr').length") == 500


def test_a_live_page_takes_in_what_comes_and_keeps_what_the_reader_did(browser: Browser, tmp_path: Path) -> None:
    session = make_session(tmp_path / "s.jsonl", 30)
    everything = session.read_bytes().splitlines(keepends=True)
    session.write_bytes(b"".join(everything[:20]))
    with serve(session) as server, Visit(browser, server.url) as visit:
        page = visit.page
        assert "No verdict yet" in (page.text_content("h1") or "")
        page.fill("#trials-table-filter", "float16")
        page.click("#trials-table thead th:nth-child(3) button")
        session.write_bytes(b"".join(everything))
        page.wait_for_selector("h1:has-text('times faster')", timeout=_PATIENCE_MS)
        assert page.input_value("#trials-table-filter") == "float16"
        assert page.get_attribute("#trials-table thead th:nth-child(3)", "aria-sort") == "ascending"
        page.wait_for_selector("#front-plot svg", timeout=_PATIENCE_MS)
        assert visit.complaints == []
        assert {url.split("?")[0] for url in visit.requests} == {server.url, f"{server.url}content"}
