"""Find the node where two models, or two plans of one model, diverge.

Both run on the same inputs. Then each node runs alone in both, on the values that it has in A: what differs is what
the node itself adds, without what it inherits. Rounding and number formats explain some of it; the rest is a fault.

The exit code is 1 if B has a fault, and 0 if rounding and number formats explain every difference.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from hasten.cli import options
from hasten.cli.files import refuse_existing, write_new
from hasten.cli.presenting import present, recorded
from hasten.cli.progress import progress_bar
from hasten.core.errors import UsageError

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
    data = parser.add_argument_group("inputs")
    data.add_argument(
        "--data", default="", metavar="D", help="a folder, .csv, .npz or module:function; demo: the embedded images"
    )
    data.add_argument(
        "--preprocess", default="", metavar="K=V,…", help="for example mean=127.5,std=127.5 (default: unchanged)"
    )
    data.add_argument("--skip-bad", action="store_true", help="leave out samples that cannot be used")
    options.add_running(parser)
    exports = parser.add_argument_group("exports")
    exports.add_argument(
        "--model-explorer", type=Path, metavar="FILE", help="write node data for Model Explorer, to lay over B"
    )
    exports.add_argument("--force", action="store_true", help="replace an existing file")


def run(arguments: argparse.Namespace) -> int:
    """Compare, show and export."""
    base = options.plan_from(arguments)
    first = options.model_and_plan(arguments.first, base, trust=arguments.trust_bundle)
    bundle = options.bundle_named(arguments.first, trust=arguments.trust_bundle)
    default_model = str(bundle.folder) if bundle else first[0]
    second = options.model_and_plan(arguments.second, base, default_model=default_model, trust=arguments.trust_bundle)
    for name, given in (("--preprocess", arguments.preprocess), ("--skip-bad", arguments.skip_bad)):
        if given and not arguments.data:
            raise UsageError(f"{name} needs --data.", f"Add --data, or leave {name} out.")
    for model in (first[0], second[0]):
        refuse_existing(arguments.model_explorer, force=arguments.force, model=model)
    workload, target = options.workload_from(arguments), options.target_from(arguments)

    from hasten import api

    inputs = None
    if source := options.data_named(arguments.data):  # bad data ends the command before the work, not after
        data = api.Data(source, preprocess=arguments.preprocess, skip_bad=arguments.skip_bad)
        inputs = api.explain_inputs(first[0], data, workload)
    session = options.session_from(arguments, "diff")
    with recorded(session, f"{arguments.first} {arguments.second}"), progress_bar("diff") as progress:
        found = api.diff(first, second, workload, inputs=inputs, effort=api.Effort(0.0, target, progress))
    if arguments.model_explorer:
        write_new(arguments.model_explorer, api.diff_overlay(found), force=arguments.force)
    code = present(arguments, found, session=session)
    return code or (_FAULT if found.has_fault else 0)
