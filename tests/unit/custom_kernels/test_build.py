"""Libraries are built once, whole or not at all; a missing compiler and a wrong source are sentences."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

import pytest

from hasten.core.errors import UsageError
from hasten.core.failure import NOT_INSTALLED, Failure
from hasten.custom_kernels import build as building
from hasten.custom_kernels.build import (
    BuiltLibrary,
    Toolchain,
    build,
    build_file,
    build_lines,
    build_own,
    build_python,
    cross_toolchain,
    default_folder,
)
from hasten.engine.kernel_libraries import KernelLibrary
from hasten.targets.tool import run_tool

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

KERNEL = """
#include "hasten_kernel.h"
static int shapes(HastenCall* call) { hasten_same_shape(&call->outputs[0], &call->inputs[0]); return 0; }
static int run(HastenCall* call) { (void)call; return 0; }
const HastenKernel hasten_kernel_table[] = {{"nothing", NULL, shapes, run, NULL}, {NULL, NULL, NULL, NULL, NULL}};
"""


def test_own_kernels_are_all_there(own_library: str) -> None:
    names = KernelLibrary(own_library).kernel_names
    kinds = ("strided_slice", "mirror_pad", "cumsum", "arg_max", "gather", "floor_div", "floor_mod", "layer_norm")
    assert names == tuple(f"hasten.{kind}" for kind in kinds)


def test_what_was_built_is_not_built_again(
    own_kernels: Path, own_library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Sequence[str]] = []
    true_run = run_tool

    def watched(command: Sequence[str], **more: object) -> str | Failure:
        asked.append(command)
        return true_run(command, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(building, "run_tool", watched)
    again = build_own(own_kernels)
    assert isinstance(again, BuiltLibrary)
    assert str(again.path) == own_library
    assert [command[-1] for command in asked] == ["--version"]


def test_a_library_lies_beside_its_sources_and_its_command(shared: Path, own_library: str) -> None:
    built = build_own(shared)
    assert isinstance(built, BuiltLibrary)
    folder = built.path.parent
    assert {"floor.c", "hasten_glue.c", "hasten_kernel.h", "movement.h"} <= set(built.sources)
    assert all((folder / source).is_file() for source in built.sources)
    assert json.loads((folder / "build.json").read_text())["command"] == list(built.command)
    text = (folder / "BUILD.md").read_text()
    assert "aarch64-linux-android" in text
    assert "ziglang" in text


def test_another_source_gets_another_folder(tmp_path: Path, shared: Path) -> None:
    first, second = (build("nothing", {"nothing.c": text.encode()}, tmp_path) for text in (KERNEL, KERNEL + "\n"))
    assert isinstance(first, BuiltLibrary)
    assert isinstance(second, BuiltLibrary)
    assert first.path.parent != second.path.parent


def test_a_source_that_does_not_compile(tmp_path: Path, shared: Path) -> None:
    source = tmp_path / "broken.c"
    source.write_text("int main(void) { return missing; }\n")
    failure = build_file(source, tmp_path / "built")
    assert isinstance(failure, Failure)
    assert failure.message.startswith("The kernels broken were not built: ")
    assert any("missing" in line for line in failure.log), "the compiler's words are there"
    assert list((tmp_path / "built").iterdir()) == [], "nothing half-made stays"


def test_no_compiler_is_a_sentence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setattr(shutil, "which", lambda _name: None)
    failure = build_own(tmp_path)
    assert isinstance(failure, Failure)
    assert (failure.code, "C compiler" in failure.message) == (NOT_INSTALLED, True)
    assert "apt-get install gcc" in failure.hint


def test_a_compiler_that_is_not_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CC", "/nowhere/cc --fast")
    failure = build_own(tmp_path)
    assert isinstance(failure, Failure)
    assert failure.code == NOT_INSTALLED
    assert "/nowhere/cc" in failure.message


def test_headers_beside_a_source_are_found(tmp_path: Path, shared: Path) -> None:
    (tmp_path / "mine.h").write_text("#define MINE 1\n")
    (tmp_path / "mine.c").write_text('#include "mine.h"\n' + KERNEL + "int mine = MINE;\n")
    built = build_file(tmp_path / "mine.c", tmp_path / "built")
    assert isinstance(built, BuiltLibrary), built
    assert KernelLibrary(str(built.path)).kernel_names == ("nothing",)


@pytest.mark.parametrize("name", ["kernel.txt", "kernel.cpp"])
def test_other_files_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match="is not a C file"):
        build_file(tmp_path / name, tmp_path)


def test_a_file_that_is_missing(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        build_file(tmp_path / "kernel.c", tmp_path)


def test_a_python_file_gets_an_empty_library(tmp_path: Path, shared: Path) -> None:
    source = tmp_path / "kernels.py"
    source.write_text("")
    setting = build_python(source, tmp_path / "built")
    assert isinstance(setting, str)
    library, _, behind = setting.partition(":")
    assert behind == str(source.resolve())
    assert KernelLibrary(library).kernel_names == ()


def test_a_library_for_another_machine_has_no_instructions_of_this_one() -> None:
    toolchain = cross_toolchain("aarch64-linux-gnu")
    assert not toolchain.is_native
    assert toolchain.command[-2:] == ("-target", "aarch64-linux-gnu")
    lines = build_lines("k", ["k.c", "hasten_glue.c", "hasten_kernel.h"])
    assert all("-o libk.so hasten_glue.c k.c -lm" in line for line in lines.values())
    assert [where for where, line in lines.items() if "-march=native" in line] == ["this machine"]


def test_a_missing_cross_compiler_is_a_sentence(tmp_path: Path) -> None:
    failure = build_own(tmp_path, Toolchain(("/nowhere/zig", "cc"), is_native=False))
    assert isinstance(failure, Failure)
    assert (failure.code, failure.hint) == (NOT_INSTALLED, "Run pip install ziglang.")


def test_a_cross_library_is_built_without_native_flags(tmp_path: Path, shared: Path) -> None:
    built = build("nothing", {"nothing.c": KERNEL.encode()}, tmp_path, Toolchain(("cc",), is_native=False))
    assert isinstance(built, BuiltLibrary)
    assert "-march=native" not in built.command


def test_the_cache_follows_the_users_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_folder() == tmp_path / "hasten" / "kernels"
