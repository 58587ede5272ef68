"""Progress on standard error: a bar on a terminal, a line now and then where nobody watches."""

from __future__ import annotations

import contextlib
import sys
import time
from typing import TYPE_CHECKING, Final

from hasten.cli.output import watched

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hasten.measure.rounds import Progress

_SECONDS_BETWEEN_LINES: Final = 5.0


@contextlib.contextmanager
def progress_bar(title: str) -> Iterator[Progress]:
    """A function to report progress to, for as long as the `with` lasts."""
    if watched():
        with _bar(title) as report:
            yield report
    else:
        yield _lines(title)


@contextlib.contextmanager
def _bar(title: str) -> Iterator[Progress]:
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bars

    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=16),
        TimeElapsedColumn(),
        TextColumn("{task.fields[state]}"),
    )
    with Bars(*columns, console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task(title, total=1.0, state="")
        yield lambda share, text: bars.update(task, completed=share, state=text)


def _lines(title: str) -> Progress:
    last = time.monotonic()

    def report(share: float, text: str) -> None:
        nonlocal last
        if time.monotonic() - last >= _SECONDS_BETWEEN_LINES:
            last = time.monotonic()
            with contextlib.suppress(OSError):  # a log that cannot be written must not end the measurement
                print(f"hasten: {title}: {share:.0%}, {text}", file=sys.stderr)

    return report
