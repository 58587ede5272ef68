"""The tables of the documents are those of the results, each with the run that it is of."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import pytest
from benchmarks import instead
from benchmarks.grid import WANTED
from benchmarks.trust import Runs, figures_of
from scripts.options_page import page
from scripts.refresh_tables import DOCUMENTS, OPTIONS, RESULTS, Results, refreshed, run_of

from hasten.variants.recipes import RECIPE_NAMES

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """A copy of the results, to be changed."""
    return shutil.copytree(RESULTS, tmp_path / "results")


def _text() -> str:
    return "\n".join(document.read_text(encoding="utf-8") for document in DOCUMENTS)


def _changed(folder: Path, name: str, **figures: Any) -> str:
    path = folder / f"{name}.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **figures}))
    return refreshed(_text(), Results(folder))


def test_the_documents_show_the_results() -> None:
    text = _text()
    assert refreshed(text, Results(RESULTS)) == text, "run make tables"


def test_another_result_gives_another_table(results: Path) -> None:
    text = _changed(results, "thin", added_ns=900, date="2031-02-03", commit="abcdef0123", clean=True, passed=True)
    assert "| 0.9 µs over a loop in C | at most 1 µs | 2031-02-03, abcdef0123 |" in text


def test_a_miss_is_told(results: Path) -> None:
    assert "at most 1 µs **(missed)**" in _changed(results, "thin", passed=False)
    models = json.loads((results / "grid.json").read_text())["models"]
    exact = {"regret": 0.0, "regret_ci95": [0.0, 0.0], "default_regret": 0.0, "default_regret_ci95": [0.0, 0.0]}
    missed = {
        name: {**found, **exact, "cost": 0.1 if name != "06" else 0.5, "reached": name != "06", "unsure": False}
        for name, found in models.items()
    }
    assert "; **missed** on LSTM." in _changed(results, "grid", passed=False, models=missed)


def test_a_run_of_changed_files_says_so() -> None:
    run = {"date": "2031-02-03", "commit": "abcdef0123"}
    assert run_of({**run, "clean": False}) == "2031-02-03, abcdef0123 with changes"
    assert run_of({**run, "clean": True}) == "2031-02-03, abcdef0123"


def test_a_benchmark_that_was_not_run_has_no_row(results: Path) -> None:
    (results / "thin.json").unlink()
    assert "over a loop in C" not in refreshed(_text(), Results(results))


def test_the_words_on_litert_cli_are_those_of_the_result(results: Path) -> None:
    path = results / "instead.json"
    result = json.loads(path.read_text())
    result.pop("litert_cli", None)
    path.write_text(json.dumps({**result, "recipes": "made by hand"}))
    text = refreshed(_text(), Results(results))
    assert "Milliseconds; recipes: made by hand. LiteRT's defaults" in text
    text = _changed(results, "instead", litert_cli="9.8.7", faster_on_average=1.5)
    assert "Milliseconds; litert-cli 9.8.7 with its own recipes" in text
    assert "made by hand" not in text
    assert "hasten is 1.50× as fast." in text
    assert f"within a budget of {instead._BUDGET_S:.0f} s" in text


def test_the_speedup_has_its_own_interval_and_latencies_keep_their_digits(results: Path) -> None:
    ours = {"what": "x@cpu", "median_ms": 0.35, "keeps_floor": True, "ci95": [1.0, 1.0], "hasten_is": "same"}
    other = {**ours, "median_ms": 123.4, "ci95": [0.488, 0.74], "hasten_is": "faster"}
    rows = {"hasten": ours, "litert_defaults": other, "litert_cli": {**other, "keeps_floor": False}}
    models = {"demo": {"rows": rows, "best_of_the_others": "litert_defaults", "best_over_hasten": 1.664}}
    text = _changed(results, "instead", models=models)
    assert "| demo | 123 | 123, breaks the floor | cannot read it | **0.350** | 1.66× (1.35–2.05) | x@cpu |" in text


_RUN = {"date": "2031-02-03", "commit": "abcdef0123", "clean": True}
_TUNED = {
    "grid_best": "a@cpu",
    "tune_chose": "b@cpu",
    "cost": 0.2,
    "regret": 0.032,
    "regret_ci95": [0.021, 0.043],
    "confirmed": "slower",
    "default_chose": "c@cpu",
    "default_seconds": 80.3,
    "default_regret": -0.0004,
    "default_regret_ci95": [-0.004, 0.003],
    "default_confirmed": "undecided",
}


def test_a_regret_has_its_interval_and_says_what_that_leaves_open(results: Path) -> None:
    identical = {**_TUNED, "regret": 0.0, "regret_ci95": [0.0, 0.0], "confirmed": "identical"}
    models = {"demo": _TUNED, "01": {"error": "No.", "reached": False}, "02": identical}
    text = _changed(results, "grid", models=models, wanted=WANTED, passed=False)
    left_open = "+3.2 % (+2.1 % to +4.3 %; the interval includes the limit)"
    assert f"| demo | a@cpu | b@cpu | {left_open} | 20 % | c@cpu | +0.0 % (−0.4 % to +0.3 %) |" in text
    assert "| MobileNet v1 0.25 | No. |  |  |  |  |  |" in text
    assert "| keyword spotting | a@cpu | b@cpu | 0: the same file and plan |" in text
    assert "regret at most 1 % with the default budget of 5 min (these searches ended after 80 s to 80 s)" in text
    assert "; **missed** on demo (the interval includes the limit), MobileNet v1 0.25 (refused). Run:" in text


def test_held_back_models_appear_once_they_were_run(results: Path) -> None:
    (results / "held_back.json").unlink(missing_ok=True)
    before = refreshed(_text(), Results(results))
    assert "drawn by a seed" not in before
    found = {"models": {"x__y": {**_TUNED, "regret": 0.05, "regret_ci95": [0.04, 0.06]}}, "wanted": WANTED}
    (results / "held_back.json").write_text(json.dumps({**found, **_RUN, "passed": False}))
    text = refreshed(_text(), Results(results))
    assert "And on 1 models of packages" not in text
    assert "And on 1 model of packages that nobody had looked at before, drawn by a seed:" in text
    assert "| x__y | a@cpu | b@cpu | +5.0 % (+4.0 % to +6.0 %) |" in text
    assert "; **missed** on x__y. Run: 2031-02-03, abcdef0123." in text


def test_trust_counts_quiet_and_loaded_runs(results: Path) -> None:
    row = {"verdict": "slower", "ratio": 1.05, "seconds": 9.0, "wrong": [], "contradictions": [], "load": 0.1}
    bad = {**row, "verdict": "same", "contradictions": ["a figure differs"]}
    rows = {f"{part}.{how}": [row, row, bad] for part in ("equal", "slower") for how in ("quiet", "loaded")}
    for spread, wrong in ((0.01, "0 + 0"), (0.2, "unknown")):
        figures = figures_of(Runs(results / "runs.json", "code", {"a": 1.0}, spread, rows))
        (results / "trust.json").write_text(json.dumps({**figures, **_RUN, "passed": False}))
        text = refreshed(_text(), Results(results))
        runs = "3 + 3 times (quiet + next to a busy loop)"
        assert f"| `compare` of a model with itself, {runs} | wrong verdicts: {wrong};" in text
        assert "contradict themselves: 1 + 1; found: 2 + 2 | neither; 18 of 20 found when quiet **(missed)** |" in text


def test_a_bound_is_never_rounded_to_the_better_side(results: Path) -> None:
    rows = [{"latency_ms": ms} for ms in (0.1, 1.0, 5.0, 9.0)]
    figures = {"lowest_coverage_from_1_ms": 0.97999, "largest_deviation_from_5_ms": 0.02601}
    text = _changed(results, "whole", rows=rows, **figures)
    assert "| 97.9 % or more (3 models from 1 ms on); profiled runs take up to 2.7 % more or less (2 models" in text


def test_pairs_that_disagree_show_their_range(results: Path) -> None:
    found = {"ratio": 1.13, "ratios": [1.2, 0.56, 1.23]}
    text = _changed(results, "evaluation", jpeg=found, demo={**found, "ratios": [1.1, 1.2]})
    assert "1.13× (arrays); 1.13× (JPEG files; single pairs 0.56 to 1.23)" in text


def test_a_higher_accuracy_is_proven_only_by_its_interval(results: Path) -> None:
    found = {"test": 0.9, "neighbors": 0.8, "against_neighbors": [0.1, 0.05, 0.15], "same_predictions": 1.0}
    sets = {"a": found, "b": {**found, "against_neighbors": [0.1, -0.01, 0.2]}}
    assert "higher accuracy on 2 of 2, proven on 1 (95 % CI)" in _changed(results, "retraining", sets=sets)


def test_the_documents_tell_of_no_older_run() -> None:
    part = _text().partition("## How good are the numbers?")[2]
    for words in ("earlier run", "run again", "runs before", "from before", "has since"):
        assert words not in part


def test_the_page_of_options_is_that_of_the_parsers() -> None:
    text = OPTIONS.read_text(encoding="utf-8")
    assert page() == text, "run make tables"
    for option in ("--baseline SESSION", "--against [MODEL]@PLAN", "--margin P", "--counts N,…", "--pays-from"):
        assert f"| `{option}` |" in text
    assert "| `--json` | print one JSON document on standard output | all but worker |" in text
    assert all(f"| `{name}` |" in text for name in RECIPE_NAMES)
