"""Run a program under watch, watch a part of one's own, or read a trace that a platform's tool recorded."""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hasten.core.errors import Interrupted, UsageError
from hasten.core.finding import Standing
from hasten.core.remark import remark
from hasten.measure.effort import Effort
from hasten.practices.app.facts import Overhead, Split, WatchedFound
from hasten.practices.app.recorded.analysis import analyze_trace
from hasten.practices.app.rules import finding_of
from hasten.practices.app.timeline import program_timeline, trace_timeline
from hasten.practices.app.watched.analysis import ProgramAnalysis
from hasten.practices.app.watched.program import Ended, run_program
from hasten.practices.app.watched.replay import Replay
from hasten.practices.app.words import BOOK
from hasten.traces.reading import read_trace
from hasten.watcher.instrumentation import Instrumentation

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import TracebackType

    from hasten.core.remark import Remark
    from hasten.measure.rounds import Progress
    from hasten.practices.app.facts import Fault, TraceFound

    Timeline = Callable[[str], object]
    """What takes the text of a timeline, as `Path.write_text` does."""

USUAL_SECONDS: Final = 10.0
_active: list[Watching] = []


def run(
    command: Sequence[str], output: int | None, timeline: Timeline | None, effort: Effort, *, replay: bool
) -> WatchedFound:
    """Run a Python program under watch to its end, then its models by themselves. Ctrl-C ends only the latter."""
    with tempfile.TemporaryDirectory(prefix="hasten-app-", ignore_cleanup_errors=True) as folder:
        ended = run_program(command, Path(folder), output=output)
        study = ProgramAnalysis(Path(folder), tuple(command), ended)
        interrupted = False
        try:
            found = _replayed(study, effort) if replay else study.found()
        except KeyboardInterrupt:
            found, interrupted = study.found(), True
        if timeline is not None:
            timeline(program_timeline(study, found))
    if interrupted:
        raise Interrupted(found)
    return found


def run_trace(path: Path, kind: str, timeline: Timeline | None, progress: Progress) -> TraceFound:
    """Read and analyze a trace. `kind`: its format, seen from the file if empty."""
    trace = read_trace(path, kind, progress)
    progress(1.0, "analyzing")
    found = analyze_trace(trace)
    if timeline is not None:
        progress(1.0, "writing the timeline")
        # One process, the one that infers, where the trace holds others too.
        others = found.pid and any(thread.pid != found.pid for thread in trace.threads)
        timeline(trace_timeline(trace, found.pid if others else None))
    return found


def _replayed(study: ProgramAnalysis, effort: Effort) -> WatchedFound:
    return Replay(study, effort.target, effort.seconds_or(USUAL_SECONDS), effort.progress).found()


class Watching:
    """Watches from its `with` to the end of it; then tells what it saw.

    One at a time. Inside a program that `hasten app` watches, it sees nothing: that watch sees it all.
    """

    def __init__(self, seconds: float = 0.0) -> None:
        self.allow: tuple[str, ...] = ()
        """Rules whose faults `check` lets pass; `not examined` where it may see no inference."""
        self._seconds = seconds
        self._instrumentation: Instrumentation | None = None
        self._began_ns = 0
        self._found: WatchedFound | None = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def __enter__(self) -> Watching:
        if _active:
            raise UsageError("A watch is active already.", "End it first: watches cannot be nested.")
        self._began_ns = time.perf_counter_ns()
        self._found = None
        if "_hasten_watcher" not in sys.modules:
            self._folder = tempfile.TemporaryDirectory(prefix="hasten-watch-", ignore_cleanup_errors=True)
            self._instrumentation = Instrumentation(self._folder.name, self._began_ns)
            self._instrumentation.start()
            _active.append(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._instrumentation is None or self._folder is None:
            self._found = _nothing_seen()
            return
        _active.remove(self)
        self._instrumentation.stop()
        ended = Ended(0 if error is None else 1, self._began_ns, time.perf_counter_ns())
        study = ProgramAnalysis(Path(self._folder.name), (), ended)
        self._found = _replayed(study, Effort(self._seconds)) if self._seconds > 0 else study.found()
        self._folder.cleanup()

    @property
    def result(self) -> WatchedFound:
        """What was seen; after the `with`."""
        if self._found is None:
            raise UsageError("The watch has not ended.", "Read its result after the with block.")
        return self._found

    @property
    def findings(self) -> tuple[Fault, ...]:
        """The faults that were found; after the `with`."""
        return self.result.findings

    def check(self, *, allow: tuple[str, ...] = ()) -> None:
        """For tests: an AssertionError that names every fault whose rule is not allowed.

        A watch that saw no inference fails as well, unless `not examined` is allowed.
        """
        allowed = (*allow, *self.allow)
        if (unseen := self._unseen()) is not None and Standing.NOT_EXAMINED.value not in allowed:
            unexamined = remark("app.unexamined", why=BOOK.text(unseen))
            raise AssertionError(f"{BOOK.text(unexamined)} {BOOK.hint(unexamined)}")
        faults = [fault for fault in self.findings if fault.rule not in allowed]
        if faults:
            lines = [
                f"{fault.file}:{fault.line}: {fault.rule}, {fault.cost_ms:.1f} ms. {BOOK.hint(fault.evidence)}"
                for fault in faults
            ]
            raise AssertionError("\n".join(lines))

    def _unseen(self) -> Remark | None:
        """Why nothing was examined; None where something was."""
        finding = finding_of(self.result)
        if finding.standing is not Standing.NOT_EXAMINED:
            return None
        return finding.remark if self._instrumentation is not None else remark("app.watched-from-outside")


def _nothing_seen() -> WatchedFound:
    common = {"wall_ms": 0.0, "split": Split(), "thread": None, "threads": (), "findings": (), "doubts": ()}
    return WatchedFound(
        **common,  # type: ignore[arg-type]
        command=(),
        exit_code=0,
        code=(),
        models=(),
        frames=None,
        overhead=Overhead(0, 0.0, 0, 0.0, 0.0, 0.0),
        processes=0,
    )
