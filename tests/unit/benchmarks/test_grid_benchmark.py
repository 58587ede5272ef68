"""The benchmarks of the search: which cells could be the best, what counts as reached, and that a cut loses nothing."""

from __future__ import annotations

import argparse
import json
import math
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from benchmarks import common, grid, held_back, same_choice
from benchmarks.common import Models
from benchmarks.exhaustive import Cell, fastest_kept, finalists_of, near_the_best, next_to_judge

from hasten import demo
from hasten.core.plan import Plan
from hasten.core.trial import Purpose, Trial
from hasten.measure.opening import open_model

if TYPE_CHECKING:
    from pathlib import Path


def _cell(variant: str, median_ms: float, is_kept: bool | None = None, plan: Plan = Plan()) -> Cell:
    candidate = replace(open_model(demo.MODEL)[0], plan=plan)
    return Cell(Trial(variant), candidate, median_ms, is_kept=is_kept)


def test_accuracies_are_measured_from_the_fastest_on_until_cells_are_too_slow_to_be_the_best() -> None:
    fast, kept, near, far = _cell("fast", 1.0), _cell("kept", 2.0), _cell("near", 2.2), _cell("far", 2.6)
    broken_plan = _cell("fails", math.inf)
    cells = [far, broken_plan, near, kept, fast]
    judged = []
    while (cell := next_to_judge(cells)) is not None:
        judged.append(cell.trial.variant)
        cell.is_kept = cell.trial.variant != "fast"
    assert judged == ["fast", "kept", "near"]
    assert fastest_kept(cells) == 2.0


def test_without_a_cell_that_keeps_the_floor_all_are_judged() -> None:
    cells = [_cell("one", 1.0), _cell("other", 50.0)]
    while (cell := next_to_judge(cells)) is not None:
        cell.is_kept = False
    assert [cell.is_kept for cell in cells] == [False, False]
    assert near_the_best(cells, 1.1) == []


def test_finalists_keep_the_floor_and_are_near_the_fastest_that_does() -> None:
    cells = [_cell("c", 1.2, True), _cell("b", 1.05, True), _cell("broken", 0.5, False), _cell("a", 1.0, True)]
    assert [cell.trial.variant for cell in near_the_best(cells, 1.1)] == ["a", "b"]


def test_the_final_has_one_of_each_kind_and_no_copies_of_one_candidate() -> None:
    recipes = ("static_int8", "static_int8_min_max", "static_int8_mse", "static_int8_octav", "static_int8_corrected")
    cells = [_cell(name, 1.0 + place / 1000, True) for place, name in enumerate(recipes)]
    for cell in cells:
        cell.trial = replace(cell.trial, recipe=cell.trial.variant)
    mix, rewritten = _cell("int8+float2", 1.03, True), _cell("rewritten", 9.0, True)
    mix.trial = replace(mix.trial, recipe="static_int8", float_nodes=(3, 4), purpose=Purpose.SLOW_NODES)
    rewritten.trial = replace(rewritten.trial, purpose=Purpose.REWRITE)
    after, before = _cell("static_int8+rewritten", 1.04, True), _cell("static_int8_rewritten", 1.05, True)
    after.trial = replace(after.trial, recipe="static_int8", source="static_int8", purpose=Purpose.REWRITE)
    before.trial = replace(before.trial, recipe="static_int8", source="rewritten")
    threads, original = _cell("static_int8", 1.06, True, Plan(threads=2)), _cell("original", 1.07, True)
    threads.trial = cells[0].trial
    finalists = finalists_of([*reversed(cells), mix, rewritten, after, before, threads, original])
    assert finalists == [cells[0], mix, after, before, threads, original]


def test_cells_that_compute_alike_share_an_accuracy() -> None:
    one, two = _cell("v", 1.0), _cell("v", 1.0, plan=Plan(threads=2))
    other = _cell("v", 1.0, plan=Plan(kernel="builtin"))
    assert one.numbers == two.numbers != other.numbers
    assert one.id != two.id


