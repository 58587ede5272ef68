"""Compare the latency of two models or plans: both take turns, in pairs of fresh processes, until the verdict is
certain (99 %) or the time is up.

The ratio is the latency of B divided by that of A: at 0.8, B takes 80 % of the time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hasten.cli import options
from hasten.cli.output import complain, show
from hasten.cli.presenting import completed, keep, present, recorded, shown
from hasten.cli.progress import progress_bar
from hasten.core.errors import HastenError

if TYPE_CHECKING:
    import argparse

    from hasten.measure.compare import ComparisonResult

EXAMPLES = """
hasten compare float.tflite int8.tflite
hasten compare model.tflite @threads=2
hasten compare model.tflite@threads=2 model.tflite@accelerator=npu
hasten compare old.tflite new.tflite --seconds 60 --json
hasten compare float.tflite int8.tflite --explain --data images.npz
hasten compare a.tflite b.tflite --explain --data images/ --preprocess std=255
"""

_MOST_SECONDS_TO_EXPLAIN: Final = 8.0


def configure(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    parser.add_argument("first", metavar="A", help=options.MODEL_HELP)
    parser.add_argument("second", metavar="B", help="the same; @threads=2 alone is A's model with that plan")
    options.add_seconds(parser, 15)
    parser.add_argument(
        "--margin",
        type=options.percentage,
        default=0.01,
        metavar="P",
        help="smallest difference that matters (default: 1%%)",
    )
    parser.add_argument(
        "--explain", action="store_true", help="explain the change from A to B, node by node, in time and in numbers"
    )
    options.add_inputs(parser)
    options.add_running(parser)


def run(arguments: argparse.Namespace) -> int:
    """Compare and show."""
    first, second = options.both_models(arguments)
    data = options.inputs_from(arguments)
    workload, target = options.workload_from(arguments), options.target_from(arguments)

    from hasten import api

    # Bad data ends the command before the work, not after.
    inputs = api.explain_inputs(first[0], data, workload) if data.source else None
    session = options.session_from(arguments, "compare")
    label = f"{arguments.first} {arguments.second}"

    def measure() -> ComparisonResult:
        with recorded(session, label), progress_bar("comparing") as progress:
            effort = api.Effort(arguments.seconds, target, progress)
            return api.compare(first, second, workload, margin=arguments.margin, data=data, effort=effort)

    found, interrupted = completed(measure)
    if interrupted:  # the session has it already
        return present(arguments, found, interrupted=True)
    keep(session, found, label)
    if not arguments.explain:
        return present(arguments, found)
    if not arguments.json:
        show(shown(found, verbose=arguments.verbose) + "\n")  # the verdict need not wait for its reasons
    try:
        with recorded(session, label), progress_bar("explaining") as progress:
            effort = api.Effort(min(arguments.seconds, _MOST_SECONDS_TO_EXPLAIN), target, progress)
            reasons = api.explain(first, second, workload, inputs=inputs, comparison=found.comparison, effort=effort)
    except HastenError as error:
        if not arguments.json:
            raise
        # The comparison was made, and is not lost: one document has both.
        complain(error.sentence, error.hint, error.log)
        said = {"message": error.message, "hint": error.hint, "exit_code": error.exit_code}
        show(options.as_json({**api.document(found), "explanation": None, "error": said}))
        return error.exit_code
    keep(session, reasons, label)
    if arguments.json:
        show(options.as_json({**api.document(found), "explanation": api.document(reasons)}))
    else:
        show(shown(reasons, verbose=arguments.verbose))
    return 0
