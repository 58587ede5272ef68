"""How many threads? Counts up to the cores and one more, alone and beside other work, with CPU time and p95.

More threads are recommended only where they are surely faster, by at least 5 % for each doubling, in the situation
that you name: quiet (nothing else runs), shared (half of the cores are busy) or busy (all are). --threads says what you
use now.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from hasten.cli import options
from hasten.cli.output import complain, show
from hasten.cli.progress import progress_bar

if TYPE_CHECKING:
    from hasten.practices.threads import ThreadsPractice

EXAMPLES = """
hasten threads demo
hasten threads model.tflite --load shared
hasten threads model.tflite --counts 1,2,4 --seconds 60
hasten threads model.tflite --load busy --json --session threads.jsonl
"""
_SITUATIONS = ("quiet", "shared", "busy")
_INTERRUPTED = 130
_MOST_THREADS = 1024


def configure(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    parser.add_argument("model", metavar="MODEL", help=options.MODEL_HELP)
    parser.add_argument(
        "--load", choices=_SITUATIONS, default="quiet", help="what runs beside the model in real use (default: quiet)"
    )
    parser.add_argument("--counts", type=_counts, default=(), metavar="N,…", help="try these (default: 1 to all cores)")
    parser.add_argument(
        "--seconds",
        type=options.positive_float,
        default=0.0,
        metavar="S",
        help="at most about so long (default: 25 for each count)",
    )
    options.add_plan(parser)
    options.add_workload(parser)
    options.add_target(parser)
    options.add_output(parser)


def run(arguments: argparse.Namespace) -> int:
    """Measure and show; after Ctrl-C, what was measured until then."""
    model, plan = options.model_and_plan(arguments.model, options.plan_from(arguments))
    workload, target = options.workload_from(arguments), options.target_from(arguments)

    from hasten.library import study_threads
    from hasten.report.threads_text import threads_text

    session = options.session_from(arguments, "threads")
    practice = study_threads(
        model,
        plan,
        workload,
        target=target,
        load=arguments.load,
        counts=arguments.counts,
        seconds=arguments.seconds,
        keep=session.add if session else None,
    )
    interrupted = _measure(practice)
    found = practice.found()
    if session:
        session.add("finding", "threads", found.finding.as_data())
    show(options.as_json({**found.as_data(), "interrupted": interrupted}) if arguments.json else threads_text(found))
    return _INTERRUPTED if interrupted else 0


def _measure(practice: ThreadsPractice) -> bool:
    """Measure; whether Ctrl-C cut it short after something was measured."""
    from hasten.library import measure_threads

    try:
        with progress_bar("threads") as progress:
            measure_threads(practice, progress)
    except KeyboardInterrupt:
        if not practice.has_rounds:
            raise
        complain("interrupted; this is what was measured until then", "")
        return True
    return False


def _counts(text: str) -> tuple[int, ...]:
    found = tuple(options.positive_int(part) for part in text.split(","))
    if max(found) > _MOST_THREADS:
        raise argparse.ArgumentTypeError(f"must be {_MOST_THREADS} at most, not {max(found)}")
    return found
