"""Where does an application's time go? Runs any Python program unchanged and watches LiteRT, and all else, inside it.

The program's own output passes through untouched, and hasten ends with the program's exit code. hasten's report comes
on standard error when the program has ended. With --json, standard output has the document alone, and what the program
writes there goes to standard error.
"""

from __future__ import annotations

import contextlib
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from hasten.cli import options
from hasten.cli.files import refuse_existing, write_new
from hasten.cli.output import complain, program_output, show
from hasten.cli.progress import progress_bar
from hasten.core.errors import UsageError

if TYPE_CHECKING:
    import argparse

    from hasten.practices.app.facts import AppResult
    from hasten.practices.app.watched.study import AppStudy

EXAMPLES = """
hasten app -- python app.py --camera 0
hasten app --trace timeline.json -- python -m package.module
hasten app --json -- ./console-script > app.json
hasten app --seconds 0 -- python app.py
hasten app --from trace.perfetto-trace
"""
_STANDARD_ERROR = 2
DEFAULT_SECONDS = 10.0


def configure(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    parser.add_argument("program", nargs="*", metavar="-- PROGRAM", help="the program and its arguments, after --")
    parser.add_argument("--trace", type=Path, metavar="FILE", help="write a timeline for Perfetto or Chrome (.json)")
    parser.add_argument("--force", action="store_true", help="replace the timeline if it exists")
    parser.add_argument(
        "--seconds",
        type=_seconds,
        default=DEFAULT_SECONDS,
        metavar="S",
        help=f"measure its models so long after its end: operators, threads (default: {DEFAULT_SECONDS:.0f}; 0: not)",
    )
    parser.add_argument(
        "--from", dest="from_trace", type=Path, metavar="FILE", help="read what a platform tool recorded"
    )
    parser.add_argument("--kind", default="", help="with --from: the kind of trace (default: seen from the file)")
    options.add_output(parser)


def run(arguments: argparse.Namespace) -> int:
    """Run the program, then say what was seen; the exit code is the program's."""
    if arguments.from_trace:
        from hasten.cli.app_from import run_from

        return run_from(arguments)
    if not arguments.program:
        raise UsageError("no program is named", "Example: hasten app -- python app.py")
    if arguments.trace:
        refuse_existing(arguments.trace, force=arguments.force, model="")
    session = options.session_from(arguments, "app")

    from hasten.library import study_app

    with tempfile.TemporaryDirectory(prefix="hasten-app-", ignore_cleanup_errors=True) as folder:
        output = _STANDARD_ERROR if arguments.json else program_output()
        study = study_app(arguments.program, Path(folder), output=output)
        found = _measured(study, arguments.seconds)
        if arguments.trace:
            found = _with_trace(study, found, arguments.trace, force=arguments.force)
    if session:
        session.add("app", " ".join(found.command), found.as_data())
        session.add("finding", "app", found.finding.as_data())
    _show(found, json=arguments.json)
    return found.exit_code


def _measured(study: AppStudy, seconds: float) -> AppResult:
    """The result with what is measured afterwards; without it if that is interrupted."""
    from hasten.library import measure_app

    try:
        with progress_bar("the models by themselves") as progress:
            return measure_app(study, seconds, progress)
    except KeyboardInterrupt:
        complain("interrupted; this is what was seen of the program", "")
        return study.result()


def _with_trace(study: AppStudy, found: AppResult, path: Path, *, force: bool) -> AppResult:
    from hasten.report.app_trace import app_trace_json

    write_new(path, app_trace_json(study, found), force=force)
    return replace(found, trace=str(path))


def _show(found: AppResult, *, json: bool) -> None:
    from hasten.report.app_text import app_text

    if json:
        show(options.as_json(found.as_data()))
    else:
        with contextlib.suppress(OSError):
            print("\n" + app_text(found), file=sys.stderr, flush=True)


def _seconds(text: str) -> float:
    return 0.0 if text.strip() == "0" else options.positive_float(text)
