"""Check this machine: whether it can run models, whether it is quiet enough to measure on, and what is missing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hasten.cli import options
from hasten.cli.presenting import present
from hasten.cli.progress import progress_bar

if TYPE_CHECKING:
    import argparse

EXAMPLES = """
hasten doctor
hasten doctor --json
"""
_NO_ENGINE: Final = 4


def configure(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    options.add_target(parser)
    options.add_output(parser, session=False)


def run(arguments: argparse.Namespace) -> int:
    """Check and show."""
    from hasten import api

    with progress_bar("doctor") as progress:
        found = api.doctor(api.Effort(on=options.target_from(arguments), progress=progress))
    shown = present(arguments, found)
    return shown if found.has_engine else _NO_ENGINE
