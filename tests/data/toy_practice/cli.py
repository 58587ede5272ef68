"""Tell how heavy the model file is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hasten.cli import options
from hasten.cli.presenting import present
from hasten.cli.progress import progress_bar

if TYPE_CHECKING:
    import argparse

EXAMPLES = """
hasten weight demo
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    parser.add_argument("model", metavar="MODEL", help=options.MODEL_HELP)
    parser.add_argument("--bytes", type=options.positive_int, default=1_000_000, metavar="N", help="still light")
    options.add_output(parser)


def run(arguments: argparse.Namespace) -> int:
    """Weigh and show."""
    from hasten import api

    model, plan = options.model_and_plan(arguments.model)
    session = options.session_from(arguments, "weight")
    with progress_bar("weight") as progress:
        found = api.practice("weight", model, plan, effort=api.Effort(progress=progress), limit=arguments.bytes)
    return present(arguments, found, session=session)
