"""A whole tuning of a tiny model by real runs: the answer, what is on the disk, going on, no data, limits."""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from hasten.api import Data, Effort, SearchSettings, blocks, document, tune
from hasten.bundle.folder import read_bundle
from hasten.core.errors import ModelError, UsageError
from hasten.core.floor import FloorState
from hasten.core.goal import Goal
from hasten.core.limits import Limit
from hasten.core.plan import Plan
from hasten.core.session import read_session
from hasten.core.statistics import Interval
from hasten.core.trial import ORIGINAL, Status, Trial
from hasten.practices.registry import NAMES
from hasten.search.untried import lacked_time
from hasten.show.terminal import terminal_text
from tests.example_models import mobilenet_like
from tests.unit.search.searching import store

if TYPE_CHECKING:
    from pathlib import Path

    from hasten.search.facts import TuneFound


SHORT = SearchSettings(
    recipes=("float16", "static_int8"), mix=False, extras=False, max_drop=0.5, command="hasten tune x"
)
BUDGET = Effort(12.0)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tiny")
    (folder / "tiny.tflite").write_bytes(mobilenet_like(8, 1, 16))
    np.savez(folder / "inputs.npz", x=np.random.default_rng(0).random((24, 16, 16, 3), np.float32))
    return folder


@pytest.fixture(scope="module")
def found(place: Path) -> TuneFound:
    return tune(place / "tiny.tflite", place / "out", data=data_in(place), settings=SHORT, effort=BUDGET)


def test_there_is_an_answer_with_nine_verdicts(found: TuneFound) -> None:
    assert [finding.practice for finding in found.findings] == list(NAMES)
    assert found.best.status is Status.CHOSEN
    assert found.best.floor is FloorState.KEPT
    assert found.trials > 2
    assert document(found)["verdict"]
    json.dumps(document(found), allow_nan=False)
    text = terminal_text(blocks(found))
    assert all(len(line) <= 80 for line in text.splitlines() if found.folder not in line)


def test_the_bundle_runs_what_was_chosen(found: TuneFound, place: Path) -> None:
    bundle = read_bundle(place / "out")
    assert bundle.plan == found.best.plan
    assert bundle.measured["variant"] == found.best.variant
    assert (place / "out" / "report.html").is_file()
    assert list((place / "out" / "code").rglob("*.py"))


def test_every_trial_is_in_the_session(found: TuneFound, place: Path) -> None:
    session = read_session(place / "out" / "session.jsonl")
    kinds = {trial.kind for trial in session.lines}
    assert kinds >= {"settings", "environment", "trial", "measurement", "finding", "result"}
    assert session.lines[-1].kind == "finding" or session.lines[-1].kind == "result"
    last = [trial.data for trial in session.lines if trial.kind == "result"][-1]
    assert last["best"]["variant"] == found.best.variant
    assert last["seconds"] == found.seconds, "the page, made of the session, and the terminal tell one time"
    trials = {trial.label: trial.data for trial in session.lines if trial.kind == "trial"}
    assert found.best.id in trials
    assert trials[found.best.id]["status"] == Status.CHOSEN


def test_the_session_tells_what_the_best_was_and_when(found: TuneFound, place: Path) -> None:
    best = [line.data for line in read_session(place / "out" / "session.jsonl").lines if line.kind == "best"]
    times = [data["elapsed_s"] for data in best]
    assert best[0]["trial"].startswith(ORIGINAL), "from the first round on there is an answer"
    assert times == sorted(times)
    assert times[-1] <= found.seconds
    assert (best[-1]["trial"], best[-1]["confirmed"]) == (found.best.id, found.is_confirmed)


def test_every_trial_that_ran_has_a_start(found: TuneFound, place: Path) -> None:
    timed = [trial for trial in _trials(place / "out") if trial["levels"]]
    assert timed
    assert all(trial["amounts"]["start"]["value"] > 0 for trial in timed)
    assert all(set(trial["costs"]["start"]) == set(trial["levels"]) for trial in timed)
    assert all(entry["start_ms"] for entry in document(found)["front"])


def test_going_on_times_no_candidate_from_the_start(found: TuneFound, place: Path) -> None:
    before = {
        trial.label: trial.data["levels"]
        for trial in read_session(place / "out" / "session.jsonl").lines
        if trial.kind == "trial"
    }
    settings = replace(SHORT, resume=True)
    probed = Trial("float16", Plan(accelerator="gpu", threads=2), latency=Interval(90.0, 80.0, 99.0))
    with closing(store(place / "tiny.tflite", place / "out", data_in(place), settings)) as earlier:
        earlier.folder.save_trial(probed)
    again = tune(place / "tiny.tflite", place / "out", data=data_in(place), settings=settings, effort=BUDGET)
    after = {
        trial.label: trial.data["levels"]
        for trial in read_session(place / "out" / "session.jsonl").lines
        if trial.kind == "trial"
    }
    assert all(after[name].items() >= levels.items() for name, levels in before.items())
    timed = {trial["id"] for trial in _trials(place / "out") if trial["latency"] is not None}
    assert again.trials == len(timed), "with those that an earlier run only looked at"


