"""Write a timeline of the model's operators that Perfetto (ui.perfetto.dev) and Chrome (chrome://tracing) open."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from hasten.cli import options
from hasten.cli.files import refuse_existing, write_new
from hasten.cli.output import show
from hasten.cli.progress import progress_bar
from hasten.core.units import several

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
    parser.add_argument("--force", action="store_true", help="replace an existing file")
    options.add_seconds(parser, 2)
    options.add_running(parser, session=False)


def run(arguments: argparse.Namespace) -> int:
    """Record and write."""
    from hasten import api
    from hasten.core.doubts import DOUBTS
    from hasten.show.blocks import Prose, notes
    from hasten.show.terminal import terminal_text

    model, plan = options.model_from(arguments)
    refuse_existing(arguments.output, force=arguments.force, model=model)
    workload, target = options.workload_from(arguments), options.target_from(arguments)
    with progress_bar("recording") as progress:
        found = api.trace(model, plan, workload, effort=api.Effort(arguments.seconds, target, progress))
    write_new(arguments.output, found.trace_json(), force=arguments.force)
    doubts, operators = found.profile.doubts, len(found.profile.operators)
    if arguments.json:
        said = [DOUBTS.remark_data(doubt) for doubt in doubts]
        show(
            options.as_json(
                {"trace": str(arguments.output), "runs": found.runs, "operators": operators, "doubts": said}
            )
        )
    else:
        runs = f"{several(found.runs, 'profiled run')} of {several(operators, 'operator')}"
        told = Prose(
            f"{arguments.output} holds the first run and {runs}. Open it in ui.perfetto.dev or chrome://tracing."
        )
        show(terminal_text([told, *notes(doubts, DOUBTS)]))
    return 0
