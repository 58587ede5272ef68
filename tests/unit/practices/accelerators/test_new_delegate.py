"""A delegate to begin with: written into a new folder, never over anything; it builds without a warning and runs."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from hasten.core.errors import DataError, UsageError
from hasten.core.measurement import Model
from hasten.core.plan import Plan
from hasten.demo import MODEL
from hasten.measure.effort import Effort
from hasten.measure.rounds import Candidate
from hasten.model.reader import read_graph
from hasten.practices.accelerators.facts import Status
from hasten.practices.accelerators.new_delegate import FILES, write_delegate
from hasten.practices.accelerators.run import examine

if TYPE_CHECKING:
    from pathlib import Path

WARNINGS = ("-Wall", "-Wextra", "-Werror")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "some where" / "mine"
    assert [path.name for path in write_delegate(folder)] == list(FILES)
    return folder


def test_every_file_is_written(folder: Path) -> None:
    assert sorted(path.name for path in folder.iterdir()) == sorted(FILES)
    assert all(path.stat().st_size > 200 for path in folder.iterdir())
    assert "hasten accelerators" in (folder / "README.md").read_text()


def test_an_empty_folder_will_do(tmp_path: Path) -> None:
    assert len(write_delegate(tmp_path)) == len(FILES)


def test_nothing_is_overwritten(folder: Path, tmp_path: Path) -> None:
    (folder / "delegate.c").write_text("my own work")
    with pytest.raises(UsageError, match="not an empty folder"):
        write_delegate(folder)
    assert (folder / "delegate.c").read_text() == "my own work"
    file = tmp_path / "file"
    file.write_text("a file")
    with pytest.raises(UsageError, match="not an empty folder"):
        write_delegate(file)


def test_a_place_that_cannot_be_written_is_a_sentence(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(DataError, match="cannot be written"):
        write_delegate(file / "below")
    if os.geteuid() != 0:
        (tmp_path / "locked").mkdir(mode=0o500)
        with pytest.raises(DataError, match="Permission denied"):
            write_delegate(tmp_path / "locked" / "mine")


def test_it_builds_with_the_compiler_alone_and_is_examined_like_any_other(folder: Path) -> None:
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("there is no C compiler")
    library = folder / "libmydelegate.so"
    command = [compiler, "-O2", *WARNINGS, "-shared", "-fPIC", "-o", str(library), str(folder / "delegate.c")]
    subprocess.run(command, check=True)
    graph = read_graph(MODEL)
    candidate = Candidate("demo", MODEL, Model("demo", graph.size_bytes, graph.sha256))
    plans = {
        "xnnpack": Plan(),
        "builtin": Plan(kernel="builtin"),
        "mine": Plan(delegate=str(library)),
        "refusing": Plan(delegate=f"{library}:colour=red"),
    }
    _, _, mine, refusing = examine(candidate, graph, plans, Effort(1.0))
    assert (mine.status, mine.placed_ops, mine.total_ops) == (Status.PARTIAL, 8, 66)
    assert mine.max_error is not None
    assert mine.max_error < 1e-5
    assert mine.latency is not None
    assert mine.refused[0].startswith("CONV_2D")
    assert refusing.status is Status.FAILED
    assert "knows one option, device" in refusing.why.facts["message"]


def test_it_builds_with_cmake(folder: Path) -> None:
    cmake = shutil.which("cmake")
    if cmake is None:
        pytest.skip("there is no CMake")
    build = folder / "build"
    flags = f"-DCMAKE_C_FLAGS={' '.join(WARNINGS)}"
    subprocess.run([cmake, "-S", str(folder), "-B", str(build), flags], check=True, stdout=subprocess.DEVNULL)
    subprocess.run([cmake, "--build", str(build)], check=True, stdout=subprocess.DEVNULL)
    assert (build / "libmydelegate.so").is_file()
