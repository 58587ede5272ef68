"""What does it cost to feed and read a model? Every way that Python has, timed in turns beside the inference itself.

Views and host memory are written and read in place, so their cost is what is left then; the other ways copy. LiteRT
refuses host memory that does not begin at a multiple of 64 bytes: such data is copied, too. Also what mistakes cost: a
wrong type, an array that is not contiguous, a list, a resize in each call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hasten.cli import options
from hasten.cli.output import complain, show
from hasten.cli.progress import progress_bar

if TYPE_CHECKING:
    import argparse

    from hasten.practices.copies.run import CopiesPractice

EXAMPLES = """
hasten copies demo
hasten copies model.tflite --threads 2
hasten copies model.tflite --language kotlin
hasten copies model.tflite --seconds 30 --json
"""
_LANGUAGES = ("python", "kotlin", "cpp")
_INTERRUPTED = 130


def configure(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    parser.add_argument("model", metavar="MODEL", help=options.MODEL_HELP)
    parser.add_argument(
        "--seconds", type=options.positive_float, default=12.0, metavar="S", help="about how long (default: 12)"
    )
    parser.add_argument("--language", choices=_LANGUAGES, default="python", help="of the code shown (default: python)")
    parser.add_argument("--no-code", action="store_true", help="show the costs only")
    options.add_plan(parser)
    options.add_workload(parser)
    options.add_target(parser)
    options.add_output(parser)


def run(arguments: argparse.Namespace) -> int:
    """Measure and show; after Ctrl-C, what was measured until then."""
    model, plan = options.model_and_plan(arguments.model, options.plan_from(arguments))
    workload, target = options.workload_from(arguments), options.target_from(arguments)

    from hasten.library import copies_found, study_copies
    from hasten.report.copies_text import copies_text

    session = options.session_from(arguments, "copies")
    practice = study_copies(
        model, plan, workload, target=target, seconds=arguments.seconds, language=arguments.language
    )
    interrupted = _measure(practice)
    found = copies_found(practice, arguments.language)
    data = {**found.as_data(), "interrupted": interrupted}
    if session:
        session.add("copies", model, {**data, "blocks": [block.as_data() for block in practice.blocks]})
        session.add("finding", "copies", found.finding.as_data())
    show(options.as_json(data) if arguments.json else copies_text(found, code=not arguments.no_code))
    return _INTERRUPTED if interrupted else 0


def _measure(practice: CopiesPractice) -> bool:
    """Measure; whether Ctrl-C cut it short after something was measured."""
    from hasten.library import measure_copies

    try:
        with progress_bar("copies") as progress:
            measure_copies(practice, progress)
    except KeyboardInterrupt:
        if not practice.has_blocks:
            raise
        complain("interrupted; this is what was measured until then", "")
        return True
    return False
