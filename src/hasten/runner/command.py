"""The command that starts a runner with a given Python."""

from __future__ import annotations

# `-m` would look for modules in the working directory first: a user's own random.py there would break the runner.
_CODE = "import sys; sys.path[:] = [p for p in sys.path if p]; from hasten.runner.__main__ import main; main()"


def runner_command(python: str, accelerator: str, memory_mb: int) -> list[str]:
    """The program and its arguments; `memory_mb` 0 is no limit."""
    return [python, "-c", _CODE, "--accelerator", accelerator, "--memory-mb", str(memory_mb)]
