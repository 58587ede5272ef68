"""The README's commands run as they stand there."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import hasten.demo

_README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
_COMMANDS = re.findall(r"^\$ (hasten .+)$", _README, flags=re.MULTILINE)
# The command as it stands, but for the time that it takes.
_SHORT = {
    **dict.fromkeys(("bench", "compare", "profile", "trace", "accelerators", "threads", "check"), ("--seconds", "1")),
    "quantize": ("--seconds", "5"),
    "tune": ("--budget", "20s"),
}
_PYTHON = re.findall(r"^```python\n(.*?)^```$", _README, flags=re.MULTILINE | re.DOTALL)


def test_the_readme_has_commands_and_a_library_example() -> None:
    assert len(_COMMANDS) >= 6
    assert _PYTHON


@pytest.mark.parametrize("command", _COMMANDS)
def test_command_of_the_readme_runs(command: str, tmp_path: Path) -> None:
    words = shlex.split(command)
    option, value = _SHORT.get(words[1], ("", ""))
    if option and option not in words:
        words += [option, value]
    finished = subprocess.run([sys.executable, "-m", *words], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr
    assert finished.stdout


@pytest.mark.parametrize("code", _PYTHON)
def test_python_of_the_readme_runs(code: str, tmp_path: Path) -> None:
    (tmp_path / "model.tflite").write_bytes(hasten.demo.MODEL.read_bytes())
    finished = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr
    assert finished.stdout
