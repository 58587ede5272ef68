"""A disk that fills up while a command writes: the file of before stays, and nothing else is left."""

from __future__ import annotations

import resource
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from commandline import ROOT

if TYPE_CHECKING:
    from pathlib import Path

SESSION = ROOT / "tests" / "data" / "sessions" / "threads.jsonl"
ROOM = 150  # bytes of any file, less than each of the results
QUICK = ("--seconds", "0.5")
# The result's name → the command that writes it.
COMMANDS = {
    "report.html": ("report", SESSION, "-o", "report.html"),
    "report.md": ("report", SESSION, "-o", "report.md"),
    "trace.json": ("trace", "demo", *QUICK, "-o", "trace.json"),
    "profile.csv": ("profile", "demo", *QUICK, "--no-roofline", "--csv", "profile.csv"),
    "nodes.json": ("profile", "demo", *QUICK, "--no-roofline", "--model-explorer", "nodes.json"),
    "summary.md": ("check", "demo", *QUICK, "--limit", "size=1 GB", "--markdown", "summary.md"),
    "threads.svg": ("report", SESSION, "--format", "svg", "-o", "."),
}


@pytest.mark.parametrize("is_there", [True, False])
@pytest.mark.parametrize("name", COMMANDS)
def test_the_old_file_stays_and_nothing_else_is_left(tmp_path: Path, name: str, is_there: bool) -> None:

    if is_there:
        (tmp_path / name).write_text("old")
    done = subprocess.run(
        [sys.executable, "-m", "hasten", *map(str, COMMANDS[name]), *(["--force"] if is_there else [])],
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
        cwd=tmp_path,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (ROOM, ROOM)),
    )
    assert done.returncode == 3, done.stderr
    assert f"{name} cannot be written: File too large." in done.stderr
    assert [(one.name, one.read_text()) for one in tmp_path.iterdir()] == ([(name, "old")] if is_there else [])
