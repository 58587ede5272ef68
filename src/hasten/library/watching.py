"""The application around the model, what platform tools recorded, and reports of sessions."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from hasten.core.session import read_session
from hasten.measure.rounds import Progress, no_progress
from hasten.targets.local import LocalTarget

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    from hasten.core.platform_trace import PlatformTrace
    from hasten.practices.app.facts import AppResult
    from hasten.practices.app.recorded.facts import PlatformResult
    from hasten.practices.app.watched.study import AppStudy
    from hasten.practices.app.watched.watch import Watching
    from hasten.targets.base import Target


def study_app(command: Sequence[str], folder: Path, *, output: int | None = None) -> AppStudy:
    """Run a Python program under watch to its end, with what is seen in a folder. `output`: its standard output."""
    from hasten.practices.app.watched.program import run_program
    from hasten.practices.app.watched.study import AppStudy

    ended = run_program(command, folder, output=output)
    return AppStudy(folder, tuple(command), ended)


def measure_app(
    study: AppStudy, seconds: float, progress: Progress = no_progress, *, target: Target | None = None
) -> AppResult:
    """What was seen of a program, with its models measured by themselves for about so many seconds."""
    from hasten.practices.app.watched.replay import AfterTheRun

    return AfterTheRun(study, target or LocalTarget(), seconds, progress).result()


def watch(*, seconds: float = 0.0) -> Watching:
    """Watch the code of a `with`: `with hasten.watch() as seen: …`, then `seen.result`, `seen.findings`, `seen.text()`.

    `seconds`: measure the models by themselves for so long afterwards, as the command does.
    """
    from hasten.practices.app.watched.watch import Watching

    return Watching(seconds)


def examine_platform_trace(
    path: str | os.PathLike[str], kind: str = "", progress: Progress = no_progress
) -> tuple[PlatformTrace, PlatformResult]:
    """What a platform's tool recorded, and what it says of TFLite. `kind`: its format, seen from the file if empty."""
    from hasten.practices.app.recorded.study import examine_trace
    from hasten.traces.reading import read_trace

    trace = read_trace(Path(path), kind, progress)
    progress(1.0, "looking at it")
    return trace, examine_trace(trace)


def session_report(session: str | os.PathLike[str], form: str = "html") -> str:
    """The report of a session file as text: `html`, `md` or `json`."""
    from hasten.report.forms import report_text

    path = Path(session)
    return report_text(read_session(path), form, path.name)
