"""`hasten tune` as a user runs it: the contract, wrong usage, Ctrl-C, SIGKILL at any moment, a full disk, going on."""

from __future__ import annotations

import contextlib
import json
import os
import random
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from commandline import Finished, finish, hasten, interrupt, start
from tests.example_models import mobilenet_like

from hasten.bundle.folder import read_bundle
from hasten.core.session import read_session
from hasten.runner.machine import describe_machine

if TYPE_CHECKING:
    from collections.abc import Iterator

FAST = ("--recipe", "float16", "--no-mix", "--only-race", "--max-drop", "50%")
KEYS = {"model", "verdict", "verdicts", "best", "front", "trials", "seconds", "interrupted"}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tiny")
    (folder / "tiny.tflite").write_bytes(mobilenet_like(8, 1, 16))
    colors = np.random.default_rng(0).normal(0, 4, (24, 1, 1, 3))  # noise alone would always get the same answer
    np.savez(folder / "inputs.npz", x=(colors * np.ones((1, 16, 16, 1))).astype(np.float32))
    return folder


def command(place: Path, out: Path, *more: str | Path) -> tuple[str | Path, ...]:
    return ("tune", place / "tiny.tflite", "--data", place / "inputs.npz", "-o", out, *FAST, *more)


@pytest.mark.skipif(describe_machine().energy_counter, reason="this machine has an energy counter")
@pytest.mark.parametrize("asked", [("--for", "energy"), ("--limit", "energy=3mJ")])
def test_energy_without_a_counter_is_refused_before_anything_is_written(
    asked: tuple[str, str], place: Path, tmp_path: Path
) -> None:
    done = hasten(*command(place, tmp_path / "out", *asked))
    assert done.code == 4
    assert "energy counter" in done.errors
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("wrong", [("--for", "joy"), ("--limit", "joy=3"), ("--limit", "energy=3ms")])
def test_goals_and_limits_that_there_are_none_of(wrong: tuple[str, str], place: Path, tmp_path: Path) -> None:
    assert hasten(*command(place, tmp_path / "out", *wrong)).code == 2


def test_quantize_names_the_command_for_other_goals(place: Path, tmp_path: Path) -> None:
    model = place / "tiny.tflite"
    assert hasten("quantize", model, "--for", "energy", "-o", tmp_path / "out").code == 2


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Finished]:
    out = tmp_path_factory.mktemp("demo") / "out"
    options = ("--recipe", "static_int8", "--samples", "80", "--no-mix", "--only-race", "--budget", "8s")
    return out, hasten("tune", "demo", "--data", "demo", "--calibration", "demo", "-o", out, *options, "--json")


def test_the_demo_gives_the_contract(demo: tuple[Path, Finished]) -> None:
    out, done = demo
    assert done.code == 0, done.errors
    found = done.json()
    assert found.keys() >= KEYS
    assert len(found["verdicts"]) == 9
    assert found["best"].keys() >= {"model", "variant", "plan", "speedup", "ci95", "accuracy", "size", "size_ratio"}
    assert not found["interrupted"]
    assert found["goal"]["name"] == "latency"
    assert all(entry["text"] and entry["code"].startswith("untried.") for entry in found["untried"])
    assert read_bundle(out).plan.threads == found["best"]["plan"]["threads"]
    assert hasten("bench", out, "--seconds", "0.3").code == 0


def test_without_resume_a_session_is_not_gone_on_with(demo: tuple[Path, Finished]) -> None:
    out, _ = demo
    again = hasten("tune", "demo", "--data", "demo", "--calibration", "demo", "-o", out)
    assert again.code == 2
    assert "--resume" in again.errors
    other = hasten("tune", "demo", "--data", "demo", "-o", out, "--resume", "--max-drop", "5%")
    assert other.code == 2
    assert "another" in other.errors


def test_wrong_usage_is_told_before_anything_is_written(tmp_path: Path) -> None:
    for wrong in (("--budget", "soon"), ("--limit", "speed=1"), ("--recipe", "int9"), ("--max-drop", "200%")):
        assert hasten("tune", "demo", "-o", tmp_path / "out", *wrong).code == 2
    assert hasten("tune", "demo").code == 2
    assert not (tmp_path / "out").exists()


