"""`python -m hasten.runner`: the program that runs on the device, speaking `protocol` on standard input and output."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from hasten.core.errors import HastenError
from hasten.core.plan import ACCELERATORS, Plan
from hasten.engine.accelerators import process_environment
from hasten.runner.serving import serve

if TYPE_CHECKING:
    from collections.abc import Callable

    from hasten.runner.protocol import Message

_PREPARED = "HASTEN_RUNNER_PREPARED"


def main() -> None:
    """Serve until the other side closes."""
    parser = argparse.ArgumentParser(prog="python -m hasten.runner")
    parser.add_argument("--accelerator", default="cpu", choices=ACCELERATORS)
    parser.add_argument("--memory-mb", type=int, default=0, help="limit of private memory; 0: 75 %% of the machine's")
    parser.add_argument("--store", type=Path, help="refuse model files outside of this folder")
    parser.add_argument("--samples", type=Path, help="folder for samples that evaluations share")
    parser.add_argument("--lifeline", default="", help="named pipe of the agent that this runner ends with")
    arguments = parser.parse_args()
    _prepare_environment(arguments.accelerator)
    serve(lambda: _create_answer(arguments.store, arguments.samples), arguments.memory_mb, arguments.lifeline)


def _create_answer(store: Path | None, samples: Path | None) -> Callable[[Message], Message]:
    """Late, as what the engine's libraries print belongs in the log."""
    from hasten.runner.server import Server

    return Server(store, samples).answer


def _prepare_environment(accelerator: str) -> None:
    """Start over with the variables that the accelerator's libraries read at a process's start."""
    if os.environ.pop(_PREPARED, None):
        return
    with contextlib.suppress(HastenError):  # loading the model reports what is missing
        needed = process_environment(Plan(accelerator=accelerator))
        if needed:
            command = [sys.executable, *sys.orig_argv[1:]]  # however this runner was started: installed, or as a zip
            os.execve(sys.executable, command, {**os.environ, **needed, _PREPARED: "1"})


if __name__ == "__main__":
    main()
