"""Errors as a terminal shows them: no line is wider than it."""

from __future__ import annotations

import io
import sys
from typing import TYPE_CHECKING

from hasten.cli.output import complain

if TYPE_CHECKING:
    import pytest


class Terminal(io.StringIO):
    """Standard error where a person looks at it."""

    def isatty(self) -> bool:
        return True


def test_lines_of_a_log_are_wrapped_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("COLUMNS", "80")
    complain("The model does not run.", "Time it.", ["ERROR: this was not true; " * 10, "the last"])
    first, *log, last, hint = terminal.getvalue().splitlines()
    assert (first, last, hint) == ("hasten: The model does not run.", "  | the last", "  Time it.")
    assert len(log) > 1
    assert all(line.startswith("  | ") and len(line) <= 80 for line in log)


def test_lines_of_a_log_stay_whole_in_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    complain("The model does not run.", "", ["word " * 60])
    assert len(capsys.readouterr().err.splitlines()) == 2
