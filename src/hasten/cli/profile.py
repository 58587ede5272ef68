"""Each operator's time, mapped to the graph, with its cost and the milliseconds that could still be won."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from hasten.cli import options
from hasten.cli.files import refuse_existing, write_new
from hasten.cli.keeping import Keeper
from hasten.cli.output import show
from hasten.cli.progress import progress_bar

if TYPE_CHECKING:
    import argparse

EXAMPLES = """
hasten profile model.tflite
hasten profile model.tflite --threads 2 --top 30
hasten profile model.tflite --csv operators.csv
hasten profile model.tflite --model-explorer node_data.json
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    parser.add_argument("model", metavar="MODEL", help=options.MODEL_HELP)
    parser.add_argument(
        "--seconds",
        type=options.positive_float,
        default=4.0,
        metavar="S",
        help="about how long to profile (default: 4)",
    )
    parser.add_argument(
        "--top", type=options.positive_int, default=15, metavar="N", help="operators shown (default: 15)"
    )
    parser.add_argument("--no-roofline", action="store_true", help="don't measure this machine's peaks")
    options.add_plan(parser)
    options.add_workload(parser)
    options.add_target(parser)
    options.add_output(parser)
    exports = parser.add_argument_group("exports")
    exports.add_argument("--csv", type=Path, metavar="FILE", help="all operators as a table")
    exports.add_argument("--model-explorer", type=Path, metavar="FILE", help="node data that lies over the graph there")
    exports.add_argument("--force", action="store_true", help="replace files that exist")


def run(arguments: argparse.Namespace) -> int:
    """Profile, show and export."""
    model, plan = options.model_and_plan(arguments.model, options.plan_from(arguments))
    refuse_existing(arguments.csv, arguments.model_explorer, force=arguments.force, model=model)
    workload, target = options.workload_from(arguments), options.target_from(arguments)

    from hasten.library import profile
    from hasten.report.model_explorer import node_data
    from hasten.report.profile_csv import profile_csv
    from hasten.report.profile_text import profile_text

    session = options.session_from(arguments, "profile")
    with Keeper(session, "profile", model) as keeper, progress_bar("profiling") as progress:
        found = profile(
            model,
            plan,
            workload,
            target=target,
            seconds=arguments.seconds,
            roofline=not arguments.no_roofline,
            progress=progress,
        )
        keeper.keep(found.as_data())
    if arguments.csv:
        write_new(arguments.csv, profile_csv(found), force=arguments.force)
    if arguments.model_explorer:
        write_new(arguments.model_explorer, node_data(found), force=arguments.force)
    if arguments.json:
        show(options.as_json({"model": asdict(found.model), "plan": asdict(found.plan), **found.as_data()}))
    else:
        show(profile_text(found, arguments.top))
    return 0
