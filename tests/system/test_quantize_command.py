"""`hasten quantize` as a user runs it: the demo, JSON, wrong usage, what is quantized already, Ctrl-C and going on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from commandline import Finished, finish, hasten, interrupt, model_file, start
from tests.example_models import mobilenet_like

from hasten.core.session import read_session
from hasten.demo import MODEL
from hasten.model.reader import read_graph

if TYPE_CHECKING:
    from pathlib import Path

SHORT = ("--samples", "60", "--seconds", "0.5", "--no-mix")
STATIC = ("--recipe", "static_int8")
DEMO = ("quantize", "demo", "--data", "demo", "--calibration", "demo")
KEYS = {"recipe", "path", "size", "zipped_size", "accuracy", "latency", "verdict", "floor"}


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Finished]:
    folder = tmp_path_factory.mktemp("demo") / "out"
    recipes = ("--recipe", "float16", "--recipe", "static_int8")
    return folder, hasten(
        "quantize", "demo", "--data", "demo", "--calibration", "demo", "-o", folder, *recipes, *SHORT, "--json"
    )


def test_the_demo_gives_the_contract(demo: tuple[Path, Finished]) -> None:
    folder, done = demo
    assert done.code == 0, done.errors
    assert "INFO" not in done.errors  # what LiteRT prints while it calibrates belongs in no output
    found = done.json()
    assert [row["recipe"] for row in found["variants"]] == ["original", "float16", "static_int8"]
    assert all(row.keys() >= KEYS for row in found["variants"])
    assert found["chosen"] in ("original", "float16", "static_int8")
    assert found["sensitivity"] == []
    assert found["variants"][0]["accuracy"]["value"] > 0.9
    assert (folder / "chosen.tflite").is_file()
    assert hasten("bench", folder / "chosen.tflite", "--seconds", "0.3").code == 0


def test_the_same_command_goes_on_and_fits_80_columns(demo: tuple[Path, Finished]) -> None:
    folder, _ = demo
    again = hasten(
        "quantize", "demo", "--data", "demo", "--calibration", "demo", "-o", folder, *SHORT, "--recipe", "float16"
    )
    assert again.code == 0
    assert "continued the search" in " ".join(again.output.split())
    assert all(len(line) <= 80 or str(folder) in line for line in again.output.splitlines())


@pytest.fixture(scope="module")
def integers(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Finished]:
    folder = tmp_path_factory.mktemp("types") / "out"
    return folder, hasten(*DEMO, "-o", folder, *STATIC, *SHORT, "--input-type", "int8", "--json")


@pytest.mark.slow
def test_variants_have_the_types_asked_for(integers: tuple[Path, Finished]) -> None:
    folder, done = integers
    assert done.code == 0, done.errors
    found = done.json()
    assert (found["input_type"], found["output_type"]) == ("int8", "float32")
    original, variant = found["variants"]
    graph = read_graph(variant["path"])
    assert [tensor.dtype for tensor in (*graph.inputs, *graph.outputs)] == ["int8", "float32"]
    # So few samples allow the choice, and prove nothing.
    assert variant["floor"] == variant["reported"]["state"] == "undecided"
    assert variant["reported"]["ci95"][0] <= 0.01 < variant["reported"]["ci95"][1]
    assert variant["reported"]["samples"] < variant["reported"]["samples_needed"]
    assert abs(variant["accuracy"]["value"] - original["accuracy"]["value"]) < 0.05
    assert variant["latency"] is not None
    assert ("still float32" in found["why"]) == (found["chosen"] == "original")
    compared = hasten("compare", "demo", folder / "static_int8.tflite", "--explain", "--seconds", "1", "--json")
    assert compared.code == 0, compared.errors


@pytest.mark.slow
def test_other_types_in_the_same_folder_are_refused(integers: tuple[Path, Finished]) -> None:
    folder, _ = integers
    again = hasten(*DEMO, "-o", folder, *STATIC, *SHORT, "--input-type", "uint8")
    assert again.code == 2
    assert "another input type: int8, not uint8" in " ".join(again.errors.split())
    assert hasten(*DEMO, "-o", folder, *STATIC, *SHORT).code == 2


@pytest.mark.slow
def test_recipes_that_cannot_have_the_types_are_named_as_left_out(tmp_path: Path) -> None:
    done = hasten(*DEMO, "-o", tmp_path / "out", *SHORT, "--input-type", "int16")
    assert done.code == 0, done.errors
    said = " ".join(done.output.split())
    assert "Variants have int16 inputs." in said
    assert "left out: float16, dynamic_int8, weight_only_int8" in said


def test_a_recipe_that_cannot_have_the_types_is_wrong_usage(tmp_path: Path) -> None:
    named = hasten("quantize", "demo", "--recipe", "float16", "--input-type", "int8", "-o", tmp_path / "out")
    assert named.code == 2
    assert "float16 cannot have int8 inputs" in named.errors
    assert "static_int8_min_max" in named.errors
    unknown = hasten("quantize", "demo", "--input-type", "float64", "-o", tmp_path / "out")
    assert unknown.code == 2
    assert not (tmp_path / "out").exists()


def test_another_floor_in_the_same_folder_is_refused(demo: tuple[Path, Finished]) -> None:
    folder, _ = demo
    again = hasten(
        "quantize", "demo", "--data", "demo", "--calibration", "demo", "-o", folder, *SHORT, "--max-drop", "5%"
    )
    assert again.code == 2
    assert "another largest drop" in again.errors


@pytest.mark.parametrize(
    ("option", "given", "wanted"),
    [
        ("--max-drop", "150%", "from 0% to 100%"),
        ("--max-drop", "much", "from 0% to 100%"),
        ("--prune", "0%", "above 0% and below 100%"),
        ("--prune", "100%", "above 0% and below 100%"),
    ],
)
def test_a_share_out_of_range_is_told_with_its_range(option: str, given: str, wanted: str, tmp_path: Path) -> None:
    done = hasten("quantize", "demo", f"{option}={given}", "-o", tmp_path / "out")
    assert done.code == 2
    assert wanted in done.errors


@pytest.mark.slow
def test_to_lose_nothing_is_a_floor(tmp_path: Path) -> None:
    done = hasten(*DEMO, "-o", tmp_path / "out", *SHORT, "--recipe", "float16", "--max-drop", "0", "--json")
    assert done.code == 0, done.errors
    assert done.json()["max_drop"] == 0
    assert done.json()["floor"]["kind"] == "points"
    # That nothing at all is lost, no number of samples proves.
    assert done.json()["variants"][1]["floor"] in ("undecided", "broken")


@pytest.mark.slow
def test_wrong_labels_are_told_and_nothing_is_chosen_by_them(tmp_path: Path) -> None:
    path = tmp_path / "tiny.tflite"
    path.write_bytes(mobilenet_like(8, 1, 16))
    inputs = np.random.default_rng(0).random((40, 16, 16, 3), np.float32)
    data = tmp_path / "data.npz"
    np.savez(data, x=inputs, y=np.full(40, 9))
    command = ("quantize", path, "--data", data, "-o", tmp_path / "out", "--recipe", "float16", *SHORT, "--for", "size")
    done = hasten(*command)
    assert done.code == 0, done.errors
    said = " ".join(done.output.split())
    assert "chosen original, copied to" in said
    assert "! The original is right on 0 of 20 samples, no better than chance (1 in 10 classes)" in said

    (tmp_path / "out" / ".DS_Store").write_bytes(b"")
    again = hasten(*command)
    assert again.code == 0, again.errors
    assert "no better than chance (1 in 10 classes)" in " ".join(again.output.split())
    np.savez(data, x=inputs, y=np.full(40, 8))
    changed = hasten(*command)
    assert changed.code == 2
    assert "data.npz has changed since" in " ".join(changed.errors.split())


def test_wrong_usage_is_told_before_anything_is_written(tmp_path: Path) -> None:
    unknown = hasten("quantize", "demo", "--recipe", "int9", "-o", tmp_path / "out")
    assert unknown.code == 2
    assert "static_int8" in unknown.errors
    assert hasten("quantize", "demo").code == 2
    assert hasten("quantize", "demo", "--data", "nowhere", "-o", tmp_path / "out").code == 3
    assert not (tmp_path / "out").exists()


def test_a_folder_with_other_things_is_refused(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("dear")
    done = hasten("quantize", "demo", "-o", tmp_path)
    assert done.code == 2
    assert "letter.txt" in done.errors
    assert [path.name for path in tmp_path.iterdir()] == ["letter.txt"]


def test_already_quantized_is_an_answer(tmp_path: Path) -> None:
    path = tmp_path / "int8.tflite"
    path.write_bytes(mobilenet_like(8, 1, 16, dtype="int8"))
    done = hasten("quantize", path, "-o", tmp_path / "out", "--json")
    assert done.code == 0
    assert "already quantized" in done.json()["already_quantized"]
    assert done.json()["chosen"] == "original"


def test_nothing_to_quantize_is_a_row_with_its_reason(tmp_path: Path) -> None:
    path = model_file(tmp_path, "one_operator")
    np.savez(tmp_path / "data.npz", a=np.ones((4, 4), np.float32), b=np.ones((4, 4), np.float32))
    done = hasten("quantize", path, "--recipe", "float16", "-o", tmp_path / "out", "--json", *SHORT)
    assert done.code == 0, done.errors
    assert done.json()["variants"][1]["floor"] == "failed"
    assert "changes nothing" in done.json()["variants"][1]["why"]


def test_control_c_prints_the_best_and_leaves_a_model_and_a_session(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    process = start("quantize", "demo", "--data", "demo", "-o", folder, "--seconds", "60")
    session = folder / "session.jsonl"
    while not (session.is_file() and b"float16" in session.read_bytes()):
        assert process.poll() is None
    interrupt(process)
    output, errors = finish(process, 30)
    assert process.returncode == 130, errors
    assert "chosen  original, copied to" in output
    assert "Run the same command again to continue" in errors
    assert (folder / "chosen.tflite").read_bytes() == MODEL.read_bytes()
    assert read_session(session).lost_lines == 0
    assert not (folder / ".making.tflite").exists()
