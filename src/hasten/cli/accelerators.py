"""Test each available accelerator: does it run the whole model, correctly and faster, and when does it pay off?

Outputs are compared with those of the reference kernels (if these do not run, of the built-in kernels or XNNPACK).
Latencies are compared in interleaved rounds with those of XNNPACK, with --threads and with all cores.
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from hasten.cli import options
from hasten.cli.output import show
from hasten.cli.presenting import completed, present
from hasten.cli.progress import progress_bar
from hasten.core.errors import UsageError

if TYPE_CHECKING:
    import argparse

EXAMPLES = """
hasten accelerators model.tflite
hasten accelerators model.tflite --threads 2 --seconds 90
hasten accelerators model.tflite --delegate ./libmydelegate.so
hasten accelerators model.tflite --data images/ --preprocess std=255
hasten accelerators model.tflite --pays-from
hasten accelerators --new-delegate mydelegate
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    parser.add_argument("model", metavar="MODEL", nargs="?", help="a .tflite file, or demo: the embedded model")
    options.add_seconds(parser, 60)
    parser.add_argument("--threads", type=options.threads, default=1, metavar="N", help="CPU threads (default: 1)")
    parser.add_argument(
        "--delegate", action="append", default=[], metavar="LIB[:K=V;…]", help="an external delegate; may be repeated"
    )
    parser.add_argument("--cache", default="", metavar="DIR", help="folder for caches; shows what they save")
    parser.add_argument(
        "--pays-from",
        action="store_true",
        help="also find the network size from which each pays off (takes --seconds again)",
    )
    parser.add_argument("--all", action="store_true", help="also list NPUs of other vendors, and what they lack")
    parser.add_argument(
        "--new-delegate", type=Path, metavar="DIR", help="write a small, complete external delegate in C"
    )
    parser.add_argument(
        "--data", default="", metavar="D", help="real inputs to compare outputs on (default: seeded noise)"
    )
    parser.add_argument("--preprocess", default="", metavar="K=V,…", help="how to prepare them (default: unchanged)")
    options.add_workload(parser)
    options.add_target(parser)
    options.add_output(parser)


def run(arguments: argparse.Namespace) -> int:
    """Examine and show; after Ctrl-C, what was found until then."""
    if arguments.new_delegate:
        return _write_delegate(arguments)
    if not arguments.model:
        raise UsageError("No model was given.", "Give the path of a .tflite file, or demo for the embedded model.")

    from hasten import api

    model, _ = options.model_and_plan(arguments.model, trust=arguments.trust_bundle)
    workload, target = options.workload_from(arguments), options.target_from(arguments)
    data = options.inputs_from(arguments)
    session = options.session_from(arguments, "accelerators")
    asked = api.AcceleratorOptions(
        tuple(arguments.delegate), data.source, data.preprocess, arguments.cache, arguments.pays_from, arguments.all
    )
    with progress_bar("accelerators") as progress:
        effort = api.Effort(arguments.seconds, target, progress, options.keep_in(session))
        found, interrupted = completed(
            lambda: api.accelerators(model, workload, threads=arguments.threads, options=asked, effort=effort)
        )
    return present(arguments, found, session=session, interrupted=interrupted)


def _write_delegate(arguments: argparse.Namespace) -> int:
    from hasten import api

    written = [str(path) for path in api.new_delegate(arguments.new_delegate)]
    folder, place = arguments.new_delegate, shlex.quote(str(arguments.new_delegate))
    text = (
        f"{folder}: {', '.join(Path(path).name for path in written)}\n"
        f"Build it:   cmake -S {place} -B {place}/build && cmake --build {place}/build\n"
        f"Examine it: hasten accelerators demo --delegate {place}/build/libmydelegate.so"
    )
    show(options.as_json({"written": written}) if arguments.json else text)
    return 0
