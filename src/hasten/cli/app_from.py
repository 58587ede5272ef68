"""`hasten app --from TRACE`: what a platform's own tool recorded, treated as a program that hasten watched."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hasten.cli import options
from hasten.cli.files import is_there, refuse_existing, write_new
from hasten.cli.output import show
from hasten.cli.progress import progress_bar
from hasten.core.errors import UsageError

if TYPE_CHECKING:
    import argparse

    from hasten.core.platform_trace import PlatformTrace
    from hasten.practices.app.recorded.facts import PlatformResult


def run_from(arguments: argparse.Namespace) -> int:
    """Read, examine, show; write a timeline where one is asked for."""
    path, output = arguments.from_trace, arguments.trace
    if output is not None:
        if is_there(output) and is_there(path) and output.samefile(path):
            raise UsageError(f"{output} is the trace itself", "Choose another name for the timeline.")
        refuse_existing(output, force=arguments.force, model=str(path))
    session = options.session_from(arguments, "app")

    from hasten.library import examine_platform_trace
    from hasten.report.platform_timeline import trace_events
    from hasten.report.platform_trace_text import platform_trace_text

    with progress_bar("reading") as progress:
        trace, found = examine_platform_trace(path, arguments.kind, progress)
        if output is not None:
            progress(1.0, f"writing {output.name}")
            write_new(output, trace_events(trace, _pid(trace, found)), force=arguments.force)
            found = replace(found, trace=str(output))
    if session:
        session.add("app", f"--from {path}", found.as_data())
        session.add("finding", "app", found.finding.as_data())
    if arguments.json:
        show(options.as_json(found.as_data()))
    else:
        written = f"\n\n{output}: the timeline; open it in ui.perfetto.dev" if output is not None else ""
        show(platform_trace_text(found) + written)
    return 0


def _pid(trace: PlatformTrace, found: PlatformResult) -> int | None:
    """The process that infers; all of them where that is not known."""
    pid = found.main.process if found.main else 0
    return pid if pid and any(thread.pid != pid for thread in trace.threads) else None
