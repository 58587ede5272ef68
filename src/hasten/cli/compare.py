"""Is the second faster than the first? Blocks of both alternate, in pairs of fresh processes, until the answer is sure.

The ratio is the second's latency over the first's: 0.8 means that the second takes 80 % of the time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hasten.cli import options
from hasten.cli.bench import bench_data
from hasten.cli.keeping import Keeper
from hasten.cli.output import complain, show
from hasten.cli.progress import progress_bar
from hasten.core.errors import HastenError, UsageError

if TYPE_CHECKING:
    import argparse

EXAMPLES = """
hasten compare float.tflite int8.tflite
hasten compare model.tflite @threads=2
hasten compare model.tflite@threads=2 model.tflite@accelerator=npu
hasten compare old.tflite new.tflite --seconds 60 --json
hasten compare float.tflite int8.tflite --explain --data images.npz
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    parser.add_argument("first", metavar="A", help=options.MODEL_HELP)
    parser.add_argument("second", metavar="B", help="the same; @threads=2 alone means the first model with that plan")
    parser.add_argument(
        "--seconds", type=options.positive_float, default=15.0, metavar="S", help="at most about so long (default: 15)"
    )
    parser.add_argument(
        "--margin",
        type=options.percentage,
        default=0.01,
        metavar="P",
        help="differences below are no news (default: 1%%)",
    )
    parser.add_argument(
        "--explain",
        action="store_true",
        help="say why: both node by node, in time and in numbers; B is the changed one",
    )
    parser.add_argument("--data", default="", metavar="D", help="inputs for --explain: a folder, .npz, .csv, function")
    options.add_plan(parser)
    options.add_workload(parser)
    options.add_target(parser)
    options.add_output(parser)


def run(arguments: argparse.Namespace) -> int:
    """Compare and show."""
    base = options.plan_from(arguments)
    first = options.model_and_plan(arguments.first, base)
    bundle = options.bundle_named(arguments.first)
    default_model = str(bundle.folder) if bundle else first[0]
    second = options.model_and_plan(arguments.second, base, default_model=default_model)
    if arguments.data and not arguments.explain:
        raise UsageError("--data is for --explain only", "Add --explain, or leave --data out.")
    workload, target = options.workload_from(arguments), options.target_from(arguments)

    from hasten.data.sources import open_dataset
    from hasten.library import compare, explain
    from hasten.practices.explain import DEFAULT_SECONDS
    from hasten.report.explain_text import explanation_text
    from hasten.report.text import comparison_text

    if arguments.data:
        open_dataset(arguments.data)  # a wrong name is said before the work, not after
    session = options.session_from(arguments, "compare")
    label = f"{arguments.first} {arguments.second}"
    with Keeper(session, "comparison", label) as keeper, progress_bar("comparing") as progress:
        found = compare(
            first, second, workload,
            target=target, seconds=arguments.seconds, margin=arguments.margin, progress=progress,
            on_round=lambda so_far: keeper.keep(so_far.as_data()),
        )  # fmt: skip
    data = {
        **found.comparison.as_data(),
        "seconds": found.seconds,
        "first": bench_data(found.first),
        "second": bench_data(found.second),
    }
    if not arguments.explain:
        show(options.as_json(data) if arguments.json else comparison_text(found))
        return 0
    if not arguments.json:
        show(comparison_text(found) + "\n")  # the verdict need not wait for its reasons
    try:
        with Keeper(session, "explanation", label) as keeper, progress_bar("explaining") as progress:
            explanation = explain(
                first[0], second[0], second[1], workload, original_plan=first[1], target=target,
                seconds=min(arguments.seconds, DEFAULT_SECONDS), data=arguments.data, comparison=found.comparison,
                progress=progress,
            )  # fmt: skip
            keeper.keep(explanation.as_data())
    except HastenError as error:
        if not arguments.json:
            raise
        # The comparison was made, and is not lost: one document has both.
        complain(error.message, error.hint)
        said = {"message": error.message, "hint": error.hint, "exit_code": error.exit_code}
        show(options.as_json({**data, "explanation": None, "error": said}))
        return error.exit_code
    with_reasons = {**data, "explanation": explanation.as_data()}
    show(options.as_json(with_reasons) if arguments.json else explanation_text(explanation))
    return 0
