"""Tools of this machine, such as a compiler: a command that is run to its end."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

from hasten.core.failure import NOT_INSTALLED, Failure

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


def run_tool(command: Sequence[str], *, folder: Path | None = None, seconds: float = 120.0) -> str | Failure:
    """Run a command; what it printed, or a Failure with its last lines."""
    name = command[0].rsplit("/", 1)[-1]
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=seconds,
            check=False,
            start_new_session=True,
        )
    except FileNotFoundError:
        message = f"The program {command[0]} was not found."
        return Failure("make", "target", message, f"Install {name}, or give its path.", code=NOT_INSTALLED)
    except OSError as error:
        return Failure("make", "target", f"{name} does not start: {error.strerror or error}.")
    except subprocess.TimeoutExpired:
        return Failure("make", "hang", f"{name} did not end within {seconds:g} s and was stopped.")
    printed = done.stdout.decode(errors="replace")
    if done.returncode == 0:
        return printed
    lines = tuple(line for line in printed.splitlines() if line.strip())
    return Failure("make", "target", f"{name} failed with status {done.returncode}.", log=lines[-20:])
