"""Find the node where two models, or two plans of one model, diverge.

Both run on the same inputs. Then each node runs alone in both, on the values that it has in A: what differs is what
the node itself adds, without what it inherits. Rounding and number formats explain some of it; the rest is a fault.

The exit code is 1 if B has a fault, and 0 if rounding and number formats explain every difference.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from hasten.cli import options
from hasten.cli.files import refuse_existing, write_beside
from hasten.cli.presenting import present, recorded
from hasten.cli.progress import progress_bar

if TYPE_CHECKING:
    import argparse

EXAMPLES = """
hasten diff float.tflite int8.tflite --data images/
hasten diff model.tflite@kernel=reference model.tflite
hasten diff model.tflite @accelerator=gpu
hasten diff old.tflite new.tflite --json
hasten diff old.tflite new.tflite --model-explorer node_data.json
"""
_FAULT: Final = 1


def configure(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    parser.add_argument("first", metavar="A", help=f"the model to compare with: {options.MODEL_HELP}")
    parser.add_argument("second", metavar="B", help="the same; @accelerator=gpu alone is A's model with that plan")
    options.add_inputs(parser)
    options.add_running(parser)
    exports = parser.add_argument_group("exports")
    exports.add_argument(
        "--model-explorer", type=Path, metavar="FILE", help="write node data for Model Explorer, to lay over B"
    )
    exports.add_argument("--force", action="store_true", help="replace an existing file")


def run(arguments: argparse.Namespace) -> int:
    """Compare, show and export."""
    first, second = options.both_models(arguments)
    data = options.inputs_from(arguments)
    for model in (first[0], second[0]):
        refuse_existing(arguments.model_explorer, force=arguments.force, model=model)
    workload, target = options.workload_from(arguments), options.target_from(arguments)

    from hasten import api

    # Bad data ends the command before the work, not after.
    inputs = api.explain_inputs(first[0], data, workload) if data.source else None
    session = options.session_from(arguments, "diff")
    with recorded(session, f"{arguments.first} {arguments.second}"), progress_bar("diff") as progress:
        found = api.diff(first, second, workload, inputs=inputs, effort=api.Effort(0.0, target, progress))
    if arguments.model_explorer:
        write_beside(arguments.model_explorer, api.diff_overlay(found), force=arguments.force)
    code = present(arguments, found, session=session)
    return code or (_FAULT if found.has_fault else 0)
