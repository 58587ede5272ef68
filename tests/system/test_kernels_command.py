"""Custom kernels as a user has them: start one, test it, try it in the model, run the result; and wrong usage."""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING

import numpy as np
import pytest
from commandline import QUICK, hasten
from tests.model_builder import ModelBuilder

from hasten.model.build_graph import Spec

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


@pytest.mark.slow
def test_a_tuning_with_kernels_ships_their_library(tmp_path: Path, cache: dict[str, str]) -> None:
    """MIRROR_PAD takes nearly all of the time, so that load on the machine cannot hide what the kernel brings."""
    g = ModelBuilder()
    x, paddings = g.input("x", (1, 96, 96, 32)), g.constant(np.array([[0, 0], [8, 8], [8, 8], [0, 0]], np.int32))
    spec = Spec((1, 112, 112, 32))
    (padded,) = g.operator("MIRROR_PAD", [g.relu(x), paddings], [spec], options_type="MirrorPadOptions", mode=0)
    g.output(padded, "y")
    model, out = g.write(tmp_path / "m.tflite"), tmp_path / "out"
    options = ("--kernels", "--no-mix", "--only-race", "--recipe", "float16", "--budget", "90s", "--json")
    done = hasten("tune", model, "-o", out, *options, environment=cache)
    assert done.code == 0, done.errors
    found = done.json()
    assert found["best"]["variant"] == "kernels", found["verdict"]
    assert [step["practice"] for step in found["steps"]][-1] == "operators"
    (operators,) = [finding for finding in found["verdicts"] if finding["practice"] == "operators"]
    assert operators["verdict"] == "improved"
    shipped = out / "kernels" / "libhasten_kernels"
    assert {"libhasten_kernels.so", "mirror_pad.c", "BUILD.md"} <= {path.name for path in shipped.iterdir()}
    np.save(tmp_path / "x.npy", np.ones((1, 96, 96, 32), np.float32))
    assert hasten("run", out, "--input", tmp_path / "x.npy").code == 3, "a bundle loads a library only if asked"
    assert hasten("run", out, "--input", tmp_path / "x.npy", "--trust-bundle").code == 0
