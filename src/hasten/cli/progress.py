"""Progress on standard error: a bar on a terminal, an occasional line elsewhere."""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
import time
from typing import TYPE_CHECKING, Final

from hasten.cli.ending import ENDING
from hasten.cli.output import watched
from hasten.core.printable import printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hasten.measure.rounds import Progress

_SECONDS_BETWEEN_LINES: Final = 5.0


@contextlib.contextmanager
def progress_bar(title: str) -> Iterator[Progress]:
    """A function to report progress to, for as long as the `with` lasts."""
    shown = _bar(title) if watched() else contextlib.nullcontext(_lines(title))
    with shown as report, _insistent(_onward(report)) as insistent:
        yield insistent


def _onward(report: Progress) -> Progress:
    """A share that never falls: work that turns up on the way makes the bar wait, not go back."""
    furthest = 0.0

    def tell(share: float, text: str) -> None:
        nonlocal furthest
        furthest = max(furthest, share)
        report(furthest, printable(text))

    return tell


@contextlib.contextmanager
def _insistent(report: Progress) -> Iterator[Progress]:
    """Re-raise a KeyboardInterrupt that Python swallowed in a finalizer."""
    if threading.current_thread() is not threading.main_thread():
        yield report  # signals are the main thread's
        return
    pressed = False

    def interrupt(_signal: int, _frame: object) -> None:
        nonlocal pressed
        pressed = True
        raise KeyboardInterrupt

    def report_or_end(share: float, text: str) -> None:
        if pressed or ENDING.is_asked_for:
            raise KeyboardInterrupt
        report(share, text)

    before = signal.getsignal(signal.SIGINT)
    if before is signal.default_int_handler:  # a shell's background job ignores the signal, and shall go on doing so
        signal.signal(signal.SIGINT, interrupt)
    try:
        yield report_or_end
    finally:
        signal.signal(signal.SIGINT, before)


@contextlib.contextmanager
def _bar(title: str) -> Iterator[Progress]:
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bars
    from rich.table import Column

    # What is being done gets the rest of the line, and is cut to it: bar and clock are always seen. It may hold names
    # from files, in which brackets are letters.
    rest = Column(ratio=1, no_wrap=True, overflow="ellipsis")
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=16),
        TimeElapsedColumn(),
        TextColumn("{task.fields[state]}", markup=False, table_column=rest),
    )
    with Bars(*columns, console=Console(stderr=True), transient=True, expand=True) as bars:
        task = bars.add_task(title, total=1.0, state="")
        yield lambda share, text: bars.update(task, completed=share, state=text)


def _lines(title: str) -> Progress:
    last = time.monotonic()

    def report(share: float, text: str) -> None:
        nonlocal last
        if time.monotonic() - last >= _SECONDS_BETWEEN_LINES:
            last = time.monotonic()
            with contextlib.suppress(OSError):  # a log that cannot be written must not end the measurement
                print(f"hasten: {title}: {share * 100:.0f} %, {text}", file=sys.stderr)

    return report
