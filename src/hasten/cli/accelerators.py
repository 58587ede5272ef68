"""Each accelerator within reach: does it run this model, all of it, correctly, faster, and when does it pay?

Outputs are compared with the reference kernels', latencies in interleaved rounds with XNNPACK's.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from hasten.cli import options
from hasten.cli.output import complain, show
from hasten.cli.progress import progress_bar
from hasten.core.errors import UsageError
from hasten.core.plan import Plan

if TYPE_CHECKING:
    import argparse

    from hasten.core.plan import Workload
    from hasten.core.session import SessionWriter
    from hasten.practices.accelerators.facts import AcceleratorRow
    from hasten.targets.base import Target

EXAMPLES = """
hasten accelerators model.tflite
hasten accelerators model.tflite --threads 2 --seconds 90
hasten accelerators model.tflite --delegate ./libmydelegate.so
hasten accelerators model.tflite --data images/ --preprocess std=255
hasten accelerators model.tflite --pays-from
hasten accelerators --new-delegate mydelegate
"""
_INTERRUPTED = 130


def configure(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    parser.add_argument("model", metavar="MODEL", nargs="?", help="a .tflite file, or demo: the embedded model")
    parser.add_argument(
        "--seconds", type=options.positive_float, default=60.0, metavar="S", help="at most about so long (default: 60)"
    )
    parser.add_argument("--threads", type=options.positive_int, default=1, metavar="N", help="CPU threads (default: 1)")
    parser.add_argument(
        "--delegate", action="append", default=[], metavar="LIB[:K=V;…]", help="an external delegate; may be repeated"
    )
    parser.add_argument("--cache", default="", metavar="DIR", help="let them keep caches there; shows what that saves")
    parser.add_argument(
        "--pays-from",
        action="store_true",
        help="also find the size of a network from which on each pays; takes about --seconds once more",
    )
    parser.add_argument(
        "--all", action="store_true", help="list NPUs of other vendors as well, and what is missing for them"
    )
    parser.add_argument(
        "--new-delegate", type=Path, metavar="DIR", help="write a small, complete external delegate in C to begin with"
    )
    parser.add_argument(
        "--data", default="", metavar="D", help="real inputs to compare outputs on (default: seeded noise)"
    )
    parser.add_argument("--preprocess", default="", metavar="K=V,…", help="how to prepare them (default: as is)")
    options.add_workload(parser)
    options.add_target(parser)
    options.add_output(parser)


def run(arguments: argparse.Namespace) -> int:
    """Examine and show."""
    if arguments.new_delegate:
        return _write_delegate(arguments)
    if not arguments.model:
        raise UsageError("no model is named", "Give the path of a .tflite file, or demo for the embedded model.")
    model, _ = options.model_and_plan(arguments.model, Plan())
    workload, target = options.workload_from(arguments), options.target_from(arguments)

    from hasten.practices.accelerators.sentences import finding_of, recommend
    from hasten.practices.accelerators.vendors import vendor_rows
    from hasten.report.accelerators_text import accelerators_text

    session = options.session_from(arguments, "accelerators")
    rows, interrupted = _examine(arguments, model, workload, target, session)
    if arguments.all:
        rows += vendor_rows(arguments.threads, target.machine())
    (recommended, why), finding = recommend(rows), finding_of(rows)
    compared_on = arguments.data or "seeded noise"
    data = {
        "model": model,
        "rows": [row.as_data() for row in rows],
        "recommended": recommended,
        "why": why,
        "finding": finding.as_data(),
        "interrupted": interrupted,
        "compared_on": compared_on,
    }
    if session:
        session.add("accelerators", model, data)
        session.add("finding", "accelerators", finding.as_data())
    show(options.as_json(data) if arguments.json else accelerators_text(model, rows, why, compared_on))
    return _INTERRUPTED if interrupted else 0


def _examine(
    arguments: argparse.Namespace, model: str, workload: Workload, target: Target, session: SessionWriter | None
) -> tuple[list[AcceleratorRow], bool]:
    """The rows; and whether Ctrl-C cut the work short after something was timed."""
    from hasten.data.preprocess import preprocess_from_text
    from hasten.library import accelerators, accelerators_pay_from
    from hasten.practices.accelerators.run import ExaminationInterrupted

    rows: list[AcceleratorRow] = []
    try:
        with progress_bar("examining") as progress:
            rows = accelerators(
                model,
                workload,
                threads=arguments.threads,
                delegates=arguments.delegate,
                target=target,
                seconds=arguments.seconds,
                progress=progress,
                cache=arguments.cache,
                keep=session.add if session else None,
                data=options.data_named(arguments.data),
                preprocess=preprocess_from_text(arguments.preprocess),
            )
        if arguments.pays_from:
            with progress_bar("sizes") as progress:
                rows = accelerators_pay_from(rows, target=target, seconds=arguments.seconds, progress=progress)
    except KeyboardInterrupt as stop:
        rows = stop.rows if isinstance(stop, ExaminationInterrupted) else rows
        if not rows:
            raise
        complain("interrupted; this is what was found until then", "")
        return rows, True
    return rows, False


def _write_delegate(arguments: argparse.Namespace) -> int:
    from hasten.practices.accelerators.new_delegate import write_delegate

    written = [str(path) for path in write_delegate(arguments.new_delegate)]
    folder = arguments.new_delegate
    text = (
        f"{folder}: {', '.join(Path(path).name for path in written)}\n"
        f"Build it:   cmake -S {folder} -B {folder}/build && cmake --build {folder}/build\n"
        f"Examine it: hasten accelerators demo --delegate {folder}/build/libmydelegate.so"
    )
    show(options.as_json({"written": written}) if arguments.json else text)
    return 0
