"""A bundle with custom kernels: it holds library, sources and build lines, and its code registers the kernels."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import numpy as np
import pytest
from generated import bundle_of
from tests.model_builder import ModelBuilder
from tests.unit.custom_kernels.kernel_models import own_offers, with_kernels

import hasten
from hasten.bundle.code import code_files, refuse_language
from hasten.bundle.folder import read_bundle, write_bundle
from hasten.bundle.kernels import inner_path
from hasten.bundle.record import Bundle
from hasten.core.errors import DataError, UsageError
from hasten.core.plan import Plan
from hasten.demo import MODEL
from hasten.engine.library import load
from hasten.model.build_graph import Spec

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    Array = NDArray[np.float32]

PADDINGS = np.array([[0, 0], [2, 1], [1, 2], [0, 0]], np.int32)
X = np.random.default_rng(0).normal(size=(1, 6, 6, 2)).astype(np.float32)


@pytest.fixture
def original(tmp_path: Path) -> Path:
    """MIRROR_PAD and a convolution."""
    g = ModelBuilder()
    x = g.input("x", (1, 6, 6, 2))
    spec = Spec((1, 9, 9, 2))
    (padded,) = g.operator("MIRROR_PAD", [x, g.constant(PADDINGS)], [spec], options_type="MirrorPadOptions", mode=0)
    g.output(g.conv2d(padded, 4, 3), "y")
    path = tmp_path / "original.tflite"
    path.write_bytes(g.build())
    return path


@pytest.fixture
def expected(original: Path) -> Array:
    with hasten.Runner(original) as runner:
        return np.asarray(runner(X))


@pytest.fixture
def bundle(original: Path, own_library: str, tmp_path: Path) -> Bundle:
    changed = with_kernels(original, own_offers(original), tmp_path / "changed.tflite")
    return bundle_of(tmp_path, changed.read_bytes(), Plan(kernels=(own_library,)))


def test_a_bundle_brings_its_kernels_along(bundle: Bundle, expected: Array, tmp_path: Path) -> None:
    moved = tmp_path / "elsewhere"
    shutil.move(bundle.folder, moved)
    inside = moved / "kernels" / "libhasten_kernels"
    assert {"libhasten_kernels.so", "mirror_pad.c", "hasten_glue.c", "build.json", "BUILD.md"} <= {
        path.name for path in inside.iterdir()
    }
    with pytest.raises(DataError, match="loads the kernel library"):
        read_bundle(moved)
    with hasten.Runner(moved, trust_bundle=True) as runner:
        np.testing.assert_array_equal(runner(X), expected)


@pytest.mark.slow
def test_its_sources_build_by_the_line_that_lies_beside_them(bundle: Bundle) -> None:
    inside = bundle.folder / "kernels" / "libhasten_kernels"
    line = next(line.strip() for line in (inside / "BUILD.md").read_text().splitlines() if line.startswith("    cc "))
    (inside / "libhasten_kernels.so").unlink()
    done = subprocess.run(line, shell=True, cwd=inside, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (inside / "libhasten_kernels.so").is_file()


def test_the_python_code_runs_the_kernels(bundle: Bundle, tmp_path: Path) -> None:
    moved = tmp_path / "elsewhere"
    shutil.move(bundle.folder, moved)
    program = moved / "code" / "run_model.py"
    assert "'kernels/libhasten_kernels/libhasten_kernels.so'" in program.read_text()
    done = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("y ")


@pytest.mark.skipif(shutil.which("g++") is None, reason="g++ is not installed")
def test_the_cpp_code_registers_the_kernels(bundle: Bundle, expected: Array, tmp_path: Path) -> None:
    source, program, folder = bundle.folder / "code" / "fast_model.cpp", tmp_path / "fast_model", load().folder
    command = ["g++", "-std=c++17", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-DFAST_MODEL_MAIN", str(source)]
    command += ["-o", str(program), f"-L{folder}", "-lLiteRt", f"-Wl,-rpath,{folder}", "-ldl"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    given, result = tmp_path / "x.bin", tmp_path / "y.bin"
    X.tofile(given)
    run = [str(program), str(bundle.model_path), str(given), str(result)]
    done = subprocess.run(run, capture_output=True, text=True, check=False, env=dict(os.environ))
    assert done.returncode == 0, done.stderr
    np.testing.assert_array_equal(np.fromfile(result, np.float32).reshape(expected.shape), expected)
    shutil.rmtree(bundle.folder / "kernels")
    done = subprocess.run(run, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "libhasten_kernels.so cannot be loaded" in done.stderr


def test_kotlin_takes_no_kernels(bundle: Bundle) -> None:
    assert not any(name.endswith(".kt") for name in code_files(bundle))
    with pytest.raises(UsageError, match="hasten writes no kotlin code"):
        refuse_language("kotlin", bundle)


def test_a_library_of_the_users_own_comes_alone(tmp_path: Path) -> None:
    (tmp_path / "libmine.so").write_bytes(b"code")
    (tmp_path / "private.txt").write_text("mine")
    bundle = write_bundle(MODEL, Bundle(tmp_path / "out", plan=Plan(kernels=(str(tmp_path / "libmine.so"),))))
    assert [path.name for path in (tmp_path / "out" / "kernels" / "libmine").iterdir()] == ["libmine.so"]
    assert inner_path(bundle.folder, bundle.plan.kernels[0]) == "kernels/libmine/libmine.so"
    again = write_bundle(MODEL, bundle)
    assert again.plan.kernels == bundle.plan.kernels, "written again from itself"


def test_kernels_in_python_cannot_be_shipped(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"cannot carry the kernels in mine\.py"):
        write_bundle(MODEL, Bundle(tmp_path / "out", plan=Plan(kernels=("lib.so:mine.py",))))


def test_a_missing_library_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"gone\.so is missing"):
        write_bundle(MODEL, Bundle(tmp_path / "out", plan=Plan(kernels=(str(tmp_path / "gone.so"),))))


def test_two_libraries_of_one_name_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="have one name"):
        write_bundle(MODEL, Bundle(tmp_path / "out", plan=Plan(kernels=("a/libk.so", "b/libk.so"))))
