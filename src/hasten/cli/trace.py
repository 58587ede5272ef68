"""Write a timeline of the model's operators that Perfetto (ui.perfetto.dev) and Chrome (chrome://tracing) open."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from hasten.cli import options
from hasten.cli.files import refuse_existing, write_new
from hasten.cli.output import show
from hasten.cli.progress import progress_bar

if TYPE_CHECKING:
    import argparse

EXAMPLES = """
hasten trace model.tflite -o trace.json
hasten trace model.tflite@threads=2 -o trace.json --force
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    parser.add_argument("model", metavar="MODEL", help=options.MODEL_HELP)
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FILE", help="the trace to write (.json)")
    parser.add_argument("--force", action="store_true", help="replace the file if it exists")
    parser.add_argument(
        "--seconds", type=options.positive_float, default=2.0, metavar="S", help="about how long to record (default: 2)"
    )
    options.add_plan(parser)
    options.add_workload(parser)
    options.add_target(parser)
    options.add_output(parser, session=False)


def run(arguments: argparse.Namespace) -> int:
    """Record and write."""
    model, plan = options.model_and_plan(arguments.model, options.plan_from(arguments))
    refuse_existing(arguments.output, force=arguments.force, model=model)
    workload, target = options.workload_from(arguments), options.target_from(arguments)

    from hasten.library import profile_with_runs
    from hasten.report.trace import MOST_RUNS, trace_json

    with progress_bar("recording") as progress:
        found, raw = profile_with_runs(
            model, plan, workload, target=target, seconds=arguments.seconds, roofline=False, progress=progress
        )
    write_new(arguments.output, trace_json(found, raw), force=arguments.force)
    runs = min(len(raw.runs), MOST_RUNS)
    if arguments.json:
        show(options.as_json({"trace": str(arguments.output), "runs": runs, "operators": len(found.operators)}))
    else:
        show(f"{arguments.output}: {runs} runs of {len(found.operators)} operators; open it in ui.perfetto.dev")
    return 0
