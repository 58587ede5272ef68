"""The commands of README.md and docs/tour.md run as they stand there, one after the other in one folder."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import hasten.demo

_ROOT = Path(__file__).parents[2]
_TEXT = "\n".join((_ROOT / path).read_text(encoding="utf-8") for path in ("README.md", "docs/tour.md"))
_CONSOLES = re.findall(r"^```console\n(.*?)^```$", _TEXT, flags=re.MULTILINE | re.DOTALL)
# Each command with the output that the README shows below it, if it shows any.
_COMMANDS = [
    (command, shown)
    for console in _CONSOLES
    for command, shown in re.findall(r"^\$ (hasten .+)\n((?:(?!\$ ).*\n)*)", console, flags=re.MULTILINE)
]
# The command as it stands, but for the time that it takes.
_SHORT = {
    **dict.fromkeys(
        ("bench", "compare", "profile", "trace", "operators", "accelerators", "threads", "check", "copies", "doctor"),
        ("--seconds", "1"),
    ),
    "choose": ("--seconds", "5"),
    "app": ("--seconds", "0"),
    "quantize": ("--seconds", "5"),
    "tune": ("--budget", "20s"),
}
# These take long however short they are asked to be.
_LONG = ("hasten quantize", "--for size", "hasten accelerators", "hasten diff")
_PYTHON = re.findall(r"^```python\n(.*?)^```$", _TEXT, flags=re.MULTILINE | re.DOTALL)


def test_the_readme_has_commands_and_a_library_example() -> None:
    assert len(_COMMANDS) >= 6
    assert _PYTHON
    assert not any(shown.strip() == "..." for _, shown in _COMMANDS), "make readme fills in what commands print"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the README's reader has at hand: the program of its example, and a picture."""
    place = tmp_path_factory.mktemp("readme")
    (place / "app.py").write_bytes((_ROOT / "docs" / "app.py").read_bytes())
    with np.load(hasten.demo.DATA) as data:
        np.save(place / "image.npy", data["x"][:1].astype(np.float32))
    return place


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        pytest.param(*entry, marks=pytest.mark.slow if any(part in entry[0] for part in _LONG) else ())
        for entry in _COMMANDS
    ],
)
def test_command_of_the_readme_runs_and_prints_what_it_shows(command: str, shown: str, folder: Path) -> None:
    finished = subprocess.run(
        [sys.executable, "-m", *_shortened(shlex.split(command))],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    # In the short time of a test, beside other tests, a gate may come to no verdict, and then says so.
    is_open = "hasten check" in command and finished.stdout.startswith("Undecided")
    assert finished.returncode == 0 or is_open, finished.stdout + finished.stderr
    assert finished.stdout
    # Of a watched program, standard output is its own.
    assert _labels(shown) <= _labels(finished.stdout + finished.stderr)


def _labels(text: str) -> set[str]:
    """The shape of an output: the names at the left of its facts, and the headings of its tables."""
    facts = re.findall(r"^ {2}([a-zA-Z][^\d\n]*?) {2,}\S", text, flags=re.MULTILINE)
    # A short tuning may find no step, and its verdicts vary: a heading of a table begins with a small letter.
    wide = [line for line in text.splitlines() if len(re.findall(r"\S {2,}\S", line)) > 1]
    headings = [
        line for line in wide if line[0].islower() and not line.startswith("step ") and not re.search(r"\d", line)
    ]
    return {*facts, *(" ".join(line.split()) for line in headings)}


def _shortened(words: list[str]) -> list[str]:
    option, value = _SHORT.get(words[1], ("", ""))
    if option in words:
        words[words.index(option) + 1] = value
    elif option:
        words[2:2] = [option, value]
    return [sys.executable if word == "python" else word for word in words]


@pytest.mark.slow
@pytest.mark.parametrize("code", _PYTHON)
def test_python_of_the_readme_runs(code: str, tmp_path: Path) -> None:
    (tmp_path / "model.tflite").write_bytes(hasten.demo.MODEL.read_bytes())
    finished = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr
    assert finished.stdout
