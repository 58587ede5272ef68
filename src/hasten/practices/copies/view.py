"""A study of copies as blocks and as the document that `--json` prints."""

from __future__ import annotations

from dataclasses import replace
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Final

from hasten.core.codec import to_data
from hasten.core.phrases import as_sentence
from hasten.core.units import cost_interval_ms, interval_ms, milliseconds, percent, size, times
from hasten.practices.copies.facts import BOTH, IN, OUT, CopiesFound, CopyRow
from hasten.practices.copies.rules import NAME, advised_way, finding_of, recommended_way
from hasten.practices.copies.words import BOOK, WAY_NAMES
from hasten.show.blocks import (
    Cell,
    Chart,
    Detail,
    Facts,
    Prose,
    Snippet,
    Table,
    answer,
    columns,
    notes,
    sentences,
    studies_section,
)
from hasten.show.charts import Bar, interval_bars

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hasten.core.session import Line
    from hasten.show.blocks import Block, Section

# A cost of at least this number of inferences is given as a factor.
_MANY: Final = 10.0


def view(found: CopiesFound, name: str = NAME) -> list[Block]:
    """The recommendation, the cost of each way, what cannot be done here, and the code."""
    chosen = advised_way(found)
    interval = interval_ms(*(end / 1e3 for end in found.inference_ci95_us))
    facts = (
        ("model", f"{PurePath(found.model.path).name}, {found.plan.describe()}"),
        ("data", f"{size(found.input_bytes)} in, {size(found.output_bytes)} out"),
        ("inference", f"{milliseconds(found.inference_us / 1e3)} (95 % CI {interval})"),
        *((("use", WAY_NAMES[chosen]),) if chosen else ()),
    )
    return [
        answer(finding_of(found).remark, BOOK),
        Facts(facts),
        _by_way(found, name, chosen),
        *notes(found.doubts, BOOK),
        Detail((*_chart(found, name), *_refused(found.rows))),
        *_code(found),
    ]


def document(found: CopiesFound) -> dict[str, Any]:
    """The document of `hasten copies --json`."""
    chosen = recommended_way(found.rows, found.inference_us)
    return {
        **to_data(replace(found, blocks=()), BOOK),
        "recommended": WAY_NAMES.get(chosen, ""),
        "recommended_key": chosen,
        "finding": BOOK.finding_data(finding_of(found)),
    }


def session_lines(found: CopiesFound) -> list[tuple[str, str, dict[str, Any]]]:
    """What a session keeps of a study."""
    return [(NAME, found.model.path, to_data(found)), ("finding", NAME, to_data(finding_of(found)))]


def sections(lines: Sequence[Line]) -> list[Section]:
    """The section of a report."""
    return studies_section(CopiesFound, NAME, lines, view)


def _by_way(found: CopiesFound, name: str, chosen: str) -> Table:
    """A row for each way that was timed, mistakes last."""
    timed = [_total(found, key) for key in dict.fromkeys(row.key for row in found.rows if row.us is not None)]
    cells = tuple(
        (
            Cell(row.way),
            *(_cost(found.row(row.key, direction)) for direction in (IN, OUT)),
            _cost(row),
            Cell(_share(row), row.share),
            Cell("use this" if row.key == chosen else "mistake" if row.fault else ""),
        )
        for row in sorted(timed, key=lambda row: row.fault)
    )
    headings = columns("way", "#feed", "#read", "#total", "#of a run", "")
    return Table(f"{name}-table", "Cost of each way to feed and read", headings, cells)


def _total(found: CopiesFound, key: str) -> CopyRow:
    return next(row for direction in (BOTH, IN) if (row := found.row(key, direction)) is not None)


def _cost(row: CopyRow | None) -> Cell:
    if row is None or row.us is None:
        return Cell("")
    return Cell(milliseconds(row.us / 1e3) if row.us > 0 else "not measurable", row.us)


def _interval(row: CopyRow) -> Cell:
    return Cell(cost_interval_ms(*(end / 1e3 for end in row.ci95_us)), row.ci95_us[0]) if row.ci95_us else Cell("")


def _share(row: CopyRow) -> str:
    if row.share is None or row.share <= 0:  # a difference that lies within the noise
        return ""
    return percent(row.share) if row.share < _MANY else times(row.share)


def _chart(found: CopiesFound, name: str) -> list[Block]:
    """A bar for each way and direction."""
    timed = [row for row in found.rows if row.us is not None]
    bars = [_bar(row) for row in timed]
    if not bars:
        return []
    headings = columns("way", "direction", "#cost", "#95 % CI", "#of a run")
    cells = tuple(
        (Cell(row.way), Cell(row.direction), _cost(row), _interval(row), Cell(_share(row), row.share)) for row in timed
    )
    sheet = Table(f"{name}-directions", "Cost by way and direction", headings, cells)
    said = "A bar for each way and direction. Mistakes are marked."
    return [Chart(name, "Cost of feeding and reading", said, interval_bars(bars, "time per inference, µs"), sheet)]


def _bar(row: CopyRow) -> Bar:
    us = max(row.us or 0.0, 0.0)
    status = "broken" if row.fault else "kept"
    return Bar(f"{row.direction}: {row.way}", us, *(row.ci95_us or (us, us)), milliseconds(us / 1e3), status)


def _refused(rows: Sequence[CopyRow]) -> list[Block]:
    """Each reason once, with the ways that it rules out."""
    reasons: dict[str, list[str]] = {}
    for row in rows:
        if row.us is None:
            reasons.setdefault(BOOK.text(row.reason), []).append(row.way)
    return sentences(f"No cost known: {'; '.join(ways)}. {as_sentence(reason)}" for reason, ways in reasons.items())


def _code(found: CopiesFound) -> list[Block]:
    if not found.snippet:
        return []
    which = "for the recommended way" if advised_way(found) else "that feeds and reads without a copy"
    return [Prose(f"Code {which} ({found.language}):"), Snippet(found.snippet.rstrip(), found.language)]
