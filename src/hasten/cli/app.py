"""Find where an application's time goes: run any Python program unchanged, and watch LiteRT and everything else in it.

The program's own output passes through untouched, and hasten exits with the program's exit code. The report goes to
standard error when the program ends. With --json, standard output holds only the document, and what the program
prints there goes to standard error. Use --from to read a recorded trace instead: Perfetto, atrace, perf
script, py-spy, Instruments or Chrome trace events.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hasten.cli import options
from hasten.cli.files import is_there, refuse_existing, write_beside
from hasten.cli.output import program_output
from hasten.cli.presenting import completed, present
from hasten.cli.progress import progress_bar
from hasten.core.errors import UsageError

if TYPE_CHECKING:
    import argparse

EXAMPLES = """
hasten app -- python app.py --camera 0
hasten app --trace timeline.json -- python -m package.module
hasten app --json -- ./console-script > app.json
hasten app --seconds 0 -- python app.py
hasten app --from trace.perfetto-trace
"""
_STANDARD_ERROR: Final = 2
_USUAL_SECONDS: Final = 10.0


def configure(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    parser.add_argument("program", nargs="*", metavar="-- PROGRAM", help="the program and its arguments, after --")
    parser.add_argument("--trace", type=Path, metavar="FILE", help="write a timeline for Perfetto or Chrome (.json)")
    parser.add_argument("--force", action="store_true", help="replace the timeline if it exists")
    parser.add_argument(
        "--seconds",
        type=_seconds,
        default=_USUAL_SECONDS,
        metavar="S",
        help="time to measure the program's models afterwards: operators and threads (default: 10; 0 to skip)",
    )
    parser.add_argument(
        "--from", dest="from_trace", type=Path, metavar="FILE", help="read a trace that a platform's tool recorded"
    )
    parser.add_argument("--kind", default="", help="with --from: the format of the trace (default: detected)")
    options.add_output(parser)


def run(arguments: argparse.Namespace) -> int:
    """Run the program, then show what was seen; the exit code is the program's."""
    if arguments.from_trace:
        return _run_trace(arguments)
    if not arguments.program:
        raise UsageError("No program was given.", "Example: hasten app -- python app.py")
    refuse_existing(arguments.trace, force=arguments.force, model="")
    session = options.session_from(arguments, "app")

    from hasten import api

    output = _STANDARD_ERROR if arguments.json else program_output()
    timeline = _timeline(arguments)
    with progress_bar("the models by themselves") as progress:
        found, interrupted = completed(
            lambda: api.app(
                arguments.program,
                output=output,
                timeline=timeline,
                replay=arguments.seconds > 0,
                effort=api.Effort(arguments.seconds, progress=progress),
            )
        )
    found = replace(found, trace=_written(timeline))
    return present(arguments, found, session=session, interrupted=interrupted, on_error_stream=True) or found.exit_code


def _run_trace(arguments: argparse.Namespace) -> int:
    path, output = arguments.from_trace, arguments.trace
    if output is not None and is_there(output) and is_there(path) and output.samefile(path):
        raise UsageError(f"{output} is the trace itself.", "Choose another name for the timeline.")
    refuse_existing(output, force=arguments.force, model=str(path))
    session = options.session_from(arguments, "app")

    from hasten import api

    timeline = _timeline(arguments)
    with progress_bar("reading") as progress:
        effort = api.Effort(progress=progress)
        found = api.app_trace(path, arguments.kind, timeline=timeline, effort=effort)
    return present(arguments, replace(found, trace=_written(timeline)), session=session)


@dataclass(slots=True)
class _Timeline:
    """The file of a timeline, which a full disk may refuse."""

    path: Path
    force: bool
    written: bool = False

    def __call__(self, text: str) -> None:
        self.written = write_beside(self.path, text, force=self.force)


def _timeline(arguments: argparse.Namespace) -> _Timeline | None:
    """What writes the timeline, if one is asked for."""
    return None if arguments.trace is None else _Timeline(arguments.trace, arguments.force)


def _written(timeline: _Timeline | None) -> str | None:
    """The path of the timeline, if there is one."""
    return str(timeline.path) if timeline is not None and timeline.written else None


def _seconds(text: str) -> float:
    return 0.0 if text.strip() == "0" else options.positive_float(text)
