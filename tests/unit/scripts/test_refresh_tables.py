"""The README's tables are those of the results, each with the run that it is of."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import pytest
from scripts.refresh_tables import README, RESULTS, Results, refreshed, run_of

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """A copy of the results, to be changed."""
    return shutil.copytree(RESULTS, tmp_path / "results")


def _changed(folder: Path, name: str, **figures: Any) -> str:
    path = folder / f"{name}.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **figures}))
    return refreshed(README.read_text(encoding="utf-8"), Results(folder))


def test_the_readme_shows_the_results() -> None:
    text = README.read_text(encoding="utf-8")
    assert refreshed(text, Results(RESULTS)) == text, "run make tables"


def test_another_result_gives_another_readme(results: Path) -> None:
    text = _changed(results, "thin", added_ns=900, date="2031-02-03", commit="abcdef0123", clean=True, passed=True)
    assert "| 0.9 µs over a loop in C | at most 1 µs | 2031-02-03, abcdef0123 |" in text


def test_a_miss_is_told(results: Path) -> None:
    assert "at most 1 µs **(missed)**" in _changed(results, "thin", passed=False)
    assert "; **missed**. Run:" in _changed(results, "grid", passed=False)


def test_a_run_of_changed_files_says_so() -> None:
    run = {"date": "2031-02-03", "commit": "abcdef0123"}
    assert run_of({**run, "clean": False}) == "2031-02-03, abcdef0123 with changes"
    assert run_of({**run, "clean": True}) == "2031-02-03, abcdef0123"


def test_a_benchmark_that_was_not_run_has_no_row(results: Path) -> None:
    (results / "thin.json").unlink()
    assert "over a loop in C" not in refreshed(README.read_text(encoding="utf-8"), Results(results))


def test_the_words_on_litert_cli_are_those_of_the_result(results: Path) -> None:
    path = results / "instead.json"
    result = json.loads(path.read_text())
    result.pop("litert_cli", None)
    path.write_text(json.dumps({**result, "recipes": "made by hand"}))
    text = refreshed(README.read_text(encoding="utf-8"), Results(results))
    assert "Milliseconds; recipes: made by hand; OpenVINO" in text
    text = _changed(results, "instead", litert_cli="9.8.7", faster_on_average=1.5)
    assert "Milliseconds; litert-cli 9.8.7 with its own recipes" in text
    assert "made by hand" not in text
    assert "hasten is 1.50× as fast as the best of the others" in text


def test_the_default_budget_and_a_refused_model_have_their_cells(results: Path) -> None:
    tuned = {"grid_best": "a@cpu", "tune_chose": "b@cpu", "regret": -0.012, "cost": 0.2}
    models = {"demo": {**tuned, "default_chose": "c@cpu", "default_regret": 0.004}, "01": {"error": "No."}}
    wanted = {"regret": 0.03, "cost": 0.25, "default_regret": 0.01}
    text = _changed(results, "grid", models=models, wanted=wanted, passed=False)
    assert "| demo | a@cpu | b@cpu | −1.2 % | 20 % | c@cpu | +0.4 % |" in text
    assert "| MobileNet v1 0.25 | No. |  |  |  |  |  |" in text
    assert "regret at most 1.0 % with the default budget; **missed**." in text
    run = {"date": "2031-02-03", "commit": "abcdef0123", "clean": True, "passed": True, "wanted": wanted}
    (results / "held_back.json").write_text(json.dumps({"models": {"x__y": models["demo"]}, **run}))
    assert "| x__y | a@cpu |" in refreshed(README.read_text(encoding="utf-8"), Results(results))


def test_trust_counts_quiet_and_loaded_runs(results: Path) -> None:
    part = {"runs": 40, "wrong": 0, "contradicting": 1, "found": 19}
    parts = {f"{name}.{how}": part for name in ("equal", "slower") for how in ("quiet", "loaded")}
    run = {"date": "2031-02-03", "commit": "abcdef0123", "clean": True, "passed": False}
    (results / "trust.json").write_text(json.dumps({"parts": parts, **run}))
    text = refreshed(README.read_text(encoding="utf-8"), Results(results))
    assert (
        "| `compare` of a model with itself, 40 + 40 times (quiet + next to a busy loop) | wrong verdicts: 0 + 0;"
        in text
    )
    assert "contradict themselves: 1 + 1; found: 19 + 19 | none; 18 of 20 found when quiet **(missed)** |" in text


def test_the_readme_tells_of_no_older_run() -> None:
    part = README.read_text(encoding="utf-8").partition("## How good are the numbers?")[2].partition("## More")[0]
    for words in ("earlier run", "run again", "runs before", "from before", "has since"):
        assert words not in part
