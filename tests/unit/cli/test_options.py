"""Options that a command would ignore are refused before any work."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hasten.cli import main

if TYPE_CHECKING:
    from pathlib import Path

CUT = ("operators", "demo", "--cut", "1:2", "-o", "part.tflite")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((*CUT, "--shape", "x=1x8"), "--shape does not go with --cut."),
        ((*CUT, "--signature", "other"), "--signature does not go with --cut."),
        ((*CUT, "--kernels"), "--kernels does not go with --cut."),
        ((*CUT, "--session", "s.jsonl"), "--session does not go with --cut."),
        ((*CUT, "--preprocess", "std=255"), "--preprocess needs --data."),
        (("choose", "--get", "m", "--list"), "--list does not go with --get."),
        (("choose", "--get", "m", "--candidates", "a.tflite"), "--candidates does not go with --get."),
        (("choose", "--list", "--limit", "size=5MB"), "--limit does not go with --list."),
        (("operators", "demo", "--preprocess", "std=255"), "--preprocess needs --data."),
        (("accelerators", "demo", "--preprocess", "std=255"), "--preprocess needs --data."),
        (("bench", "demo", "--preprocess", "std=255"), "--preprocess needs --data."),
        (("bench", "demo", "--sustained", "1", "--data", "demo"), "--data does not go with --sustained."),
    ],
    ids=lambda value: " ".join(value[-2:]) if isinstance(value, tuple) else "",
)
def test_an_option_that_would_be_ignored_is_refused(
    words: tuple[str, ...],
    said: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main.main(list(words)) == 2
    assert said in capsys.readouterr().err