@pytest.mark.parametrize(
    ("changes", "is_reached"),
    [
        ({}, True),
        ({"regret": 0.031}, False),
        ({"cost": 0.26}, False),
        ({"default_regret": 0.011}, False),
        ({"regret": -0.2, "default_regret": -0.2}, True),
    ],
)
def test_a_model_reaches_all_bars_or_none(changes: dict[str, float], is_reached: bool) -> None:
    figures = {"regret": 0.03, "cost": 0.25, "default_regret": 0.01, "grid_seconds": 200.0}
    assert grid.is_reached({**figures, **changes}) is is_reached


def test_where_the_grid_takes_no_time_none_can_be_saved() -> None:
    figures = {"regret": 0.03, "cost": 0.75, "default_regret": 0.01, "grid_seconds": 17.0}
    assert grid.is_reached(figures)
    assert not grid.is_reached({**figures, "grid_seconds": 60.0})
    assert not grid.is_reached({**figures, "regret": 0.031})


@pytest.mark.parametrize(
    ("changes", "is_unsure"),
    [
        ({}, False),
        ({"regret_ci95": [0.021, 0.0428]}, True),
        ({"default_regret_ci95": [0.0046, 0.0125]}, True),
        ({"default_regret_ci95": [0.011, 0.0125]}, False),
    ],
)
def test_an_interval_that_holds_its_bar_is_recorded_and_told(changes: dict[str, Any], is_unsure: bool) -> None:
    figures = {"regret": 0.01, "regret_ci95": [0.0, 0.02], "cost": 0.2}
    figures |= {"default_regret": 0.0, "default_regret_ci95": [-0.001, 0.002], **changes}
    assert grid.is_unsure(figures) is is_unsure
    shown = {"grid_best": "a", "cells": 9, "grid_seconds": 60.0, "tune_chose": "a", "default_chose": "a"}
    line = grid.told({**shown, "default_seconds": 9.0, **figures, "reached": True, "unsure": is_unsure})
    assert line.endswith("unsure: an interval holds its bar" if is_unsure else "reached")


def test_only_a_choice_that_is_no_cell_and_surely_faster_takes_the_place_of_the_best() -> None:
    sure, unsure = {"regret_ci95": [-0.05, -0.01]}, {"regret_ci95": [-0.05, 0.01]}
    assert grid.beats_every_cell("mix@cpu", sure, ["a@cpu"])
    assert not grid.beats_every_cell("mix@cpu", unsure, ["a@cpu"])
    assert not grid.beats_every_cell("a@cpu", sure, ["a@cpu"])


def test_the_same_file_on_the_same_plan_has_no_regret(tmp_path: Path) -> None:
    for name in ("one", "other"):
        (tmp_path / name).write_bytes(b"model")
    choices = [("id", tmp_path / name, Plan()) for name in ("one", "other")]
    assert grid.regret_of(choices[0], choices[1], 0.01)["regret"] == 0.0


def test_an_error_of_a_model_is_a_miss_and_has_no_regret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(common, "RESULTS", tmp_path)
    models = Models.opened("grid", ["a", "b"])
    figures = {"regret": 0.02, "cost": 0.2, "default_regret": 0.0, "reached": True, "unsure": True}
    models.examine("a", lambda: {"error": "It cannot be read.", "reached": False})
    models.examine("b", lambda: figures)
    assert grid.concluded(models) == 1
    result = json.loads((tmp_path / "grid.json").read_text())
    assert result["unsure"] == ["b"]
    assert result["worst"] == {"regret": 0.02, "cost": 0.2, "default_regret": 0.0}
    assert not result["passed"]


