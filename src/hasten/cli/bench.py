"""Time a model on a plan, in fresh processes, each warmed up until its latency is steady.

The latency is the median of undisturbed runs: those within 15 % of the fastest tenth. If the cores are shared for most
of the time, it is the median of the few runs that had a core of their own. p95 includes all runs.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from hasten.cli import options
from hasten.cli.presenting import completed, present, recorded
from hasten.cli.progress import progress_bar

if TYPE_CHECKING:
    import argparse

    from hasten.core.measurement import Measurement

EXAMPLES = """
hasten bench demo
hasten bench model.tflite
hasten bench model.tflite --threads 4 --seconds 20
hasten bench model.tflite --accelerator npu --json
hasten bench speech.tflite --shape audio=1x16000
hasten bench model.tflite --data images/
hasten bench model.tflite --sustained 10
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    parser.add_argument("model", metavar="MODEL", help=options.MODEL_HELP)
    options.add_seconds(parser, 6)
    parser.add_argument(
        "--sustained",
        type=options.positive_float,
        metavar="MINUTES",
        help="run without pauses; shows the median of each minute and when throttling begins",
    )
    data = parser.add_argument_group("inputs")
    data.add_argument("--data", default="", metavar="D", help="run on a sample of this data (default: seeded inputs)")
    data.add_argument("--preprocess", default="", metavar="K=V,…", help="how to prepare it (default: unchanged)")
    options.add_running(parser)


def run(arguments: argparse.Namespace) -> int:
    """Measure and show; after Ctrl-C, what was measured until then."""
    from hasten import api

    model, plan = options.model_from(arguments)
    workload, target = options.workload_from(arguments), options.target_from(arguments)
    data = options.inputs_from(arguments)
    if arguments.sustained:
        options.refuse_beside("--sustained", {"--data": data.source})
    session = options.session_from(arguments, "bench --sustained" if arguments.sustained else "bench")
    if arguments.sustained:
        with progress_bar("running") as progress:
            effort = api.Effort(arguments.seconds, target, progress)
            lasting, interrupted = completed(
                lambda: api.sustain(model, arguments.sustained, plan, workload, effort=effort)
            )
        return present(arguments, lasting, session=session, interrupted=interrupted)

    def measure() -> Measurement:
        with recorded(session, str(Path(model))), progress_bar("timing") as progress:
            effort = api.Effort(arguments.seconds, target, progress, options.keep_in(session))
            return api.bench(model, plan, workload, data=data, effort=effort)

    found, interrupted = completed(measure)
    return present(arguments, found, session=None if interrupted else session, interrupted=interrupted)
