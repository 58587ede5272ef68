"""A tuning as text: the verdict in a sentence, the steps, the nine verdicts, and where everything lies."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hasten.core.tuning_words import times_words
from hasten.core.units import milliseconds
from hasten.practices.registry import phrasebook
from hasten.report.text import WIDTH, printable, wrapped

if TYPE_CHECKING:
    from hasten.core.finding import Finding
    from hasten.core.tuning import Step, TuneResult

_PRACTICE: Final = 13
_VERDICT: Final = 13


def tune_text(found: TuneResult) -> str:
    """All of it for a terminal of 80 columns."""
    best = found.best
    lines = [
        *wrapped(f"{Path(found.model).name}: {found.verdict}"),
        *wrapped(f"Run: {best.variant} on {best.plan.describe()}, {milliseconds(best.median_ms)}."),
        "",
        *(line for step in found.steps for line in _step(step)),
        *([""] if found.steps else []),
        *(line for finding in found.findings for line in _finding(finding)),
        "",
    ]
    lines += wrapped(f"{found.trials} ways to run it were timed in {found.seconds:.0f} s{_floor(found)}.")
    lines += [f"  {what:<9} {place}" for what, place in _places(found)]
    for doubt in found.doubts:
        lines += wrapped(f"{doubt['reason']}: {doubt['evidence']}", "! ")
    for note in found.notes:
        lines += wrapped(note, "! ")
    return "\n".join(lines)


def _floor(found: TuneResult) -> str:
    """What was allowed; nothing where there was no data to judge by."""
    if found.original.accuracy is None:
        return ""
    # Sessions from before it was recorded know the number only.
    return f"; floor: {found.floor.get('text') or f'a drop of at most {found.max_drop:g}'}"


def _step(step: Step) -> list[str]:
    times = f"{milliseconds(step.from_ms)} → {milliseconds(step.to_ms)}"
    return wrapped(f"{times:>22}  {times_words(1 / step.ratio)} times: {step.what}", "  ", " " * 26)


def _finding(finding: Finding) -> list[str]:
    book = phrasebook()
    said = printable(f"{book.text(finding.remark)} {book.hint(finding.remark)}".strip())
    head = f"{finding.practice:<{_PRACTICE}}{finding.standing.value:<{_VERDICT}}"
    return textwrap.wrap(said, WIDTH, initial_indent=head, subsequent_indent=" " * (_PRACTICE + _VERDICT))


def _places(found: TuneResult) -> list[tuple[str, str]]:
    places = [("bundle", found.folder)]
    if "report.html" in found.files:
        places.append(("report", str(Path(found.folder) / "report.html")))
    places.append(("session", str(Path(found.folder) / "session.jsonl")))
    if found.command:
        places.append(("again", found.command))
    return places
