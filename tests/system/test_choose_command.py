"""`hasten choose` on real models, as a user calls it: short, so only what must hold at any speed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from commandline import finish, hasten, interrupt, start, wait_for_runners
from tests.example_models import mobilenet_like

from hasten.cli.main import main
from hasten.core.session import read_session
from hasten.demo import MODEL

if TYPE_CHECKING:
    from pathlib import Path

QUICK = ("--seconds", "3", "--threads", "1", "--only", "float32")
KEYS = {"name", "size", "macs", "accuracy", "accuracy_source", "latency", "weights", "on_front", "why_dropped"}


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three classifiers that differ by far in cost."""
    folder = tmp_path_factory.mktemp("models")
    for name, width, size in (("small", 8, 32), ("middle", 16, 64), ("large", 32, 128)):
        (folder / f"{name}.tflite").write_bytes(mobilenet_like(width, 2, size))
    return folder


def latencies(found: dict[str, Any]) -> dict[str, float]:
    return {row["name"]: row["latency"]["median_ms"] for row in found["models"]}


@pytest.mark.slow
def test_files_without_data_are_timed_and_none_is_chosen(models: Path) -> None:
    done = hasten("choose", "--candidates", models, "--seconds", "6", "--only", "float32", "--json")
    assert done.code == 0, done.errors
    found = done.json()
    ms = latencies(found)
    assert ms["small float32"] < ms["middle float32"] < ms["large float32"]
    assert found["chosen"] is None
    assert found["finding"]["verdict"] == "undecided"
    assert {row["accuracy_source"] for row in found["models"]} == {"unknown"}


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """The embedded model on the embedded data."""
    out = tmp_path_factory.mktemp("chosen") / "out"
    done = hasten("choose", "--candidates", "demo", *_data(), *QUICK, "-o", out, "--json")
    assert done.code == 0, done.errors
    return out, done.json()


def _data() -> tuple[str, ...]:
    return "--data", "demo", "--samples", "80"


def test_accuracy_is_measured_on_the_data(measured: tuple[Path, dict[str, Any]]) -> None:
    _, found = measured
    (row,) = found["models"]
    assert set(row) >= KEYS
    assert row["accuracy_source"] == "measured"
    assert row["accuracy"]["value"] > 0.9
    assert row["accuracy"]["samples"] == 80
    assert found["chosen"] == row["name"] == f"{MODEL.stem} float32"
    assert row["on_front"]


def test_the_folder_has_session_and_report(measured: tuple[Path, dict[str, Any]]) -> None:
    out, _ = measured
    assert (out / "report.html").is_file()
    assert read_session(out / "session.jsonl").lines[-1].kind == "choose"


@pytest.mark.slow
def test_the_same_command_goes_on(measured: tuple[Path, dict[str, Any]]) -> None:
    out, first = measured
    before = read_session(out / "session.jsonl").lines
    again = hasten("choose", "--candidates", "demo", *_data(), *QUICK, "-o", out, "--json").json()
    added = read_session(out / "session.jsonl").lines[len(before) :]
    assert "accuracy" not in {line.kind for line in added}
    assert again["models"][0]["rounds"] >= first["models"][0]["rounds"]
    assert again["chosen"] == first["chosen"]


@pytest.mark.slow
def test_limits_that_nothing_keeps_end_with_code_1(measured: tuple[Path, dict[str, Any]]) -> None:
    done = hasten("choose", "--candidates", "demo", *_data(), *QUICK, "--limit", "size=1kB", "--json")
    assert done.code == 1
    assert done.json()["chosen"] is None
    assert done.json()["nearest"] == f"{MODEL.stem} float32"


@pytest.mark.slow
def test_text_fits_a_terminal(models: Path) -> None:
    done = hasten("choose", "--candidates", models, *QUICK)
    assert done.code == 0, done.errors
    assert "small float32" in done.output
    assert max(map(len, done.output.splitlines())) <= 80


@pytest.mark.parametrize(
    "words",
    [
        ["--candidates", "missing.tflite"],
        ["--candidates", "no_such_model"],
        ["--task", "cooking"],
        ["--list", "--task", "cooking"],
        ["--limit", "latency=soon"],
        ["--limit", "max_drop=1%"],
        ["--limit", "latency"],
        ["--data", "demo"],
        ["--get", "no_such_model"],
    ],
)
def test_wrong_usage_ends_before_any_work(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["choose", *words]) == 2
    assert capsys.readouterr().err.startswith("hasten: ")


@pytest.mark.parametrize("missing", ["missing.tflite", "no_such_model"])
def test_a_tuning_does_not_begin_without_its_candidates(
    missing: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("--also", "choose", "--candidates", missing, "-o", str(tmp_path / "out"))
    assert main(["tune", "demo", *words]) == 2
    assert missing in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_folder_of_something_else_is_left_alone(models: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("precious")
    assert main(["choose", "--candidates", str(models), *QUICK, "-o", str(tmp_path)]) == 2
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


@pytest.mark.slow
def test_ctrl_c_shows_what_was_timed_and_the_session_goes_on(models: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    command = ("choose", "--candidates", models, "--only", "float32", "--threads", "1", "-o", out)
    process = start(*command, "--seconds", "60")
    wait_for_runners(process, 4)  # the first round has ended
    interrupt(process)
    shown, errors = finish(process, 60)
    assert process.returncode == 130, errors
    assert "small float32" in shown
    assert read_session(out / "session.jsonl").lines[-1].data["interrupted"]
    assert "interrupted" in (out / "report.html").read_text()
    done = hasten(*command, "--seconds", "6", "--json")
    assert done.code == 0, done.errors
    assert not done.json()["interrupted"]


def test_the_catalogue_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["choose", "--list", "--json"]) == 0
    names = [row["name"] for row in json.loads(capsys.readouterr().out)["models"]]
    assert len(names) == len(set(names)) >= 25
    assert main(["choose", "--list", "--task", "image-classification"]) == 0
    assert names[0] in capsys.readouterr().out


@pytest.mark.slow
def test_models_of_the_catalogue_are_raced_by_name() -> None:
    found = hasten("choose", "--list", "--task", "image-classification", "--json").json()["models"]
    cheap = sorted((row for row in found if row["macs"]), key=lambda row: row["macs"])[:2]
    done = hasten("choose", "--candidates", *(row["name"] for row in cheap), "--seconds", "8", "--json")
    assert done.code == 0, done.errors
    chosen = done.json()
    assert {row["precision"] for row in chosen["models"]} == {"float32", "int8"}
    assert {row["origin"] for row in chosen["models"]} == {"catalogue"}
    assert all(row["path"] == "" for row in chosen["models"])


@pytest.mark.slow
@pytest.mark.timeout(200)
def test_a_tuning_compares_its_result_with_other_models(models: Path, tmp_path: Path) -> None:
    out = tmp_path / "tuned"
    options = ("--recipe", "float16", "--no-mix", "--only-race", "--budget", "20s", "--samples", "80")
    done = hasten("tune", "demo", "--data", "demo", *options, "--also", "choose", "-o", out, "--json")
    assert done.code == 0, done.errors
    verdict = next(row for row in done.json()["verdicts"] if row["practice"] == "choose")
    assert verdict["verdict"] != "not examined"
    assert "choose" in {line.kind for line in read_session(out / "session.jsonl").lines}
    assert hasten("tune", "demo", "--candidates", models, "-o", tmp_path / "x").code == 2
