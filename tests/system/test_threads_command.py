"""`hasten threads` on real models, as a user calls it: short, so only what must hold at any speed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from hasten.cli.threads import _SITUATIONS
from hasten.core.plan import Plan, Workload
from hasten.core.session import read_session
from hasten.demo import MODEL
from hasten.practices.threads.facts import SITUATIONS
from hasten.targets.local import LocalTarget

if TYPE_CHECKING:
    from pathlib import Path


def _hasten(*words: str, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "hasten", *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def test_json_has_the_keys_and_the_session_every_trial(tmp_path: Path) -> None:
    finished = _hasten("threads", "demo", "--seconds", "6", "--json", "--session", "s.jsonl", folder=tmp_path)
    assert finished.returncode == 0, finished.stderr
    found = json.loads(finished.stdout)
    assert {"rows", "recommended", "why", "plot", "finding", "effect", "by_load", "doubts"} <= set(found)
    for row in found["rows"]:
        assert {"threads", "load", "median_ms", "p95_ms", "cpu_seconds"} <= set(row)
        assert 0 < row["median_ms"] <= row["p95_ms"] * 1.5
        assert row["effective_threads"] == row["threads"]
    assert 1 <= found["recommended"] <= found["cores"]
    trials = read_session(tmp_path / "s.jsonl").lines
    assert [trial.kind for trial in trials].count("measurement") >= len(found["rows"])
    assert trials[-1].kind == "finding"


def test_text_fits_a_terminal(tmp_path: Path) -> None:
    finished = _hasten("threads", "demo", "--seconds", "2", "--counts", "1,2", "--load", "shared", folder=tmp_path)
    assert finished.returncode == 0, finished.stderr
    assert "digits.tflite" in finished.stdout
    assert "use this" in finished.stdout or "undecided" in finished.stdout
    assert max(map(len, finished.stdout.splitlines())) <= 80


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["demo", "--load", "crowded"], 2),
        (["demo", "--counts", "0"], 2),
        (["demo", "--counts", "1,5000"], 2),
        (["demo@cores=9000"], 2),
        (["missing.tflite"], 3),
    ],
)
def test_wrong_usage_and_bad_models_have_their_exit_codes(words: list[str], code: int, tmp_path: Path) -> None:
    finished = _hasten("threads", *words, folder=tmp_path)
    assert finished.returncode == code, finished.stderr
    assert "Traceback" not in finished.stderr


def test_interruption_leaves_what_was_measured(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hasten", "threads", "demo", "--seconds", "600", "--session", "s.jsonl"]
    process = subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    saved = tmp_path / "s.jsonl"
    while process.poll() is None and not (saved.exists() and b'"measurement"' in saved.read_bytes()):
        pass
    os.killpg(process.pid, signal.SIGINT)
    output, errors = process.communicate()
    assert process.returncode == 130, errors
    assert "digits.tflite" in output
    assert "Interrupted." in errors
    kinds = [trial.kind for trial in read_session(saved).lines]
    assert "measurement" in kinds
    assert kinds[-2:] == ["threads", "finding"]


def test_a_plan_keeps_the_engine_to_its_cores() -> None:
    core = min(os.sched_getaffinity(0))
    with LocalTarget().start(Plan(threads=2, cores=(core,))) as runner:
        report = runner.load(MODEL, Workload())
        block = runner.block(0.1, 50)
    assert report.extra_threads == 1
    assert block.conditions.cpu_seconds <= block.conditions.wall_seconds * 1.1


def test_the_situations_of_the_command_are_those_of_the_decision() -> None:
    assert tuple(SITUATIONS) == _SITUATIONS
