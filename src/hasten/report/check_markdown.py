"""A gate as Markdown: a comment on a pull request, or the summary of a job."""

from __future__ import annotations

import html
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hasten.core.doubts import DOUBTS
from hasten.core.units import size
from hasten.gate.rules import GateVerdict
from hasten.report.check_text import figures, intervals_sentence, verdict_sentence
from hasten.report.text import printable

if TYPE_CHECKING:
    from hasten.gate.rules import CheckResult, Row

_MARKS: Final = {GateVerdict.PASSED: "✅", GateVerdict.FAILED: "❌", GateVerdict.UNDECIDED: "❔"}
_STEERING: Final = re.compile(r"([\\`*_{}\[\]#|~])")


def check_markdown(found: CheckResult) -> str:
    """A heading with the verdict, a table of the limits, what to doubt behind a fold."""
    mark = "✅" if found.passed else "❌"
    name = f"{Path(found.model.path).name} ({size(found.model.size_bytes)})"
    lines = [
        f"### {mark} {escaped(verdict_sentence(found))}",
        "",
        f"{escaped(name)} on {escaped(found.plan.describe())}",
        "",
        "| limit | measured | interval | allowed | verdict | |",
        "|---|--:|:-:|---|---|---|",
        *(_row(row) for row in found.rows),
        "",
    ]
    if said := intervals_sentence(found):
        lines += [said, ""]
    if found.doubts or found.notes:
        doubts = [f"**{doubt.code}**: {escaped(DOUBTS.text(doubt))}" for doubt in found.doubts]
        doubts += [escaped(note) for note in found.notes]
        lines += ["<details><summary>Doubts</summary>", "", *(f"- {text}" for text in doubts), "", "</details>", ""]
    return "\n".join(lines)


def escaped(text: str) -> str:
    """The text as itself: file names can hold anything, and a table ends at the first bar."""
    return _STEERING.sub(r"\\\1", html.escape(printable(text), quote=False))


def _row(row: Row) -> str:
    measured, interval, limit = figures(row)
    cells = (row.what, measured, interval, limit, f"{_MARKS[row.verdict]} {row.verdict.value}", row.why)
    return "| " + " | ".join(escaped(cell) for cell in cells) + " |"