def test_places_that_cannot_be_used(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("dear")
    foreign = hasten("tune", "demo", "-o", tmp_path)
    assert foreign.code == 2
    assert "letter.txt" in foreign.errors
    below_a_file = hasten("tune", "demo", "-o", tmp_path / "letter.txt" / "out")
    assert below_a_file.code == 3
    assert "cannot be used" in below_a_file.errors


@pytest.mark.skipif(not Path("/sys/kernel").is_dir(), reason="needs a file system that nobody can write to")
def test_a_folder_that_is_read_only() -> None:
    done = hasten("tune", "demo", "-o", "/sys/kernel/hasten")
    assert done.code == 3
    assert "cannot be used" in done.errors


def test_the_text_opens_with_the_verdict_and_fits_80_columns(place: Path, tmp_path: Path) -> None:
    done = hasten(*command(place, tmp_path / "o", "--budget", "3s"))
    assert done.code == 0, done.errors
    lines = done.output.splitlines()
    assert "faster" in lines[0] or "original" in lines[0]
    assert all(len(line) <= 80 or str(tmp_path) in line for line in lines)
    assert sum(line.startswith(("good", "improved", "to do", "undecided", "not examined"), 14) for line in lines) == 9


def test_control_c_gives_the_best_so_far_and_a_bundle(place: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    process = start(*command(place, out, "--budget", "60s", "--watch"))
    _wait_for_trials(process, out, 3)
    interrupt(process)
    output, errors = finish(process, 40)
    assert "http://127.0.0.1:" in errors
    assert process.returncode == 130, errors
    assert "with --resume" in errors
    assert "tiny.tflite" in output
    assert read_bundle(out).model_path.is_file()
    assert _results(out)[-1]["interrupted"]


def _kill_and_resume(place: Path, out: Path, lines: int) -> None:
    """Killed once its session has so many lines; the next run has them all, and ends well."""
    process = start(*command(place, out, "--budget", "60s"))
    session = out / "session.jsonl"
    while not (session.is_file() and session.read_bytes().count(b"\n") >= lines):
        assert process.poll() is None, "it ended before it could be killed"
    os.killpg(process.pid, signal.SIGKILL)
    finish(process, 30)
    before = _levels(out)
    done = hasten(*command(place, out, "--budget", "2s", "--resume", "--json"))
    assert done.code == 0, done.errors
    after = _levels(out)
    assert all(after[name].items() >= levels.items() for name, levels in before.items())
    assert read_session(session).lost_lines <= 1
    assert done.json()["trials"] >= len([levels for levels in before.values() if levels])


@pytest.mark.parametrize("lines", [3, pytest.param(14, marks=pytest.mark.slow)])
def test_killed_it_goes_on(place: Path, tmp_path: Path, lines: int) -> None:
    _kill_and_resume(place, tmp_path / "out", lines)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
def test_killed_at_ten_random_moments_it_goes_on(place: Path, tmp_path: Path, seed: int) -> None:
    _kill_and_resume(place, tmp_path / "out", random.Random(seed).randint(1, 40))


def test_a_full_disk_is_a_sentence_and_what_was_saved_is_there(place: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    limit = 300_000  # bytes of a file: more than the first measurement takes, less than the session or the report
    done = subprocess.run(
        [sys.executable, "-m", "hasten", *map(str, command(place, out, "--budget", "20s"))],
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
    )
    assert done.returncode == 3, done.stderr
    assert "cannot be written" in done.stderr
    assert "--resume" in done.stderr
    assert "Traceback" not in done.stderr
    before = _levels(out)
    assert before
    again = hasten(*command(place, out, "--budget", "2s", "--resume"))
    assert again.code == 0, again.errors
    assert _levels(out).keys() >= before.keys()


def _wait_for_trials(process: subprocess.Popen[str], out: Path, count: int) -> None:
    deadline = time.monotonic() + 60
    while len(_levels(out)) < count:
        assert process.poll() is None
        assert time.monotonic() < deadline


def _levels(out: Path) -> dict[str, dict[str, float]]:
    """What each trial has measured, round by round; nothing while there is no session yet."""
    return {entry["label"]: entry["data"]["levels"] for entry in _lines(out) if entry["kind"] == "trial"}


def _results(out: Path) -> list[dict[str, Any]]:
    return [entry["data"] for entry in _lines(out) if entry["kind"] == "result"]


def _lines(out: Path) -> Iterator[dict[str, Any]]:
    session = out / "session.jsonl"
    for line in session.read_bytes().split(b"\n")[1:] if session.is_file() else []:
        with contextlib.suppress(ValueError):  # cut off by the kill
            yield json.loads(line)
