"""List the available targets: where a model can run, and what each one offers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hasten.cli import options
from hasten.cli.presenting import present

if TYPE_CHECKING:
    import argparse

EXAMPLES = """
hasten devices
hasten devices --json
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    options.add_output(parser, session=False)


def run(arguments: argparse.Namespace) -> int:
    """Ask each target and show."""
    from hasten import api

    return present(arguments, api.devices())
