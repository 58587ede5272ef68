"""Real models of every kind that users bring, under every name that they give them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from commandline import CASES, QUICK, hasten, model_file

RUNS = (
    *("one_operator", "no_signature", "old_schema", "two_signatures", "accumulator", "counting_loop", "branch"),
    *("dynamic_batch", "mobilenet_like"),
)
CASE_MODELS = sorted(path for path in CASES.glob("*/*.tflite") if path.parent.name != "edge")
NO_CASES = pytest.param(Path(), marks=pytest.mark.skip(reason=f"{CASES} is not there"))


@pytest.mark.parametrize("name", RUNS)
def test_odd_models_are_timed(name: str, tmp_path: Path) -> None:
    found = hasten("bench", model_file(tmp_path, name), *QUICK, "--json").json()
    assert found["latency"]["samples"] > 0


@pytest.mark.parametrize("name", RUNS)
def test_odd_models_are_profiled_or_it_is_said_why_not(name: str, tmp_path: Path) -> None:
    shown = hasten("profile", model_file(tmp_path, name), *QUICK, "--no-roofline", "--json")
    assert shown.code == 0, shown.errors
    assert shown.json()["ops"]


def test_each_signature_can_be_timed(tmp_path: Path) -> None:
    model = model_file(tmp_path, "two_signatures")
    for signature in ("double", "multiply"):
        assert hasten("bench", model, "--signature", signature, *QUICK).code == 0


def test_a_larger_shape_takes_longer(tmp_path: Path) -> None:
    model = model_file(tmp_path, "mobilenet_like")
    small, large = (
        hasten("bench", model, "--shape", f"x={batch}x32x32x3", *QUICK, "--json").json()["latency"]["median_ms"]
        for batch in (1, 16)
    )
    assert large > 2 * small


def test_a_shape_that_the_model_cannot_take_is_refused(tmp_path: Path) -> None:
    shown = hasten("bench", model_file(tmp_path, "one_operator"), "--shape", "a=3x5x7", *QUICK)
    assert shown.code in (2, 3)
    assert "3x5x7" in shown.errors


def test_an_unknown_operator_is_named(tmp_path: Path) -> None:
    for command in ("bench", "profile"):
        shown = hasten(command, model_file(tmp_path, "custom_operator"), *QUICK)
        assert shown.code == 3
        sentence = shown.errors.splitlines()[0]
        assert "Unknown" in sentence
        assert "custom_operator.tflite" in sentence


def test_an_operator_of_tensorflow_is_named(tmp_path: Path) -> None:
    shown = hasten("bench", model_file(tmp_path, "flex_operator"), *QUICK)
    assert shown.code == 3
    assert "Erf" in shown.errors.splitlines()[0]


def test_a_crash_of_native_code_is_a_sentence(tmp_path: Path) -> None:
    bad, sound = model_file(tmp_path, "aborting"), model_file(tmp_path, "one_operator")
    for arguments in (
        ("bench", bad),
        ("profile", bad, "--no-roofline"),
        ("compare", sound, bad),
        ("compare", bad, sound),
    ):
        shown = hasten(*arguments, *QUICK)
        assert shown.code == 3
        assert "SIGABRT" in shown.errors
        assert "aborting.tflite" in shown.errors.splitlines()[0]


@pytest.mark.parametrize(
    "name",
    [
        "a@b.tflite",
        "a@threads=2.tflite",
        "k=v.tflite",
        "with space.tflite",
        "größe 模型.tflite",
        "-.tflite",
        "dot.",
        "a\nb",
    ],
)
def test_any_name_will_do(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    shutil.copy(model_file(tmp_path, "one_operator"), path)
    found = hasten("compare", path, f"{path}@threads=2", "--seconds", "0.1", "--json").json()
    assert found["first"]["model"]["path"] == found["second"]["model"]["path"] == str(path)
    assert (found["first"]["plan"]["threads"], found["second"]["plan"]["threads"]) == (1, 2)


def test_a_name_that_is_no_text(tmp_path: Path) -> None:
    path = Path(str(tmp_path) + "/\udcff.tflite")
    shutil.copy(model_file(tmp_path, "one_operator"), path)
    assert hasten("bench", path, *QUICK).code == 0
    assert hasten("bench", path, *QUICK, "--json").code == 0


def test_a_file_called_demo_comes_first(tmp_path: Path) -> None:
    model_file(tmp_path, "one_operator").rename(tmp_path / "demo")
    assert hasten("bench", "demo", *QUICK, "--json", cwd=tmp_path).json()["model"]["path"] == "demo"


@pytest.mark.parametrize("model", CASE_MODELS or [NO_CASES], ids=lambda path: f"{path.parent.name}/{path.name}")
def test_real_models_are_timed(model: Path) -> None:
    found = hasten("bench", model, *QUICK, "--json").json()
    assert found["latency"]["median_ms"] > 0


EDGE = {
    "face_landmark_with_attention_unresolved_custom_op": (3, "custom operator"),
    "wiki40b_flex_op": (3, "TensorFlow"),
    "tflm_person_detect_rejected_by_litert": (3, "quantization"),
    "streaming_wakeword_int8_no_data": (0, ""),
}


@pytest.mark.skipif(not (CASES / "edge").is_dir(), reason=f"{CASES / 'edge'} is not there")
@pytest.mark.parametrize("name", EDGE)
def test_models_at_the_edge(name: str) -> None:
    code, words = EDGE[name]
    shown = hasten("bench", CASES / "edge" / f"{name}.tflite", *QUICK)
    assert shown.code == code, shown.errors
    assert words in shown.errors.partition("\n")[0]
