"""A disk that fills up while a command writes: the file of before stays, and nothing else is left."""

from __future__ import annotations

import resource
import subprocess
import sys
from typing import TYPE_CHECKING

import numpy as np
import pytest
from commandline import ROOT

from hasten.demo import MODEL

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

SESSION = ROOT / "tests" / "data" / "sessions" / "threads.jsonl"
ROOM = (150, 150)  # bytes of any file, less than each of the results
QUICK = ("--seconds", "0.5")
PROGRAM = f"""
from ai_edge_litert.interpreter import Interpreter
model = Interpreter(model_path={str(MODEL)!r})
model.allocate_tensors()
model.invoke()
"""
# The result's name → the command that writes it.
COMMANDS = {
    "report.html": ("report", SESSION, "-o", "report.html"),
    "report.md": ("report", SESSION, "-o", "report.md"),
    "trace.json": ("trace", "demo", *QUICK, "-o", "trace.json"),
    "profile.csv": ("profile", "demo", *QUICK, "--no-roofline", "--csv", "profile.csv"),
    "nodes.json": ("profile", "demo", *QUICK, "--no-roofline", "--model-explorer", "nodes.json"),
    "summary.md": ("check", "demo", *QUICK, "--limit", "size=1 GB", "--markdown", "summary.md"),
    "threads.svg": ("report", SESSION, "--format", "svg", "-o", "."),
    "timeline.json": ("app", "--seconds", "0", "--trace", "timeline.json", "--", sys.executable, "-c", PROGRAM),
}
# Commands whose runners need shared memory, to which that limit applies as well. They find the disk full instead.
WITH_RUNNERS = {
    "outputs.npz": ("run", "demo", "--input", "INPUT", "--output", "outputs.npz"),
    "issue.zip": ("doctor", "demo", *QUICK, "-o", "issue.zip"),
    "overlay.json": ("diff", "demo", "@threads=2", "--model-explorer", "overlay.json"),
    "part.tflite": ("operators", "demo", "--cut", "0:1", "-o", "part.tflite"),
}
FULL_DISK = """
import errno, os, sys
def full(descriptor):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
os.fsync = full
from hasten.cli.main import main
if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.parametrize("is_there", [True, False])
@pytest.mark.parametrize("name", COMMANDS)
def test_the_old_file_stays_and_nothing_else_is_left(tmp_path: Path, name: str, is_there: bool) -> None:
    words = [sys.executable, "-m", "hasten", *_forced(COMMANDS[name], is_there)]
    done = _run(words, tmp_path, name if is_there else "", lambda: resource.setrlimit(resource.RLIMIT_FSIZE, ROOM))
    assert f"{name} cannot be written: File too large." in done.stderr


@pytest.mark.parametrize("is_there", [True, False])
@pytest.mark.parametrize("name", WITH_RUNNERS)
def test_the_same_for_commands_with_runners(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, name: str, is_there: bool
) -> None:
    if is_there and name == "part.tflite":
        pytest.skip("it replaces no file")
    program = tmp_path_factory.mktemp("program") / "full.py"
    program.write_text(FULL_DISK)
    np.save(program.with_name("x.npy"), np.zeros((1, 96, 96, 1), np.float32))
    words = [str(program.with_name("x.npy")) if word == "INPUT" else word for word in WITH_RUNNERS[name]]
    done = _run([sys.executable, program, *_forced(words, is_there)], tmp_path, name if is_there else "")
    assert f"{name} cannot be written: No space left on device." in done.stderr


def _forced(words: Sequence[object], is_there: bool) -> list[str]:
    """The command, told to replace what is there."""
    name, *others = map(str, words)
    return [name, *(["--force"] if is_there else []), *others]


def _run(
    words: Sequence[object], folder: Path, old: str, limit: Callable[[], None] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command that cannot write; what was in the folder before is there, and nothing else."""
    if old:
        (folder / old).write_text("old")
    done = subprocess.run(
        [str(word) for word in words],
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
        cwd=folder,
        preexec_fn=limit,
    )
    assert done.returncode == 3, done.stderr
    assert [(one.name, one.read_text()) for one in folder.iterdir()] == ([(old, "old")] if old else [])
    return done
