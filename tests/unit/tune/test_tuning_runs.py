"""A whole tuning of a tiny model by real runs: the answer, what is on the disk, going on, no data, limits."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from hasten.bundle.folder import read_bundle
from hasten.core.errors import ModelError
from hasten.core.limits import Limit
from hasten.core.session import read_session
from hasten.core.tuning import BROKEN, CHOSEN, ORIGINAL, UNKNOWN
from hasten.library import run_tune, study_tune, tune
from hasten.model.example_models import mobilenet_like
from hasten.practices.registry import NAMES
from hasten.report.tune_text import tune_text
from hasten.tune.settings import TuneSettings

if TYPE_CHECKING:
    from pathlib import Path

    from hasten.core.tuning import TuneResult

SHORT = TuneSettings(
    recipes=("float16", "static_int8"), budget_s=12.0, mix=False, extras=False, max_drop=0.5, command="hasten tune x"
)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tiny")
    (folder / "tiny.tflite").write_bytes(mobilenet_like(8, 1, 16))
    np.savez(folder / "inputs.npz", x=np.random.default_rng(0).random((24, 16, 16, 3), np.float32))
    return folder


@pytest.fixture(scope="module")
def found(place: Path) -> TuneResult:
    return tune(place / "tiny.tflite", place / "out", data=str(place / "inputs.npz"), settings=SHORT)


def test_there_is_an_answer_with_nine_verdicts(found: TuneResult) -> None:
    assert [finding.practice for finding in found.findings] == list(NAMES)
    assert found.best.status == CHOSEN
    assert found.best.floor == "kept"
    assert found.trials > 2
    assert found.verdict
    json.dumps(found.as_data(), allow_nan=False)
    text = tune_text(found)
    assert all(len(line) <= 80 for line in text.splitlines() if found.folder not in line)


def test_the_bundle_runs_what_was_chosen(found: TuneResult, place: Path) -> None:
    bundle = read_bundle(place / "out")
    assert bundle.plan == found.best.plan
    assert bundle.measured["variant"] == found.best.variant
    assert (place / "out" / "report.html").is_file()
    assert list((place / "out" / "code").rglob("*.py"))


def test_every_trial_is_in_the_session(found: TuneResult, place: Path) -> None:
    session = read_session(place / "out" / "session.jsonl")
    kinds = {trial.kind for trial in session.trials}
    assert kinds >= {"settings", "environment", "trial", "measurement", "finding", "result"}
    assert session.trials[-1].kind == "finding" or session.trials[-1].kind == "result"
    last = [trial.data for trial in session.trials if trial.kind == "result"][-1]
    assert last["best"]["variant"] == found.best.variant
    trials = {trial.label: trial.data for trial in session.trials if trial.kind == "trial"}
    assert found.best.id in trials
    assert trials[found.best.id]["status"] == CHOSEN


def test_going_on_times_no_candidate_from_the_start(found: TuneResult, place: Path) -> None:
    before = {
        trial.label: trial.data["levels"]
        for trial in read_session(place / "out" / "session.jsonl").trials
        if trial.kind == "trial"
    }
    tune(place / "tiny.tflite", place / "out", data=str(place / "inputs.npz"), settings=SHORT, resume=True)
    after = {
        trial.label: trial.data["levels"]
        for trial in read_session(place / "out" / "session.jsonl").trials
        if trial.kind == "trial"
    }
    assert all(after[name].items() >= levels.items() for name, levels in before.items())


def test_a_floor_that_is_relative_is_said_so(place: Path) -> None:
    data = np.load(place / "inputs.npz")["x"]
    np.savez(place / "errors.npz", x=data, y=np.full((24, 10), 0.5, np.float32))
    settings = replace(SHORT, recipes=("static_int8",), max_drop=0.0, budget_s=4.0)
    found = tune(place / "tiny.tflite", place / "errors", data=str(place / "errors.npz"), settings=settings)
    assert found.as_data()["floor"]["kind"] == "relative"
    assert "floor: mae at most 0.0% (0) worse than the original's" in " ".join(tune_text(found).split())
    again = study_tune(
        place / "tiny.tflite", place / "errors", data=str(place / "errors.npz"), settings=settings, resume=True
    )
    again.close()
    assert again.folder.floor == found.floor
    broken = [trial for trial in _trials(place / "errors") if trial["floor"] == BROKEN]
    assert all(" of mae (" in trial["why"] for trial in broken)


def test_without_data_no_other_numbers_are_chosen(place: Path) -> None:
    found = tune(place / "tiny.tflite", place / "none", settings=SHORT)
    assert found.best.variant == ORIGINAL
    assert found.best.plan.accelerator == "cpu"
    assert "floor:" not in tune_text(found)
    assert all(trial["floor"] in ("", UNKNOWN) for trial in _trials(place / "none") if trial["variant"] != ORIGINAL)


def test_a_limit_out_of_reach_is_said_with_the_nearest(place: Path) -> None:
    settings = TuneSettings(recipes=("float16",), budget_s=4.0, mix=False, extras=False, limit=Limit(1e-6, 10))
    found = tune(place / "tiny.tflite", place / "limit", data=str(place / "inputs.npz"), settings=settings)
    assert len(found.unreachable) == 2
    assert "the nearest is" in found.verdict


def test_a_model_that_changes_meanwhile_is_told_and_nothing_is_lost(place: Path, tmp_path: Path) -> None:
    model = tmp_path / "model.tflite"
    model.write_bytes(mobilenet_like(8, 1, 16))
    tuning = study_tune(model, tmp_path / "out", data=str(place / "inputs.npz"), settings=SHORT)

    def change(share: float, text: str) -> None:
        if text.startswith(("plans", "variants", "confirming")):
            model.write_bytes(mobilenet_like(8, 1, 8))

    with pytest.raises(ModelError, match="has changed since"):
        run_tune(tuning, change)
    assert any(trial.kind == "trial" for trial in read_session(tmp_path / "out" / "session.jsonl").trials)
    with pytest.raises(ModelError, match="another model"):
        study_tune(model, tmp_path / "out", data=str(place / "inputs.npz"), settings=SHORT, resume=True)


def _trials(folder: Path) -> list[dict[str, Any]]:
    return [trial.data for trial in read_session(folder / "session.jsonl").trials if trial.kind == "trial"]
