"""Adding a practice is one folder, one line in the registry and one file in cli/: nothing else needs to know of it."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

import pytest
from commandline import ROOT, hasten

if TYPE_CHECKING:
    from pathlib import Path

TOY = ROOT / "tests" / "data" / "toy_practice"
HERE_ENDS = '    Entry("help", "Help"),\n'


@pytest.fixture(scope="module")
def extended(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment in which hasten has the practice."""
    folder = tmp_path_factory.mktemp("extended")
    package = folder / "hasten"
    shutil.copytree(ROOT / "src" / "hasten", package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(TOY / "weight", package / "practices" / "weight")
    shutil.copy(TOY / "cli.py", package / "cli" / "weight.py")
    registry = package / "practices" / "registry.py"
    text = registry.read_text()
    assert text.count(HERE_ENDS) == 1
    registry.write_text(text.replace(HERE_ENDS, HERE_ENDS + (TOY / "registry_line.txt").read_text()))
    return {"PYTHONPATH": str(folder)}


def test_it_is_in_the_help(extended: dict[str, str]) -> None:
    assert "weight        tell how heavy the model file is" in hasten("--help", environment=extended).output
    assert "hasten weight demo" in hasten("weight", "--help", environment=extended).output


def test_it_is_on_the_terminal_in_json_and_on_the_page(extended: dict[str, str], tmp_path: Path) -> None:
    session, page = tmp_path / "session.jsonl", tmp_path / "report.html"
    shown = hasten("weight", "demo", "--bytes", "1000", environment=extended)
    assert shown.output.startswith("The model weighs 1.43 MB, more than 1.00 kB.")
    found = hasten("weight", "demo", "--json", "--session", session, environment=extended).json()
    assert found["finding"]["verdict"] == "to do"
    assert found["finding"]["what_to_do"] == "Quantize it."
    assert hasten("report", session, "-o", page, environment=extended).code == 0
    assert '<section id="weight"' in page.read_text()
    report = hasten("report", session, "--format", "json", environment=extended).json()
    assert [(row["practice"], row["title"]) for row in report["verdicts"]] == [("weight", "Weight")]
    assert report["other_kinds"] == []


@pytest.mark.slow
@pytest.mark.timeout(200)
def test_it_is_among_the_verdicts_of_a_tuning(extended: dict[str, str], tmp_path: Path) -> None:
    folder = tmp_path / "tuned"
    found = hasten("tune", "demo", "--budget", "5s", "-o", folder, "--json", environment=extended).json()
    verdict = found["verdicts"][-1]
    assert (verdict["practice"], verdict["code"]) == ("weight", "weight.known")
    assert verdict["evidence"] == "The result weighs 1.43 MB."
    lines = [json.loads(line) for line in (folder / "session.jsonl").read_text().splitlines()]
    assert "weight" in {line["label"] for line in lines if line.get("kind") == "finding"}
    assert "The result weighs 1.43 MB." in hasten("report", folder, "--format", "md", environment=extended).output
