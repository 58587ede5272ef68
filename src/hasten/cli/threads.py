"""Find the number of threads to use, from 1 to one more than the cores, alone and under other load.

More threads are recommended only where they are at least 5 % faster per doubling (99 % confidence) in the situation
that you name: quiet (nothing else runs), shared (half of the cores are busy) or busy (all cores are busy). --threads
is the count that you use now.
"""

from __future__ import annotations

import argparse

from hasten.cli import options
from hasten.cli.presenting import completed, present
from hasten.cli.progress import progress_bar

EXAMPLES = """
hasten threads demo
hasten threads model.tflite --load shared
hasten threads model.tflite --counts 1,2,4 --seconds 60
hasten threads model.tflite --load busy --json --session threads.jsonl
"""
_SITUATIONS = ("quiet", "shared", "busy")
_MOST_THREADS = 1024


def configure(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    parser.add_argument("model", metavar="MODEL", help=options.MODEL_HELP)
    parser.add_argument(
        "--load", choices=_SITUATIONS, default="quiet", help="other work on the device in real use (default: quiet)"
    )
    parser.add_argument(
        "--counts",
        type=_counts,
        default=(),
        metavar="N,…",
        help="thread counts to try, next to the plan's own (default: 1 to one more than the cores)",
    )
    options.add_seconds(parser, 0, "approximate time limit (default: 25 per thread count)")
    options.add_running(parser)


def run(arguments: argparse.Namespace) -> int:
    """Measure and show; after Ctrl-C, what was measured until then."""
    from hasten import api

    model, plan = options.model_from(arguments)
    workload, target = options.workload_from(arguments), options.target_from(arguments)
    session = options.session_from(arguments, "threads")
    with progress_bar("threads") as progress:
        effort = api.Effort(arguments.seconds, target, progress, options.keep_in(session))
        found, interrupted = completed(
            lambda: api.threads(model, plan, workload, load=arguments.load, counts=arguments.counts, effort=effort)
        )
    return present(arguments, found, session=session, interrupted=interrupted)


def _counts(text: str) -> tuple[int, ...]:
    found = tuple(options.positive_int(part) for part in text.split(","))
    if max(found) > _MOST_THREADS:
        raise argparse.ArgumentTypeError(f"must be {_MOST_THREADS} at most, not {max(found)}")
    return found
