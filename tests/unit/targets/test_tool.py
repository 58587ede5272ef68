"""A tool's output, or a Failure that says what became of it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from hasten.core.failure import NOT_INSTALLED, Failure
from hasten.targets.tool import run_tool

if TYPE_CHECKING:
    from pathlib import Path


def test_what_a_tool_prints_comes_back(tmp_path: Path) -> None:
    code = "import os, sys; print(os.getcwd()); print('more', file=sys.stderr)"
    printed = run_tool((sys.executable, "-c", code), folder=tmp_path)
    assert isinstance(printed, str)
    assert set(printed.split()) == {str(tmp_path.resolve()), "more"}


def test_a_tool_that_fails_gives_its_last_words() -> None:
    failure = run_tool((sys.executable, "-c", "print('wrong here'); raise SystemExit(3)"))
    assert isinstance(failure, Failure)
    assert "failed with status 3" in failure.message
    assert failure.log == ("wrong here",)


def test_a_tool_that_is_missing_or_no_program(tmp_path: Path) -> None:
    missing = run_tool(("/nowhere/cc", "--version"))
    assert isinstance(missing, Failure)
    assert (missing.code, "/nowhere/cc" in missing.message) == (NOT_INSTALLED, True)
    (tmp_path / "cc").write_text("no program")
    refused = run_tool((str(tmp_path / "cc"),))
    assert isinstance(refused, Failure)
    assert "does not start" in refused.message


def test_a_tool_that_does_not_end_is_stopped() -> None:
    failure = run_tool((sys.executable, "-c", "while True: pass"), seconds=0.3)
    assert isinstance(failure, Failure)
    assert failure.kind == "hang"