def test_a_floor_that_is_relative_is_said_so(place: Path) -> None:
    inputs = np.load(place / "inputs.npz")["x"]
    np.savez(place / "errors.npz", x=inputs, y=np.full((24, 10), 0.5, np.float32))
    data, settings = Data(str(place / "errors.npz")), replace(SHORT, recipes=("static_int8",), max_drop=0.0)
    found = tune(place / "tiny.tflite", place / "errors", data=data, settings=settings, effort=Effort(4.0))
    assert document(found)["floor"]["kind"] == "relative"
    assert "floor: mae at most 0.0 % (0) worse" in " ".join(terminal_text(blocks(found)).split())
    again = store(place / "tiny.tflite", place / "errors", data, settings)
    again.close()
    assert again.folder.floor == found.floor
    broken = [trial for trial in _trials(place / "errors") if trial["floor"] == FloorState.BROKEN]
    assert all(trial["why"]["facts"]["lost"]["floor"]["metric"] == "mae" for trial in broken)


@pytest.mark.slow
def test_without_data_no_other_numbers_are_chosen(place: Path) -> None:
    found = tune(place / "tiny.tflite", place / "none", settings=SHORT, effort=BUDGET)
    assert found.best.variant == ORIGINAL
    assert found.best.plan.accelerator == "cpu"
    assert "floor:" not in terminal_text(blocks(found))
    others = [trial for trial in _trials(place / "none") if trial["variant"] != ORIGINAL]
    assert all(trial["floor"] in ("", FloorState.UNKNOWN) for trial in others)


def test_a_limit_out_of_reach_is_said_with_the_nearest(place: Path) -> None:
    settings = SearchSettings(recipes=("float16",), mix=False, extras=False, limit=Limit(1e-6, 10))
    found = tune(place / "tiny.tflite", place / "limit", data=data_in(place), settings=settings, effort=Effort(4.0))
    assert [missed.facts["limit"] for missed in found.unreachable] == ["latency", "size"]
    assert document(found)["verdict"].count("the best result ") == 2
    codes = {missed.code for missed in found.unreachable}
    assert codes == {"tune.not-reached" if lacked_time(found.untried) else "tune.unreachable"}


@pytest.mark.slow
def test_what_a_short_budget_leaves_untried_is_tried_by_the_next_run(place: Path) -> None:
    def left(seconds: float, *, resume: bool) -> tuple[TuneFound, set[str]]:
        settings = replace(SHORT, resume=resume)
        effort = Effort(seconds)
        found = tune(place / "tiny.tflite", place / "short", data=data_in(place), settings=settings, effort=effort)
        return found, {name for one in found.untried for name in one.facts.get("recipes", ())}

    first, untried = left(1.0, resume=False)
    assert untried == {"float16", "static_int8"}
    assert [entry["code"] for entry in document(first)["untried"]] == [one.code for one in first.untried]
    again, still = left(25.0, resume=True)
    assert still < untried
    assert again.trials > first.trials
    assert again.seconds > first.seconds, "the time of both"


@pytest.mark.slow
@pytest.mark.parametrize("goal", [Goal.SIZE, Goal.THROUGHPUT, Goal.START])
def test_a_goal_of_its_own(goal: Goal, place: Path) -> None:
    settings = replace(SHORT, goal=goal, limit=Limit(latency_ms=10_000.0))
    folder = place / goal.value
    found = tune(place / "tiny.tflite", folder, data=data_in(place), settings=settings, effort=Effort(20.0))
    assert not found.unreachable
    told = document(found)["goal"]
    assert (told["name"], told["unit"]) == (goal.value, goal.unit)
    assert told["original"]["value"] > 0
    best = [line.data for line in read_session(folder / "session.jsonl").lines if line.kind == "best"]
    assert {data["goal"] for data in best} == {goal.value}
    if goal is Goal.SIZE:
        smallest = min(trial["size"] for trial in _trials(folder) if trial["floor"] == FloorState.KEPT)
        assert found.best.size_bytes <= smallest * 1.01
    if goal is Goal.START:
        cached = [trial for trial in _trials(folder) if trial["plan"]["cache"]]
        assert cached
        assert read_bundle(folder).plan.describe() == found.best.plan.describe()
    assert (folder / "report.html").is_file()
    with pytest.raises(UsageError, match="another goal"):
        tune(place / "tiny.tflite", folder, data=data_in(place), settings=replace(SHORT, resume=True))


def test_a_model_that_changes_meanwhile_is_told_and_nothing_is_lost(place: Path, tmp_path: Path) -> None:
    model = tmp_path / "model.tflite"
    model.write_bytes(mobilenet_like(8, 1, 16))

    def change(share: float, text: str) -> None:
        if text.startswith(("plans", "variants", "confirming")):
            model.write_bytes(mobilenet_like(8, 1, 8))

    effort = Effort(12.0, progress=change)
    with pytest.raises(ModelError, match="has changed since"):
        tune(model, tmp_path / "out", data=data_in(place), settings=SHORT, effort=effort)
    assert _trials(tmp_path / "out")
    with pytest.raises(ModelError, match="another model"):
        tune(model, tmp_path / "out", data=data_in(place), settings=replace(SHORT, resume=True))


def data_in(place: Path) -> Data:
    return Data(str(place / "inputs.npz"))


def _trials(folder: Path) -> list[dict[str, Any]]:
    return [line.data for line in read_session(folder / "session.jsonl").lines if line.kind == "trial"]
