"""`hasten report` as a user calls it, on sessions of other commands."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from commandline import QUICK, ROOT, finish, hasten, interrupt, start

GENERATOR = ROOT / "tests" / "unit" / "report" / "tune_session.py"


@pytest.fixture
def tuned(tmp_path: Path) -> Path:
    path = tmp_path / "session.jsonl"
    subprocess.run([sys.executable, str(GENERATOR), str(path), "--trials", "20"], check=True)
    return path


def test_a_measurement_and_its_report(tmp_path: Path) -> None:
    session, page = tmp_path / "s.jsonl", tmp_path / "report.html"
    measured = hasten("bench", "demo", *QUICK, "--session", session, "--json")
    done = hasten("report", session, "-o", page, "--json")
    assert done.code == 0
    assert done.json()["lines"] >= 2  # each round, and the whole
    assert f"{measured.json()['latency']['median_ms']:.2f}"[:3] in page.read_text()
    before = page.read_bytes()
    assert hasten("report", session, "-o", page).code == 2
    assert page.read_bytes() == before
    assert hasten("report", session, "-o", page, "--format", "md", "--force").code == 0
    assert page.read_text().startswith("# digits.tflite")


def test_a_folder_and_the_forms_that_are_printed(tuned: Path) -> None:
    assert hasten("report", tuned.parent, "--format", "md").output.startswith("# 2.3 times faster")
    assert len(hasten("report", tuned, "--format", "json").json()["verdicts"]) == 9
    page = tuned.parent / "r.md"
    assert hasten("report", tuned, "-o", page).code == 0
    assert page.read_text().startswith("# 2.3 times faster")


def test_pictures_go_into_a_folder_and_replace_nothing(tuned: Path) -> None:
    folder = tuned.parent / "pictures"
    done = hasten("report", tuned, "--format", "svg", "-o", folder, "--json")
    assert done.code == 0
    written = [Path(name) for name in done.json()["written"]]
    assert folder / "front.svg" in written
    assert all(path.read_text().startswith("<svg") for path in written)
    again = hasten("report", tuned, "--format", "svg", "-o", folder)
    assert again.code == 2
    assert "already exists" in again.errors


def test_a_cut_off_session_is_told_of(tuned: Path) -> None:
    tuned.write_bytes(tuned.read_bytes()[:-40])
    done = hasten("report", tuned, "-o", tuned.parent / "r.html", "--json")
    assert done.json()["lost_lines"] == 1
    assert "1 line of the session file could not be read" in (tuned.parent / "r.html").read_text()


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["nothing.jsonl", "-o", "r.html"], 3, "cannot be read"),
        (["README.md", "-o", "r.html"], 3, "not a session file"),
        (["{session}"], 2, "No output file was given"),
        (["{session}", "--format", "png"], 2, "No folder was given"),
        (["{session}", "-o", "no/such/folder/r.html"], 2, "no folder"),
        (["{session}", "-o", "{session}", "--force"], 2, "is the session itself"),
        (["{session}", "--format", "pdf"], 2, "must be one of"),
        (["{session}", "--watch", "--port", "99999"], 2, "65535"),
    ],
)
def test_what_cannot_be_done_is_said(tuned: Path, arguments: list[str], code: int, said: str) -> None:
    (tuned.parent / "README.md").write_text("words")
    before = tuned.read_bytes()
    done = hasten("report", *[text.format(session=tuned) for text in arguments], cwd=tuned.parent)
    assert done.code == code
    assert said in done.errors
    assert tuned.read_bytes() == before


def test_watch_serves_the_page_until_ctrl_c(tuned: Path) -> None:
    process = start("report", tuned, "--watch", "--json")
    assert process.stdout is not None
    document = ""
    while not document.rstrip().endswith("}"):
        document += process.stdout.readline()
    with urllib.request.urlopen(json.loads(document)["url"], timeout=60) as answer:
        assert "2.3 times faster" in answer.read().decode()
    interrupt(process)
    finish(process, 30)
    assert process.returncode == 0
