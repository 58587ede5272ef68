"""`hasten retrain` as a user has it: a new model, the list of its test part, JSON, a session, and clear refusals."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from commandline import hasten

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("retrain")


@pytest.mark.timeout(200)
def test_the_demo_is_retrained_on_its_own_images(place: Path) -> None:
    session = place / "session.jsonl"
    kept = ("--json", "--session", session, "--samples", "200")
    done = hasten("retrain", "demo", "--data", "demo", "-o", place / "new.tflite", *kept)
    found = done.json()
    assert done.code == 0
    assert found["accuracy"]["test"] > 0.9
    assert found["written"]["same"] == found["written"]["samples"]
    assert len(found["classes"]) == 10
    bench = hasten("bench", place / "new.tflite", "--seconds", "0.5", "--json")
    assert bench.json()["latency"]["median_ms"] > 0
    report = hasten("report", session, "--format", "md")
    assert "Retraining" in report.output


@pytest.mark.slow
@pytest.mark.timeout(200)
def test_it_shows_what_was_learned_and_what_to_do_next(place: Path) -> None:
    done = hasten("retrain", "demo", "--data", "demo", "-o", place / "shown.tflite", "--samples", "150")
    assert done.code == 0
    assert "5 nearest neighbors" in done.output
    assert "hasten tune" in done.output


def test_what_cannot_be_retrained_has_its_exit_code(place: Path) -> None:
    (place / "there.tflite").write_text("mine")
    there = hasten("retrain", "demo", "--data", "demo", "-o", place / "there.tflite")
    assert (there.code, "already exists" in there.errors) == (2, True)
    missing = hasten("retrain", "demo", "--data", "nowhere", "-o", place / "other.tflite")
    assert (missing.code, "nowhere" in missing.errors) == (3, True)
