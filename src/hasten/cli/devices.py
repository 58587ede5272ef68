"""List the targets within reach: where a model can be run, and what is there."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

from hasten.cli import options
from hasten.cli.output import WIDTH, show

if TYPE_CHECKING:
    import argparse

    from hasten.targets.base import Target

EXAMPLES = """
hasten devices
hasten devices --json
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    options.add_output(parser, session=False)


def run(arguments: argparse.Namespace) -> int:
    """Ask each target and show."""
    from hasten.targets.local import targets_within_reach

    devices = [_describe(target) for target in targets_within_reach()]
    if arguments.json:
        show(options.as_json({"devices": devices}))
        return 0
    for device in devices:
        head = f"{device['name']:<8} "
        show(textwrap.fill(head + device["summary"], WIDTH, subsequent_indent=" " * len(head)))
    return 0


def _describe(target: Target) -> dict[str, Any]:
    from hasten.core.codec import to_data
    from hasten.core.failure import RunnerFailed

    try:
        machine = target.machine()
    except RunnerFailed as failed:
        return {"name": target.name, "usable": False, "summary": f"not usable: {failed.failure.message}"}
    summary = (
        f"{machine.cpu}, {machine.cores} cores, {machine.memory_mb / 1024:.0f} GB, "
        f"{machine.system} {machine.architecture}, LiteRT {machine.engine}"
    )
    return {
        "name": target.name,
        "usable": True,
        "summary": summary,
        "engine": machine.engine,
        "machine": to_data(machine),
        "capabilities": to_data(target.capabilities),
    }
