"""Measure the cost of feeding and reading a model, in every way that Python offers, next to the inference itself.

Views and host memory are written and read in place; the other ways copy. LiteRT refuses host memory that does not start
at a multiple of 64 bytes, so such data is copied as well. The table also shows what common mistakes cost: a wrong type,
an array that is not contiguous, a list, a resize in each call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hasten.cli import options
from hasten.cli.presenting import completed, present
from hasten.cli.progress import progress_bar

if TYPE_CHECKING:
    import argparse

EXAMPLES = """
hasten copies demo
hasten copies model.tflite --threads 2
hasten copies model.tflite --language python
hasten copies model.tflite --language kotlin
hasten copies model.tflite --seconds 30 --json
"""
_LANGUAGES = ("python", "kotlin", "cpp")


def configure(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    parser.add_argument("model", metavar="MODEL", help=options.MODEL_HELP)
    options.add_seconds(parser, 12)
    parser.add_argument("--language", choices=_LANGUAGES, default="", help="print code for the recommended way")
    parser.add_argument("--no-code", action="store_true", help="leave the code out")
    options.add_running(parser)


def run(arguments: argparse.Namespace) -> int:
    """Measure and show; after Ctrl-C, what was measured until then."""
    from hasten import api

    model, plan = options.model_from(arguments)
    workload, target = options.workload_from(arguments), options.target_from(arguments)
    session = options.session_from(arguments, "copies")
    wanted = arguments.language or ("python" if arguments.json or session or arguments.verbose else "")
    language = "" if arguments.no_code else wanted
    with progress_bar("copies") as progress:
        effort = api.Effort(arguments.seconds, target, progress)
        found, interrupted = completed(lambda: api.copies(model, plan, workload, language=language, effort=effort))
    return present(arguments, found, session=session, interrupted=interrupted)
