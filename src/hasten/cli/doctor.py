"""Check this machine, or a model: what delegates refuse, what costs time or accuracy, and what is broken.

With -o, all of it goes into an issue bundle for the maintainers of LiteRT: versions, machine, commands, latencies,
operators, placement, logs and a text ready to paste. --minimize adds the smallest model that still shows a problem,
--private replaces weights and names, --versions repeats it with other releases of LiteRT.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hasten.cli import options
from hasten.cli.files import refuse_existing
from hasten.cli.presenting import completed, present, shown
from hasten.cli.progress import progress_bar
from hasten.core.errors import UsageError
from hasten.core.plan import Plan
from hasten.core.printable import printable_lines

if TYPE_CHECKING:
    import argparse

    from hasten.practices.help.facts import IssueBundle

EXAMPLES = """
hasten doctor
hasten doctor model.tflite
hasten doctor model.tflite --threads 2 -o issue.zip
hasten doctor model.tflite --minimize crash --private -o issue.zip
hasten doctor model.tflite --accelerator gpu --minimize wrong -o issue.zip
hasten doctor model.tflite --minimize slow --against @threads=1 -o issue.zip
hasten doctor model.tflite --versions 2.1.6,2.2.0,2.3.0
"""
_NO_ENGINE: Final = 4
_BROKEN: Final = 1
_PROBLEMS: Final = ("slow", "wrong", "crash")


def configure(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    parser.add_argument("model", metavar="MODEL", nargs="?", help=f"{options.MODEL_HELP} (default: none)")
    options.add_seconds(parser, 10)
    parser.add_argument("-o", "--out", type=Path, metavar="ZIP", help="write an issue bundle")
    parser.add_argument("--force", action="store_true", help="replace an existing file")
    parser.add_argument(
        "--minimize", choices=_PROBLEMS, default="", help="find the smallest part of the model that shows this problem"
    )
    parser.add_argument(
        "--against",
        default="",
        metavar="[MODEL]@PLAN",
        help="what does it right (default: reference kernels for wrong; for slow, half of the run)",
    )
    parser.add_argument("--private", action="store_true", help="put random weights and plain names into the bundle")
    parser.add_argument(
        "--versions",
        type=options.names,
        default=(),
        metavar="V,…",
        help="repeat with these releases of LiteRT, installed into the cache folder",
    )
    options.add_running(parser, session=False)


def run(arguments: argparse.Namespace) -> int:
    """Check and show; after Ctrl-C, what was found until then."""
    if arguments.model is not None:
        return _model(arguments)
    for name in ("out", "minimize", "against", "private", "versions"):
        if getattr(arguments, name):
            raise UsageError(f"--{name} needs a model.", f"Give one, as in hasten doctor model.tflite --{name} ….")
    from hasten import api

    with progress_bar("doctor") as progress:
        found = api.doctor(api.Effort(on=options.target_from(arguments), progress=progress))
    code = present(arguments, found)
    return code if found.has_engine else _NO_ENGINE


def _model(arguments: argparse.Namespace) -> int:
    from hasten import api

    model, plan = options.model_from(arguments)
    workload, target = options.workload_from(arguments), options.target_from(arguments)
    if arguments.out is not None:
        refuse_existing(arguments.out, force=arguments.force, model=model)
    against = None
    if arguments.against:
        # What does it right runs on the CPU, unless it names another place or is a bundle with a plan of its own.
        settings = options.plan_settings(arguments).items()
        changed = {name: value for name, value in settings if name in ("threads", "kernel")}
        usual = Plan(threads=plan.threads, kernel=plan.kernel)
        against = options.model_and_plan(arguments.against, changed, model, base=usual, trust=arguments.trust_bundle)
    asked = api.DoctorOptions(arguments.minimize, against, arguments.private, arguments.versions, arguments.force)
    out = arguments.out or ""
    with progress_bar("doctor") as progress:
        effort = api.Effort(arguments.seconds, target, progress)
        found, interrupted = completed(
            lambda: api.doctor_model(
                model, plan, workload, options=asked, out=out, announce=_list_bundle, effort=effort
            ),
            "Run the same command again: --minimize goes on from here.",
        )
    code = present(arguments, found, interrupted=interrupted)
    return code or (_BROKEN if found.is_broken else 0)


def _list_bundle(bundle: IssueBundle) -> None:
    """What the archive will hold, on standard error, before it is written."""
    print(printable_lines(shown(bundle, verbose=False)), file=sys.stderr)
