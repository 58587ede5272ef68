"""A watch over a part of one's own program: `with hasten.watch() as seen: …`."""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from hasten.core.errors import UsageError
from hasten.practices.app.facts import AppFinding, AppResult, Overhead
from hasten.practices.app.watched.program import Ended
from hasten.practices.app.watched.replay import AfterTheRun
from hasten.practices.app.watched.study import AppStudy
from hasten.targets.local import LocalTarget
from hasten.watcher.watch import Watch

if TYPE_CHECKING:
    from types import TracebackType

_active: list[Watching] = []


class Watching:
    """Watches from its `with` to the end of it; then tells what it saw.

    One at a time. Inside a program that `hasten app` watches, it sees nothing: that watch sees it all.
    """

    def __init__(self, seconds: float = 0.0) -> None:
        self.allow: tuple[str, ...] = ()
        """Rules whose faults `check` lets pass."""
        self._seconds = seconds
        self._watch: Watch | None = None
        self._began_ns = 0
        self._result: AppResult | None = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def __enter__(self) -> Watching:
        if _active:
            raise UsageError("a watch is on already", "Watches cannot be nested; end the other one first.")
        self._began_ns = time.perf_counter_ns()
        self._result = None
        if "_hasten_watcher" not in sys.modules:
            self._folder = tempfile.TemporaryDirectory(prefix="hasten-watch-", ignore_cleanup_errors=True)
            self._watch = Watch(self._folder.name, self._began_ns)
            self._watch.start()
            _active.append(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._watch is None or self._folder is None:
            self._result = AppResult((), 0, 0.0, None, (), (), (), (), None, Overhead(0, 0.0, 0, 0.0, 0.0))
            return
        _active.remove(self)
        self._watch.stop()
        ended = Ended(0 if error is None else 1, self._began_ns, time.perf_counter_ns())
        study = AppStudy(Path(self._folder.name), (), ended)
        self._result = AfterTheRun(study, LocalTarget(), self._seconds, lambda share, text: None).result()
        self._folder.cleanup()

    @property
    def result(self) -> AppResult:
        """What was seen; after the `with`."""
        if self._result is None:
            raise UsageError("the watch has not ended", "Ask for its result after the with.")
        return self._result

    @property
    def findings(self) -> tuple[AppFinding, ...]:
        """The faults that were found; after the `with`."""
        return self.result.findings

    def check(self, *, allow: tuple[str, ...] = ()) -> None:
        """For tests: an AssertionError that names every fault whose rule is not allowed."""
        faults = [fault for fault in self.findings if fault.rule not in (*allow, *self.allow)]
        if faults:
            lines = [
                f"{fault.file}:{fault.line}: {fault.rule}, {fault.cost_ms:.1f} ms. {fault.fix}" for fault in faults
            ]
            raise AssertionError("\n".join(lines))
