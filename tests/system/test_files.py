"""Files that are no models, or not whole: refused with exit code 3 and a sentence that names them."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from typing import TYPE_CHECKING

import pytest
from commandline import ROOT, hasten, model_file

if TYPE_CHECKING:
    from pathlib import Path


def make(kind: str, folder: Path) -> Path:
    path = folder / f"{kind}.tflite"
    sound = model_file(folder, "mobilenet_like").read_bytes()
    contents = {"text": b"This is not a model.\n", "empty": b"", "short": sound[:7], "half": sound[: len(sound) // 2]}
    if kind in contents:
        path.write_bytes(contents[kind])
    elif kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "loop":
        path.symlink_to(path)
    elif kind == "archive":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("model.tflite", sound)
    elif kind == "locked":
        path.write_bytes(sound)
        path.chmod(0)
    return path


KINDS = ("text", "empty", "short", "half", "folder", "pipe", "loop", "archive", "missing")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("command", ["bench", "profile"])
def test_what_is_no_model_is_refused(command: str, kind: str, tmp_path: Path) -> None:
    shown = hasten(command, make(kind, tmp_path))
    assert shown.code == 3, shown.errors
    assert f"{kind}.tflite" in shown.errors
    assert shown.output == ""


@pytest.mark.parametrize("kind", ["text", "missing", "half"])
def test_compare_and_trace_refuse_as_well(kind: str, tmp_path: Path) -> None:
    sound, bad = model_file(tmp_path, "one_operator"), make(kind, tmp_path)
    for arguments in (("compare", sound, bad), ("compare", bad, sound), ("trace", bad, "-o", tmp_path / "trace.json")):
        shown = hasten(*arguments)
        assert shown.code == 3
        assert f"{kind}.tflite" in shown.errors
    assert not (tmp_path / "trace.json").exists()


def test_a_device_is_no_model() -> None:
    shown = hasten("bench", "/dev/null")
    assert shown.code == 3
    assert "/dev/null" in shown.errors


def test_a_name_longer_than_any_file_has() -> None:
    for name in ("a" * 300, "a" * 300 + "@threads=2"):
        assert hasten("bench", name).code == 3


def test_an_at_sign_in_the_name_of_a_folder_is_no_plan() -> None:
    shown = hasten("bench", "icons@2x/model.tflite")
    assert shown.code == 3
    assert "icons@2x/model.tflite" in shown.errors


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
def test_a_file_without_permission(tmp_path: Path) -> None:
    shown = hasten("bench", make("locked", tmp_path))
    assert shown.code == 3
    assert "permission" in shown.errors.lower()


@pytest.mark.slow
def test_damaged_files_never_end_in_a_traceback_or_a_hang() -> None:
    """The first files of `benchmarks/robust.py`; its 2,000 are a benchmark."""
    command = [sys.executable, "-m", "benchmarks.robust", "--count", "60"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "problems: []" in done.stdout
