"""Summary → sections, in the order in which a reader wants them. What a session does not hold has no section."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hasten.core.phrases import as_sentence
from hasten.report.document import practices, trials
from hasten.show.blocks import Cell, Facts, Prose, Section, Table, Verdicts, columns

if TYPE_CHECKING:
    from hasten.report.summary.records import Summary
    from hasten.show.blocks import Block


_FIRST: Final = ("checks",)
"""What a reader came for, where a session holds it."""


def sections_of(summary: Summary) -> list[Section]:
    """The sections of a report."""
    found = [
        _verdicts(summary),
        *(section for section in summary.sections if section.name in _FIRST),
        trials.front_section(summary),
        practices.steps_section(summary),
        *(section for section in summary.sections if section.name not in _FIRST),
        practices.sensitivities_section(summary),
        trials.timeline_section(summary),
        trials.doubts_section(summary),
        trials.trials_section(summary),
        _reproduce(summary),
        _environment(summary),
    ]
    return [section for section in found if section is not None]


def _verdicts(summary: Summary) -> Section | None:
    if not summary.verdicts:
        return None
    title = "The nine practices" if len(summary.verdicts) == 9 else "Verdicts"
    return Section(
        "verdicts", title, (Verdicts(summary.verdicts), *(Prose(as_sentence(note)) for note in summary.notes))
    )


def _reproduce(summary: Summary) -> Section | None:
    if not summary.reproductions:
        return None
    rows = tuple((Cell(row.what), Cell(row.value), Cell(row.command, code=True)) for row in summary.reproductions)
    sheet = Table("reproduce-table", "The command for each number", columns("number", "#here", "command"), rows)
    lead = (
        "Each number can be measured again, on this machine or another one. The commands of all trials are with them."
    )
    return Section("reproduce", "How to get these numbers again", (Prose(lead), sheet))


def _environment(summary: Summary) -> Section:
    blocks: list[Block] = [Facts(summary.environment)] if summary.environment else []
    if summary.other_kinds:
        named = ", ".join(f"{kind or 'without a name'} ({count})" for kind, count in summary.other_kinds)
        blocks.append(Prose(f"The session also holds lines that this report has no section for: {named}."))
    if not blocks:
        blocks.append(Prose("The session does not say where it was measured."))
    return Section("environment", "Where this was measured", tuple(blocks))
