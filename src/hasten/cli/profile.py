"""Show where the time of a run goes: each operator's time, cost and headroom below this machine's peak.

The engine's kernels are mapped back to the nodes of the graph. --verbose, --csv and --json show all operators with
their kernels; the peak is measured once and kept in the cache folder.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from hasten.cli import options
from hasten.cli.files import refuse_existing, write_beside
from hasten.cli.presenting import completed, present, recorded
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
    options.add_seconds(parser, 4)
    parser.add_argument(
        "--top", type=options.positive_int, default=15, metavar="N", help="number of operators to show (default: 15)"
    )
    parser.add_argument("--no-roofline", action="store_true", help="do not measure this machine's peak")
    options.add_running(parser)
    exports = parser.add_argument_group("exports")
    exports.add_argument("--csv", type=Path, metavar="FILE", help="write all operators as a table")
    exports.add_argument("--model-explorer", type=Path, metavar="FILE", help="write node data for Model Explorer")
    exports.add_argument("--force", action="store_true", help="replace existing files")


def run(arguments: argparse.Namespace) -> int:
    """Profile, show and export; after Ctrl-C, show what was measured until then."""
    from hasten import api

    model, plan = options.model_from(arguments)
    refuse_existing(arguments.csv, arguments.model_explorer, force=arguments.force, model=model)
    workload, target = options.workload_from(arguments), options.target_from(arguments)
    session = options.session_from(arguments, "profile")
    with recorded(session, model), progress_bar("profiling") as progress:
        effort = api.Effort(arguments.seconds, target, progress)
        found, interrupted = completed(
            lambda: api.profile(model, plan, workload, roofline=not arguments.no_roofline, effort=effort)
        )
    if not interrupted:
        for path, form in ((arguments.csv, "csv"), (arguments.model_explorer, "model-explorer")):
            if path:
                write_beside(path, api.profile_export(found, form), force=arguments.force)
    return present(arguments, found, session=session, interrupted=interrupted, most=arguments.top)
