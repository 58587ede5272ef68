"""A starting point for a kernel compiles, tests itself against LiteRT's outputs, and fits the model."""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING

import numpy as np
import pytest

from hasten.core.errors import UsageError
from hasten.core.failure import Failure
from hasten.custom_kernels.build import build_file
from hasten.custom_kernels.check import CheckRequest, KernelCheck, check_kernel
from hasten.custom_kernels.new_kernel import fitting_nodes, write_kernel
from hasten.targets.local import LocalTarget
from tests.model_builder import ModelBuilder
from tests.unit.custom_kernels.kernel_models import user_offers

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.skipif(
    shutil.which("make") is None or shutil.which("cc") is None, reason="there is no make or no C compiler"
)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """MUL by a scale for each channel, ADD of a second input, HARD_SWISH; then a convolution."""
    g = ModelBuilder()
    x, z = g.input("x", (1, 5, 5, 4)), g.input("z", (1, 5, 5, 4))
    scale = g.constant(np.linspace(-1, 2, 4).astype(np.float32))
    y = g.hard_swish(g.add(g.mul(x, scale), z, activation="relu6"))
    g.output(g.conv2d(y, 8, 3), "y")
    path = tmp_path / "model.tflite"
    path.write_bytes(g.build())
    return path


def made(folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["make", "-C", str(folder), "test"], capture_output=True, text=True, check=False)


@pytest.mark.parametrize(("name", "replaces"), [("swish", "HARD_SWISH"), ("fused chain!", "MUL,ADD,HARD_SWISH")])
def test_elementwise_chains_come_out_complete(model: Path, tmp_path: Path, name: str, replaces: str) -> None:
    folder = tmp_path / name
    written = write_kernel(folder, model, replaces, LocalTarget())
    source = next(path for path in written if path.suffix == ".c" and path.name not in ("test.c", "hasten_glue.c"))
    done = made(folder)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "warning" not in done.stderr
    assert "5 samples are right" in done.stdout
    built = build_file(source, tmp_path / "built")
    assert not isinstance(built, Failure), built
    (offer,) = user_offers(model, source.stem, replaces)
    found = check_kernel(model, offer, str(built.path), CheckRequest(LocalTarget(), tmp_path / "check"))
    assert isinstance(found, KernelCheck), found
    assert found.passed, found


def test_a_fault_in_the_source_fails_the_test(model: Path, tmp_path: Path) -> None:
    folder = tmp_path / "swish"
    write_kernel(folder, model, "HARD_SWISH", LocalTarget())
    source = folder / "swish.c"
    text = source.read_text()
    assert text.count("3.0f") > 0
    source.write_text(text.replace("3.0f", "2.0f"))
    done = made(folder)
    assert done.returncode != 0
    assert "instead of" in done.stdout


def test_other_operators_have_a_loop_to_write(model: Path, tmp_path: Path) -> None:
    folder = tmp_path / "conv"
    write_kernel(folder, model, "CONV_2D", LocalTarget())
    text = (folder / "conv.c").read_text()
    assert "typedef struct" in text, "the options of the operator are a structure"
    assert "1: float32 8x3x3x4, constant" in text
    done = made(folder)
    assert done.returncode != 0
    assert "its run function is not written yet" in done.stdout


def test_nothing_of_a_users_is_overwritten(model: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "kernel.c").write_text("precious")
    with pytest.raises(UsageError, match="not an empty folder"):
        write_kernel(tmp_path / "mine", model, "HARD_SWISH", LocalTarget())
    assert (tmp_path / "mine" / "kernel.c").read_text() == "precious"


@pytest.mark.parametrize("replaces", ["TANH", "17"])
def test_nodes_that_are_not_there(model: Path, tmp_path: Path, replaces: str) -> None:
    with pytest.raises(UsageError, match=f"has no nodes {replaces}"):
        write_kernel(tmp_path / "new", model, replaces, LocalTarget())
    assert not (tmp_path / "new").exists()


def test_a_kernel_is_tried_where_its_shapes_are(tmp_path: Path) -> None:
    def written(name: str, *strides: int) -> Path:
        g = ModelBuilder()
        y = g.input("x", (1, 8, 8, 4))
        for stride in strides:
            y = g.hard_swish(g.conv2d(y, 4, 1, stride=stride))
        g.output(y, "y")
        return g.write(tmp_path / name)

    assert fitting_nodes(written("same.tflite", 1, 1), "HARD_SWISH") == "HARD_SWISH"
    assert fitting_nodes(written("other.tflite", 1, 2), "HARD_SWISH") == "1"
