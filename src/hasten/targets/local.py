"""This machine: each runner is a child process of its own."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Final

from hasten.runner.command import runner_command
from hasten.runner.load import load_command
from hasten.targets.base import Limits
from hasten.targets.client import Runner
from hasten.targets.link import ProcessLink
from hasten.targets.load import ProcessLoad

if TYPE_CHECKING:
    from hasten.core.plan import Plan

_SHARE_OF_MEMORY: Final = 0.75


class LocalTarget:
    """Runs models on the machine that hasten itself runs on."""

    name: Final = "local"

    def __init__(self, limits: Limits | None = None) -> None:
        self._limits = limits or Limits()

    def start(self, plan: Plan) -> Runner:
        """A fresh process for a plan."""
        memory_mb = self._limits.memory_mb or default_memory_mb()
        accelerator = "cpu" if plan.delegate else plan.accelerator
        command = runner_command(sys.executable, accelerator, memory_mb)
        return Runner(ProcessLink(command), plan, self._limits.answer_seconds)

    def start_load(self, kind: str, workers: int) -> ProcessLoad:
        """Work beside the runners, in a process for each core."""
        return ProcessLoad(load_command(sys.executable, kind, workers), self._limits.answer_seconds)


def default_memory_mb() -> int:
    """What a process may take if nobody says otherwise; 0, which is no limit, where the system does not tell."""
    try:
        return int(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**20 * _SHARE_OF_MEMORY)
    except (OSError, ValueError):
        return 0
