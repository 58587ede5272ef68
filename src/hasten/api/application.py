"""Where the time of a whole program goes: run it under watch, or read a trace of it."""

from __future__ import annotations

import pathlib
from typing import TYPE_CHECKING

from hasten.measure.arguments import checked
from hasten.measure.effort import Effort

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hasten.api.border import Path
    from hasten.practices.app.facts import TraceFound, WatchedFound
    from hasten.practices.app.run import Timeline, Watching


@checked
def app(
    command: Sequence[str],
    *,
    output: int | None = None,
    timeline: Timeline | None = None,
    replay: bool = True,
    effort: Effort = Effort(),
) -> WatchedFound:
    """Where the time of a Python program goes: run it under watch, then measure its models by themselves (`replay`).

    `output` is the descriptor of its standard output; `timeline` takes the text of a timeline for Perfetto.
    """
    from hasten.practices.app.run import run

    return run(command, output, timeline, effort, replay=replay)


@checked
def app_trace(path: Path, kind: str = "", *, timeline: Timeline | None = None, effort: Effort = Effort()) -> TraceFound:
    """What a trace of Perfetto, atrace, perf, py-spy or Instruments says about LiteRT in an application.

    `kind` names its format, which hasten detects otherwise; `timeline` takes the text of a timeline for Perfetto.
    """
    from hasten.practices.app.run import run_trace

    return run_trace(pathlib.Path(path), kind, timeline, effort.progress)


@checked
def watch(*, seconds: float = 0.0) -> Watching:
    """Watch the code of a `with`: `with hasten.watch() as seen: …`, then `seen.result`, `seen.findings`.

    `seconds`: how long to measure the models by themselves afterwards, as the command does.
    """
    from hasten.practices.app.run import Watching

    return Watching(seconds)
