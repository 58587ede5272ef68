"""A file that cannot be written costs no result: the result is shown, and then what could not be saved."""

from __future__ import annotations

import errno
import json
import os
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

from hasten.cli import options, presenting
from hasten.cli.files import write_beside
from hasten.cli.main import main
from hasten.cli.unsaved import UNSAVED
from hasten.core.errors import DataError
from hasten.core.session import SessionWriter

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def full(monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that has no room left."""

    def refuse(_descriptor: int) -> NoReturn:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", refuse)


@pytest.mark.usefixtures("full")
@pytest.mark.parametrize("form", ["text", "json"])
def test_a_verdict_is_shown_before_the_error_of_its_file(
    form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    summary = tmp_path / "summary.md"
    words = ["check", "demo", "--limit", "size=1 GB", "--seconds", "0.2", "--markdown", str(summary)]
    assert main([*words, *(["--json"] if form == "json" else [])]) == DataError.exit_code
    shown, errors = capsys.readouterr()
    assert json.loads(shown)["verdict"] == "passed" if form == "json" else "Passed: 1 limit kept." in shown
    assert f"{summary} cannot be written: No space left on device." in errors
    assert "Make room there" in errors


@pytest.mark.usefixtures("full")
def test_a_measurement_goes_on_where_its_session_cannot_be_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    keep = options.keep_in(SessionWriter(tmp_path / "s.jsonl"))
    keep("trial", "a", {})
    keep("trial", "b", {})
    assert UNSAVED.told(0) == DataError.exit_code
    assert capsys.readouterr().err.count("s.jsonl cannot be written") == 1


@pytest.mark.usefixtures("full")
def test_the_exit_code_of_a_result_stands(tmp_path: Path) -> None:
    assert not write_beside(tmp_path / "x", "text", force=False)
    assert UNSAVED.told(1) == 1
    assert UNSAVED.told(0) == 0


def test_what_was_found_before_an_error_of_writing_is_used(capsys: pytest.CaptureFixture[str]) -> None:
    def measure() -> Any:
        error = DataError("The folder cannot be written.")
        error.found = "a result"
        raise error

    assert presenting.completed(measure) == ("a result", False)
    assert not capsys.readouterr().err
    assert UNSAVED.told(0) == DataError.exit_code


def test_a_session_that_cannot_begin_leaves_no_empty_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unwritable(_path: Path, _mode: str) -> Any:
        return open("/dev/full", "ab", buffering=0)  # noqa: PTH123 - Path.open is what is replaced

    path = tmp_path / "s.jsonl"
    path.touch()
    monkeypatch.setattr(type(path), "open", unwritable)
    with pytest.raises(DataError, match="cannot be written") as raised:
        SessionWriter(path).begin()
    assert "saved so far" not in raised.value.hint
    assert not path.exists()
