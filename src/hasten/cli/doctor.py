"""Check this machine: is the engine there, is it quiet enough to measure on, what is missing and how to get it?"""

from __future__ import annotations

import textwrap
from dataclasses import asdict
from typing import TYPE_CHECKING, Final

from hasten.cli import options
from hasten.cli.output import WIDTH, show

if TYPE_CHECKING:
    import argparse

    from hasten.practices.help.run import Check

EXAMPLES = """
hasten doctor
hasten doctor --json
"""
_MARKS: Final = {"ok": "ok", "warning": "!", "missing": "-"}


def configure(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    options.add_target(parser)
    options.add_output(parser, session=False)


def run(arguments: argparse.Namespace) -> int:
    """Check and show, each line as soon as it is known."""
    from hasten.practices.help.run import MISSING, check_machine

    target = options.target_from(arguments)
    checks = check_machine(target, (lambda check: None) if arguments.json else _show)
    if arguments.json:
        show(options.as_json({"checks": [asdict(check) for check in checks]}))
    engine_missing = any(check.name == "engine" and check.status == MISSING for check in checks)
    return 4 if engine_missing else 0


def _show(check: Check) -> None:
    head = f"{_MARKS[check.status]:>3} {check.name:<16} "
    text = check.finding + (f"\n{check.fix}" if check.fix else "")
    indent = " " * len(head)
    wrapped = [textwrap.wrap(line, WIDTH - len(head)) for line in text.splitlines()]
    lines = [line for part in wrapped for line in part] or [""]
    show(head + f"\n{indent}".join(lines))
