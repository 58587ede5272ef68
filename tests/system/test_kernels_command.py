"""Custom kernels as a user has them: start one, test it, try it in the model, run the result; and wrong usage."""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest
from commandline import QUICK, hasten
from tests.model_builder import ModelBuilder

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.skipif(
    shutil.which("make") is None or shutil.which("cc") is None, reason="there is no make or no C compiler"
)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A convolution and HARD_SWISH."""
    g = ModelBuilder()
    g.output(g.hard_swish(g.conv2d(g.input("x", (1, 8, 8, 3)), 8, 3)), "y")
    return g.write(tmp_path / "m.tflite")


@pytest.fixture
def cache(tmp_path: Path) -> dict[str, str]:
    return {"XDG_CACHE_HOME": str(tmp_path / "cache")}


@pytest.mark.slow
def test_from_a_starting_point_to_a_model_that_is_timed(model: Path, tmp_path: Path, cache: dict[str, str]) -> None:
    folder = tmp_path / "swish"
    started = hasten("operators", model, "--new-kernel", folder, "--for", "HARD_SWISH", environment=cache)
    assert started.code == 0, started.errors
    assert f"make -C {folder} test" in started.output
    done = subprocess.run(["make", "-C", str(folder), "test"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    source, out = folder / "swish.c", tmp_path / "out"
    options = ("--kernel-file", source, "--for", "HARD_SWISH", "--seconds", "4", "-o", out, "--json")
    tried = hasten("operators", model, *options, environment=cache)
    assert tried.code == 0, tried.errors
    (row,) = [row for row in tried.json()["tried"] if row["what"] == "kernel-swish"]
    assert row["max_error"] is not None, row
    assert row["max_error"] < 1e-5
    assert row["ratio"] is not None, "it was timed against the original"


def test_a_kernel_library_that_is_missing(model: Path) -> None:
    shown = hasten("bench", model, *QUICK, "--kernel-library", "/nowhere/lib.so")
    assert shown.code == 4
    assert "There is no kernel library at /nowhere/lib.so." in shown.errors


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--for", "HARD_SWISH"), "--for HARD_SWISH has no kernel."),
        (("--new-kernel", "new"), "--new-kernel needs the nodes that it is for."),
        (("--new-kernel", "new", "--for", "TANH"), "has no nodes TANH."),
        (("--kernel-file", "mine.txt", "--for", "HARD_SWISH", "--seconds", "1"), "mine.txt is not a C file."),
    ],
)
def test_wrong_usage(model: Path, tmp_path: Path, options: tuple[str, ...], said: str) -> None:
    shown = hasten("operators", model, *options, cwd=tmp_path)
    assert shown.code == 2, shown.errors
    assert said in " ".join(shown.errors.split())
    assert not (tmp_path / "new").exists()


@pytest.mark.slow
def test_a_source_that_does_not_compile_shows_the_compilers_words(
    model: Path, tmp_path: Path, cache: dict[str, str]
) -> None:
    (tmp_path / "mine.c").write_text("int mine(void) { return missing; }\n")
    options = ("--kernel-file", tmp_path / "mine.c", "--for", "HARD_SWISH", "--seconds", "2")
    shown = hasten("operators", model, *options, environment=cache)
    assert shown.code == 4
    assert "The kernels mine were not built" in shown.errors
    assert "missing" in shown.errors
