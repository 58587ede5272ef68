"""A data function that shuffles at each call: every command that goes over data says so, exit 3."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from commandline import hasten
from tests.example_models import mobilenet_like

if TYPE_CHECKING:
    from pathlib import Path

_DATA = """
import itertools
import numpy as np
calls = itertools.count()
images = np.random.default_rng(0).random((40, 16, 16, 3), np.float32)
def shuffled():
    for number in np.roll(np.random.default_rng(1).permutation(40), next(calls)):
        yield images[number], None
def fixed():
    for number in np.random.default_rng(1).permutation(40):
        yield images[number], None
"""
SHORT = ("--recipe", "float16", "--seconds", "0.1", "--no-mix", "-o", "out")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "tiny.tflite").write_bytes(mobilenet_like(8, 1, 16))
    (tmp_path / "mine.py").write_text(_DATA)
    return tmp_path


@pytest.mark.parametrize(
    "command",
    [
        ("quantize", "tiny.tflite", *SHORT),
        ("tune", "tiny.tflite", "--budget", "5s", "-o", "out"),
        ("compare", "tiny.tflite", "tiny.tflite", "--explain", "--seconds", "0.1"),
        ("accelerators", "tiny.tflite", "--seconds", "0.1"),
        ("check", "tiny.tflite", "--limit", "max_drop=1%", "--baseline-model", "tiny.tflite", "--seconds", "0.1"),
    ],
    ids=lambda command: command[0],
)
def test_a_shuffle_is_told_with_what_to_do(command: tuple[str, ...], folder: Path) -> None:
    done = hasten(*command, "--data", "mine:shuffled", cwd=folder)
    assert done.code == 3, done.output + done.errors
    said = " ".join(done.errors.split())
    assert "mine:shuffled gives other samples at each call" in said
    assert "with a seed that is set in the function" in said


@pytest.mark.slow
def test_a_shuffle_with_a_seed_is_data_like_other(folder: Path) -> None:
    done = hasten("quantize", "tiny.tflite", *SHORT, "--data", "mine:fixed", "--json", cwd=folder)
    assert done.code == 0, done.errors
    assert done.json()["variants"][1]["choosing"]["value"] == 1
