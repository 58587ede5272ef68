"""Progress as somebody sees it who waits: a bar that only grows, and that no long text pushes out."""

from __future__ import annotations

import io
import sys
from typing import TYPE_CHECKING

import pytest

from hasten.cli import progress

if TYPE_CHECKING:
    from hasten.measure.rounds import Progress

LONG = "timing, round 3 of [unknown], static_int8_min_max_but_12 is 0.531 of it; best so far: static_int8_min_max"


class Terminal(io.StringIO):
    """Standard error where a person looks at it."""

    def isatty(self) -> bool:
        return True


def advance(report: Progress) -> None:
    for share in (0.5, 0.9, 0.7, 0.0, 0.95):
        report(share, LONG)


def test_the_share_never_goes_back(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(progress, "_SECONDS_BETWEEN_LINES", 0.0)
    with progress.progress_bar("quantizing") as report:
        advance(report)
    shares = [line.split(":")[2].split(",")[0].strip() for line in capsys.readouterr().err.splitlines()]
    assert shares == ["50 %", "90 %", "90 %", "90 %", "95 %"]


@pytest.mark.parametrize("columns", [60, 80])
def test_a_long_text_is_cut_and_the_bar_and_the_clock_are_seen(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("TERM", "xterm")
    with progress.progress_bar("quantizing") as report:
        advance(report)
    seen = terminal.getvalue()
    last = [line for line in seen.replace("\r", "\n").splitlines() if "quantizing" in line][-1]
    assert "━" * 8 in last
    assert "0:00:0" in last
    assert "timing, round 3" in last
    assert "…" in last
