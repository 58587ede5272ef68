"""Check a model against its limits: a gate for CI. Each limit is passed, failed or undecided.

A time passes or fails only if its whole 99 % confidence interval lies on one side of the limit, or if every run lies
far from it. An older model is timed in the same rounds as this one.

Exit codes: 0: every limit passed. 1: a limit failed or is undecided; --undecided pass accepts the undecided ones.
2, 3, 4: the check could not run.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from hasten.cli import options
from hasten.cli.files import is_there, refuse_existing, write_new
from hasten.cli.presenting import completed, present, recorded
from hasten.cli.progress import progress_bar
from hasten.cli.unsaved import UNSAVED
from hasten.core.errors import DataError, UsageError
from hasten.core.limits import DEFAULT_UNDECIDED, UNDECIDED_CHOICES

if TYPE_CHECKING:
    from hasten.data.request import Data
    from hasten.gate.request import CheckRequest

EXAMPLES = """
hasten check model.tflite --limit latency="5 ms" --limit size="2 MB"
hasten check model.tflite --limits limits.toml --markdown summary.md
hasten check model.tflite --baseline-model main/model.tflite
hasten check demo --data demo --limit accuracy="98 %"
hasten check model.tflite --baseline before.jsonl --session after.jsonl
"""
_GATE_FAILED: Final = 1
_ROOM: Final = "Make room there, or choose another file with --markdown."


def configure(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    parser.add_argument("model", metavar="MODEL", help=options.MODEL_HELP)
    parser.add_argument("--limits", type=Path, metavar="FILE", help="limits, plan, data and baseline in a TOML file")
    parser.add_argument("--budget", default="", help=argparse.SUPPRESS)
    parser.add_argument(
        "--limit",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="latency, p95, init, memory, size, accuracy, max_slowdown or max_drop; may be repeated",
    )
    parser.add_argument(
        "--baseline-model", default="", metavar="OLD", help="an older model, timed in the same rounds as this one"
    )
    parser.add_argument(
        "--baseline", default="", metavar="SESSION", help="an older session of check, from a machine like this one"
    )
    options.add_seconds(
        parser,
        0,
        "time for timing (default: 20). It ends as soon as every limit is decided. Where too few processes ran for a "
        "verdict, it goes on for up to three times as long; a process that has begun is finished",
    )
    parser.add_argument(
        "--undecided",
        choices=UNDECIDED_CHOICES,
        help=f"what an undecided check does: pass (exit code 0) or fail (exit code 1) (default: {DEFAULT_UNDECIDED})",
    )
    parser.add_argument("--strict", action="store_true", help=argparse.SUPPRESS)  # older name of --undecided fail
    options.add_data(parser, calibration=False)
    options.add_plan(parser)
    parser.set_defaults(label_offset=None)  # to see what the file of limits may say
    options.add_workload(parser)
    options.add_target(parser)
    options.add_output(parser)
    parser.add_argument(
        "--markdown", type=Path, metavar="FILE", help='write a summary; appended if FILE is "$GITHUB_STEP_SUMMARY"'
    )
    parser.add_argument("--force", action="store_true", help="replace an existing --markdown file")


def run(arguments: argparse.Namespace) -> int:
    """Check and show; after Ctrl-C, how it stood."""
    from hasten import api

    request, model = _asked(arguments)
    target = options.target_from(arguments)
    if arguments.markdown is not None and not _is_step_summary(arguments.markdown):
        refuse_existing(arguments.markdown, force=arguments.force, model=model)
    session = options.session_from(arguments, "check")
    with recorded(session, model), progress_bar("checking") as progress:
        effort = api.Effort(arguments.seconds, target, progress, options.keep_in(session))
        found, interrupted = completed(lambda: api.check(model, request, effort=effort))
    if arguments.markdown is not None:
        with UNSAVED.deferred():
            _write_markdown(arguments, api.markdown(found))
    code = present(arguments, found, session=session, interrupted=interrupted)
    return code or (0 if found.is_open else _GATE_FAILED)


def _asked(arguments: argparse.Namespace) -> tuple[CheckRequest, str]:
    """What the file of limits asks for, changed by what the command line says."""
    from hasten import api
    from hasten.model.reader import read_graph

    if arguments.budget:
        hint = f"Give the file of limits as --limits {shlex.quote(str(arguments.budget))}."
        raise UsageError("--budget is a time, and hasten check takes none.", hint)
    asked = api.check_request() if arguments.limits is None else api.check_request(arguments.limits)
    asked = _with_bundle(asked, arguments)
    settings, trust = _plan_settings(arguments, asked), arguments.trust_bundle
    model, plan = options.model_and_plan(arguments.model, settings, trust=trust)
    workload = options.workload_from(arguments, asked.workload)
    changed: dict[str, Any] = {"plan": plan, "workload": workload, "data": _data(arguments, asked.data)}
    if arguments.undecided or arguments.strict:
        changed["undecided"] = arguments.undecided or "fail"
    if arguments.baseline_model or arguments.baseline:
        changed |= {"baseline_model": arguments.baseline_model, "baseline_session": arguments.baseline}
    asked = replace(asked, **changed).with_limits(options.limits_from(arguments.limit))
    if asked.baseline_model:
        # A bundle runs with its own plan, a plain model like the one that it is compared with.
        old, old_plan = options.model_and_plan(asked.baseline_model, settings, model, base=plan, trust=trust)
        asked = replace(asked, baseline_model=old, baseline_plan=old_plan)
    try:
        return asked.checked(), model
    except UsageError:
        read_graph(Path(model))  # a model that is not there is named before what is asked of it
        raise


def _data(arguments: argparse.Namespace, from_file: Data) -> Data:
    return replace(
        from_file,
        source=options.data_named(arguments.data or from_file.source),
        preprocess=arguments.preprocess or from_file.preprocess,
        metric=arguments.metric or from_file.metric,
        samples=arguments.samples or from_file.samples,
        skip_bad=arguments.skip_bad or from_file.skip_bad,
        label_offset=from_file.label_offset if arguments.label_offset is None else arguments.label_offset,
    )


def _with_bundle(asked: CheckRequest, arguments: argparse.Namespace) -> CheckRequest:
    """A bundle says how it is run and fed; what the file of limits says takes precedence."""
    bundle = options.bundle_named(arguments.model, trust=arguments.trust_bundle)
    if bundle is None:
        return asked
    own: dict[str, Any] = {"preprocess": bundle.preprocess, "label_offset": bundle.label_offset}
    data = replace(asked.data, **{name: value for name, value in own.items() if name not in asked.data_settings})
    workload = options.changed_workload(bundle.workload, asked.workload.signature, asked.workload.shapes)
    return replace(asked, data=data, workload=workload)


def _plan_settings(arguments: argparse.Namespace, asked: CheckRequest) -> dict[str, Any]:
    """The settings of the file of limits, changed by what the command line says."""
    from_file = {name: getattr(asked.plan, name) for name in asked.plan_settings}
    given = options.plan_settings(arguments)
    merged = {**dict(from_file.get("options", ())), **dict(given.get("options", ()))}
    return {**from_file, **given, **({"options": tuple(sorted(merged.items()))} if merged else {})}


def _is_step_summary(path: Path) -> bool:
    """Whether this is the file to which GitHub's jobs add their summaries: several steps share it."""
    return str(path) == os.environ.get("GITHUB_STEP_SUMMARY")


def _write_markdown(arguments: argparse.Namespace, text: str) -> None:
    path: Path = arguments.markdown
    if not _is_step_summary(path):
        write_new(path, text, force=arguments.force)
        return
    before = path.stat().st_size if is_there(path) else 0
    try:
        with path.open("a", encoding="utf-8") as stream:
            stream.write("\n" + text if before else text)
    except OSError as error:
        with contextlib.suppress(OSError):
            os.truncate(path, before)  # what other steps wrote stays, without half of a summary behind it
        raise DataError(f"{path} cannot be written: {error.strerror}.", _ROOM) from error
