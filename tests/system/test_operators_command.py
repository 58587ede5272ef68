"""Nodes that a user cuts out, and commands that can be pasted into a shell whatever a file is called."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from commandline import hasten
from tests.model_builder import ModelBuilder

if TYPE_CHECKING:
    from pathlib import Path

HOSTILE = "; touch owned; #"


def small_model(path: Path) -> Path:
    g = ModelBuilder()
    g.output(g.hard_swish(g.conv2d(g.input("x", (1, 4, 4, 3)), 2, 3)), "y")
    return g.write(path)


def test_a_part_and_its_inputs_have_two_files(tmp_path: Path) -> None:
    model = small_model(tmp_path / "m.tflite")
    shown = hasten("operators", model, "--cut", "0:1", "-o", tmp_path / "part.npz")
    assert shown.code == 2
    assert "part.npz is named for two results." in shown.errors
    assert not (tmp_path / "part.npz").exists()


def test_what_cannot_be_recorded_or_written_leaves_nothing(tmp_path: Path) -> None:
    model = small_model(tmp_path / "m.tflite")
    part = tmp_path / "part.tflite"
    assert hasten("operators", model, "--cut", "0:1", "--data", "nowhere", "-o", part).code == 3
    assert not part.exists()
    denied = hasten("operators", model, "--cut", "0:1", "-o", "/proc/part.tflite")
    assert (denied.code, "cannot be written" in denied.errors) == (3, True)


def test_a_file_in_place_of_the_folder_is_left_alone(tmp_path: Path) -> None:
    model, mine = small_model(tmp_path / "m.tflite"), tmp_path / "mine.txt"
    mine.write_text("precious")
    for options in (("-o", mine), ("--kernel-delegate", mine / "x"), ("--new-kernel", mine, "--for", "HARD_SWISH")):
        shown = hasten("operators", model, *options)
        assert shown.code in (2, 3, 4), shown.errors
        assert "mine.txt" in shown.errors
        assert "XDG_CACHE_HOME" not in shown.errors
    assert mine.read_text() == "precious"


def test_commands_to_paste_are_quoted(tmp_path: Path) -> None:
    model = small_model(tmp_path / f"{HOSTILE}.tflite")
    cut = hasten("operators", model.name, "--cut", "1", "--private", "-o", f"{HOSTILE}part.tflite", cwd=tmp_path)
    assert cut.code == 0, cut.errors
    assert shlex.join(["hasten", "bench", f"{HOSTILE}part.tflite"]) in cut.output
    options = ("--new-kernel", HOSTILE, "--for", "HARD_SWISH")
    started = hasten("operators", model.name, *options, cwd=tmp_path)
    assert started.code == 0, started.errors
    assert shlex.join(["make", "-C", HOSTILE, "test"]) in started.output
    assert shlex.join(["hasten", "operators", model.name, "--kernel-file"]) in started.output
    manual = (tmp_path / HOSTILE / "README.md").read_text()
    assert shlex.join(["hasten", "operators", model.name, "--kernel-file"]) in manual