def test_a_new_start_goes_on_and_a_whole_result_begins_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(common, "RESULTS", tmp_path)
    examined: list[str] = []

    def figures_of(name: str) -> dict[str, Any]:
        examined.append(name)
        return {"found": name}

    first = Models.opened("search", ["a", "b"])
    first.examine("a", lambda: figures_of("a"))
    assert first.record({}, passed=True) == 0
    assert not (tmp_path / "search.json").exists()
    second = Models.opened("search", ["a", "b"])
    for name in ("b", "a"):
        second.examine(name, partial(figures_of, name))
    assert examined == ["a", "b"]
    second.record({"more": 1}, passed=True)
    result = json.loads((tmp_path / "search.json").read_text())
    assert list(result["models"]) == ["a", "b"]
    assert all(entry["machine"] == result["machine"] for entry in result["models"].values())
    assert result["more"] == 1
    assert not Models.opened("search", ["a", "b"]).found


def test_other_settings_are_no_result_and_leave_one_under_way_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(common, "RESULTS", tmp_path)
    Models.opened("search", ["a", "b"]).examine("a", lambda: {"found": 1})
    quick = Models.opened("search", ["a"], "budget 3 s")
    assert not quick.found
    quick.examine("a", lambda: {"found": 2})
    quick.record({}, passed=True)
    assert not (tmp_path / "search.json").exists()
    assert Models.opened("search", ["a", "b"]).found["a"]["found"] == 1
    assert Models.opened("search", ["a"], "budget 3 s").found["a"]["found"] == 2
    assert not Models.opened("search", ["a"], "budget 4 s").found
    assert not Models.opened("search", ["a", "b"], anew=True).found


def test_what_other_code_has_found_does_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(common, "RESULTS", tmp_path)
    Models.opened("search", ["a", "b"]).examine("a", lambda: {"found": 1})
    monkeypatch.setattr("benchmarks.common.code_version", lambda: "another")
    assert not Models.opened("search", ["a", "b"]).found


def test_options_other_than_the_defaults_are_told() -> None:
    parser = argparse.ArgumentParser()
    grid.add_options(parser)
    assert grid.settings_of(parser.parse_args([])) == ""
    assert grid.settings_of(parser.parse_args(["--budget", "0"])) == "0 s a cell, budget 0 s"


def test_the_same_choice_is_identical_or_called_the_same() -> None:
    assert same_choice.is_reached([{"is": "identical"}, {"is": "same"}])
    assert not same_choice.is_reached([{"is": "identical"}, {"is": "undecided"}])
    assert not same_choice.is_reached([{"is": "faster"}])


def _contents() -> dict[str, str]:
    names = [f"package__{begin}{kind}" for begin in held_back.FAMILIES for kind in ("full", "lite")]
    return {name: name for name in names} | {"other__face_detection_full": "package__face_detectionfull"}


def test_the_draw_takes_one_model_of_a_family_and_no_content_twice() -> None:
    drawn = held_back.draw(_contents())
    assert len(drawn) == 6
    assert len({held_back.family_of(name) for name in drawn}) == 6
    assert drawn == held_back.draw(dict(reversed(_contents().items())))


def test_wake_words_are_one_family_and_an_unknown_network_is_its_own() -> None:
    assert held_back.family_of("a__hey_jarvis") == held_back.family_of("a__alexa") == "wake word"
    assert held_back.family_of("a__whatever_3") == "whatever_3"


def test_used_models_are_left_out_under_any_name(tmp_path: Path) -> None:
    used, same, other = (tmp_path / f"{name}.tflite" for name in (held_back.USED[0], "copy__of_it", "new__model"))
    model = demo.MODEL.read_bytes()
    for path, data in ((used, model), (same, model), (other, model + b"\0")):
        path.write_bytes(data)
    assert list(held_back.contents_of(tmp_path)) == ["new__model"]


def test_without_models_held_back_says_so_and_is_no_miss(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["held_back", "--folder", str(tmp_path)])
    assert held_back.main() == 0
    assert "are left out" in capsys.readouterr().out


def test_drawn_inputs_follow_each_other() -> None:
    values = held_back.smooth(np.random.default_rng(0), (50, 40, 3))
    assert values.dtype == np.float32
    assert float(values.std()) == pytest.approx(1.0, abs=1e-3)
    neighbors = np.corrcoef(values[:, 20].ravel(), values[:, 21].ravel())[0, 1]
    assert neighbors > 0.9
