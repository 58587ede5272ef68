"""This machine: each runner is a child process of its own."""

from __future__ import annotations

import sys
from functools import cached_property
from typing import TYPE_CHECKING, Final

from hasten.core.errors import HastenError
from hasten.core.failure import RunnerFailed, failure_from_error
from hasten.targets.background_load import NAME, ProcessLoad, load_arguments
from hasten.targets.base import Capabilities, Limits
from hasten.targets.client import RunnerClient, runner_arguments
from hasten.targets.link import ProcessLink, Program

if TYPE_CHECKING:
    from pathlib import Path

    from hasten.core.machine import Machine
    from hasten.core.plan import Plan

# `-m` would look for modules in the working directory first: a user's own random.py there would break the program.
_CODE: Final = "import sys; sys.path[:] = [p for p in sys.path if p]; from {module} import main; main()"


class LocalTarget:
    """Runs models on the machine that hasten itself runs on."""

    name: Final = "local"
    capabilities: Final = Capabilities(host_paths=True, shared_memory=True)

    def __init__(self, limits: Limits | None = None) -> None:
        self._limits = limits or Limits()

    def machine(self) -> Machine:
        """This machine. No runner is needed to describe it: host and device are one."""
        try:
            return self._machine
        except HastenError as error:
            raise RunnerFailed(failure_from_error(error, "start")) from error

    def stage(self, path: Path) -> str:
        """The file where it is."""
        return str(path.resolve())

    def start(self, plan: Plan) -> RunnerClient:
        """A fresh process for a plan."""
        program = local_program("hasten.runner.__main__", *runner_arguments(plan, self._limits.memory_mb))
        return RunnerClient(ProcessLink(program), plan, self._limits.answer_seconds, self.stage)

    def start_load(self, kind: str, workers: int) -> ProcessLoad:
        """Work next to the runners, in a process for each core."""
        program = local_program("hasten.runner.background_load", *load_arguments(kind, workers), name=NAME)
        return ProcessLoad(program, self._limits.answer_seconds)

    def close(self) -> None:
        """Nothing is held between runners."""

    @cached_property
    def _machine(self) -> Machine:
        from hasten.runner.machine import describe_machine

        return describe_machine()


def local_program(module: str, *arguments: str, name: str = "runner") -> Program:
    """A program of hasten's own: the `main` of a module, in this Python."""
    return Program((sys.executable, "-c", _CODE.format(module=module), *arguments), name)
