"""Find the best model for a task on this device: accuracy, latency and size of each candidate, and the one to take.

All candidates are timed in one race, in float and int8. A candidate drops out as soon as another is proven faster and
is at least as accurate. Models of the catalogue have published accuracies and are timed with random weights. Your own
files are measured on --data. With a limit on accuracy, hasten takes the fastest model that keeps all limits; with other
limits, the most accurate one. A latency or a measured accuracy keeps its limit, breaks it or is undecided. What is
undecided may be taken if its estimate keeps the limit, and never with --strict. Unless you set --threads or
--accelerator, hasten finds those that pay. Run the same command with the same -o again to continue.

Exit code 1: no candidate can be taken within the limits.
"""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hasten.cli import options
from hasten.cli.files import write_new
from hasten.cli.output import complain, show
from hasten.cli.presenting import completed, present, shown
from hasten.cli.progress import progress_bar
from hasten.core.plan import Plan

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

EXAMPLES = """
hasten choose --limit latency=20ms
hasten choose --limit accuracy=70% --limit size=5MB -o chosen
hasten choose --task image-segmentation --seconds 60
hasten choose --candidates models/ --data images/ -o chosen
hasten choose --candidates a.tflite b.tflite --data data.csv --limit size=5MB
hasten choose --list
hasten choose --get mobilenet_v2_1.0_224 -o models
"""
_NONE_FITS: Final = 1
_CHARTS: Final = ("choose-latency", "choose-size")


def configure(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    parser.add_argument(
        "--task",
        default="",
        metavar="T",
        help="task of the catalogue's models (default: image-classification, or none with --candidates)",
    )
    parser.add_argument(
        "--candidates",
        nargs="+",
        action="extend",
        default=[],
        metavar="C",
        help=".tflite files, folders of them, bundles, lists in TOML, or names from the catalogue",
    )
    parser.add_argument("--all", action="store_true", help="all models of the task, not only the common ones")
    parser.add_argument(
        "--catalogue", action="append", default=[], metavar="FILE", help="a file with more models; may be repeated"
    )
    parser.add_argument(
        "--limit",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="latency=20ms, size=5MB, accuracy=70%%, p95, init or memory; may be repeated",
    )
    options.add_strict(parser)
    parser.add_argument(
        "--only",
        choices=("float32", "int8"),
        help="build, quantize or get models in this precision only (default: both)",
    )
    parser.add_argument("--list", action="store_true", help="list the catalogue, and time nothing")
    parser.add_argument(
        "--get", default="", metavar="NAME", help="download a trained model of the catalogue, into -o or the cache"
    )
    parser.add_argument(
        "-o", "--output", type=Path, metavar="OUT", help="folder for session, report, graphs and quantized files"
    )
    options.add_seconds(parser, 150, "approximate time limit for timing (default: 150)")
    options.add_data(parser)
    options.add_plan(parser)
    options.add_workload(parser)
    options.add_target(parser)
    options.add_output(parser, session=False)


def run(arguments: argparse.Namespace) -> int:
    """Race and show; after Ctrl-C, what was timed until then."""
    from hasten import api
    from hasten.practices.choose.facts import PRECISIONS

    timed = {"--candidates": arguments.candidates, "--data": arguments.data, "--limit": arguments.limit}
    if arguments.get:
        options.refuse_beside("--get", {"--list": arguments.list, **timed})
        return _get(arguments)
    if arguments.list:
        options.refuse_beside("--list", timed)
        found = api.catalogue(arguments.task, arguments.catalogue)
        show(options.as_json(api.document(found)) if arguments.json else shown(found, verbose=arguments.verbose))
        return 0
    request = api.ChooseRequest(
        task=arguments.task,
        candidates=tuple(options.model_named(name) for name in arguments.candidates),
        catalogue=tuple(arguments.catalogue),
        every=arguments.all,
        data=options.data_from(arguments),
        limits=api.choose_limits(options.limits_from(arguments.limit)),
        strict=arguments.strict,
        precisions=(arguments.only,) if arguments.only else PRECISIONS,
        plan=_plan(arguments),
        workload=options.workload_from(arguments),
        trust_bundle=arguments.trust_bundle,
        command=f"hasten {shlex.join(sys.argv[1:])}",
    )
    target = options.target_from(arguments)
    again = "" if arguments.output is None else "Run the same command again to continue from here."
    with progress_bar("choosing") as progress:
        effort = api.Effort(arguments.seconds, target, progress)
        result, interrupted = completed(lambda: api.choose(request, output=arguments.output, effort=effort), again)
        written = [] if arguments.output is None else _write(arguments.output)
    code = present(arguments, result, interrupted=interrupted)
    if written and not arguments.json:
        show(f"\nWrote {', '.join(map(str, written))}.")
    return code or (_NONE_FITS if arguments.limit and not api.document(result)["kept"] else 0)


def _plan(arguments: argparse.Namespace) -> Plan | None:
    """The plan that was asked for; None to find threads and accelerators that pay."""
    settings = options.plan_settings(arguments)
    return Plan(**settings) if settings else None


def _write(folder: Path) -> Sequence[Path]:
    """The report, and the two graphs as pictures where the package that draws them is there."""
    from hasten import api

    session = folder / "session.jsonl"
    report = folder / "report.html"
    write_new(report, api.session_report(session, "html"), force=True)
    written = [report]
    if not api.has_charts():
        complain("The graphs were not drawn.", "Run pip install 'hasten[report]' to get pictures and charts.")
        return written
    for name, content in api.session_pictures(api.read_session(session), "svg", session.name):
        if Path(name).stem in _CHARTS:
            write_new(folder / name, content, force=True)
            written.append(folder / name)
    return written


def _get(arguments: argparse.Namespace) -> int:
    from hasten import api

    with progress_bar("downloading") as progress:
        model = api.get_model(
            arguments.get,
            arguments.output,
            precision=arguments.only or "",
            files=arguments.catalogue,
            effort=api.Effort(progress=progress),
        )
    if not model.is_verified:
        complain("The file was not verified: nobody names a checksum of it.", "Add its sha256 to your catalogue.")
    told = {"model": str(model.path), "verified": model.is_verified}
    show(options.as_json(told) if arguments.json else f"The trained model is {model.path}.")
    return 0
