"""A study of threads as blocks and as the document that `--json` prints."""

from __future__ import annotations

from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from hasten.core.codec import to_data
from hasten.core.cores import cores_text
from hasten.core.doubts import PHRASES as DOUBT_CODES
from hasten.core.measurement import measurement_from_data
from hasten.core.remark import Remark, remark
from hasten.core.session import merged_rounds
from hasten.core.units import interval_ms, milliseconds, percent, size
from hasten.practices.threads.facts import Condition, Option, Row, ThreadsFound, option_of
from hasten.practices.threads.rules import NAME, doubts_of, finding_of, is_undecided, row_from_measurement
from hasten.practices.threads.words import BOOK, condition_words, option_words
from hasten.show.blocks import (
    Cell,
    Chart,
    Detail,
    Facts,
    Headline,
    Section,
    Table,
    answer,
    columns,
    doubt_notes,
    notes,
    sentences,
    studies_section,
)
from hasten.show.charts import LINE_SHAPES, SERIES, drawn_ends, tooltip, vega_lite

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hasten.core.session import Line
    from hasten.show.blocks import Block


def view(found: ThreadsFound, name: str = NAME) -> list[Block]:
    """The recommendation, the rows, and what to know about them."""
    now = f"{PurePath(found.model.path).name} ({size(found.model.size_bytes)}), now with {option_words(found.current)}"
    others = [BOOK.text(choice.why) for load, choice in found.by_load.items() if load != found.load]
    return [
        answer(finding_of(found).remark, BOOK),
        Facts((("model", now), ("cores", str(found.cores)))),
        _chart(found.rows, _marks(found), name),
        *sentences(f"{trouble.where} could not be measured: {trouble.message}" for trouble in found.troubles),
        *notes([doubt for doubt in doubts_of(found) if doubt.code not in DOUBT_CODES], BOOK),
        *doubt_notes({_row_name(row): row.doubts for row in found.rows}, BOOK),
        Detail((*(Headline(text) for text in others), *notes(_more(found), BOOK))),
    ]


def document(found: ThreadsFound) -> dict[str, Any]:
    """The document of `hasten threads --json`."""
    finding, choice = finding_of(found), found.choice
    return {
        **to_data(found, BOOK),
        "recommended": None if choice is None else choice.threads,
        "recommended_cores": [] if choice is None else list(choice.cores),
        "why": BOOK.text(finding.remark),
        "energy": "cpu_seconds as a proxy" if all(row.energy_mj is None for row in found.rows) else "counter",
        "finding": BOOK.finding_data(finding),
        "plot": _plot(found.rows),
        "doubts": [BOOK.remark_data(doubt) for doubt in doubts_of(found)],
    }


def session_lines(found: ThreadsFound) -> list[tuple[str, str, dict[str, Any]]]:
    """What a session keeps of a study."""
    return [("threads", found.model.path, to_data(found)), ("finding", NAME, to_data(finding_of(found)))]


def sections(lines: Sequence[Line]) -> list[Section]:
    """The section of a report. Sessions that hold no study, only its measurements, are shown by those."""
    if found := studies_section(ThreadsFound, NAME, lines, view):
        return found
    measured = merged_rounds(line for line in lines if line.kind == "measurement" and "load" in line.data)
    rows = [_measured_row(line.data) for line in measured]
    return [Section(NAME, "Threads", (_chart(rows, {}, NAME),))] if rows else []


def _row_name(row: Row) -> str:
    """`2 threads alone`, `1 thread next to compute work`: without a comma, as it stands in a list."""
    return f"{option_words(row.option)} {f'next to {row.load_kind} work' if row.load_workers else 'alone'}"


def _measured_row(data: dict[str, Any]) -> Row:
    found = measurement_from_data(data)
    condition = Condition(data["load"], data["load_kind"], data["load_workers"])
    return row_from_measurement(option_of(found.plan), condition, found)


def _more(found: ThreadsFound) -> list[Remark]:
    """Whether the setting takes effect, and what a run costs."""
    judged = [effect for effect in found.effect if effect.threads > 1]
    counted = [to_data(row) for row in found.rows if row.energy_mj is not None]
    energy = remark("threads.energy", rows=counted) if counted else remark("threads.no-counter")
    return [*(effect.evidence for effect in judged[:1]), energy]


def _marks(found: ThreadsFound) -> dict[tuple[str, Option], str]:
    """Situation and option → what its rows say of it."""
    return {
        (load, choice.option): "undecided" if is_undecided(choice, found.current) else "use this"
        for load, choice in found.by_load.items()
    }


def _chart(rows: Sequence[Row], marks: Mapping[tuple[str, Option], str], name: str) -> Chart:
    """Latency against threads, a line for each condition; on a terminal the table alone."""
    quickest = min(rows, key=lambda row: row.median_ms)
    said = (
        f"A line for each condition. The lowest latency is {milliseconds(quickest.median_ms)}, with"
        f" {option_words(quickest.option)}, {condition_words(quickest.condition)}."
    )
    return Chart(name, "Latency by threads", said, _spec(rows), _table(rows, marks, f"{name}-table"))


def _table(rows: Sequence[Row], marks: Mapping[tuple[str, Option], str], name: str) -> Table:
    headings = columns(
        "condition", "#threads", "?cores", "#median", "#?95 % CI", "#p95", "#?spread", "#CPU per run", ""
    )
    cells = tuple(
        (
            Cell(condition_words(row.condition)),
            Cell(str(row.threads), row.threads),
            Cell(cores_text(row.cores) or "all"),
            Cell(milliseconds(row.median_ms), row.median_ms),
            Cell(interval_ms(*row.ci95_ms), row.ci95_ms[0]),
            Cell(milliseconds(row.p95_ms), row.p95_ms),
            Cell(percent(row.spread), row.spread),
            Cell(milliseconds(row.cpu_seconds * 1e3), row.cpu_seconds),
            Cell(marks.get((row.load, row.option), "")),
        )
        for row in rows
    )
    return Table(name, "Latency by threads and other load", headings, cells)


def _series(row: Row) -> str:
    cores = f", cores {cores_text(row.cores)}" if row.cores else ""
    return f"{condition_words(row.condition)}{cores}"


def _spec(rows: Sequence[Row]) -> dict[str, Any]:
    values = [
        {
            "threads": row.threads,
            "condition": _series(row),
            "ms": row.median_ms,
            **drawn_ends(row.median_ms, *row.ci95_ms),
            "latency": milliseconds(row.median_ms),
            "interval": interval_ms(*row.ci95_ms),
        }
        for row in rows
    ]
    conditions = list(dict.fromkeys(value["condition"] for value in values))
    x = {"field": "threads", "type": "ordinal", "title": "threads", "axis": {"labelAngle": 0}}
    y = {"field": "ms", "type": "quantitative", "title": "latency, ms", "scale": {"zero": True}}
    color = {
        "field": "condition",
        "type": "nominal",
        "scale": {"domain": conditions, "range": list(SERIES)},
        "legend": {"title": None, "columns": {"signal": "width < 400 ? 1 : 2"}, "labelLimit": 240},
    }
    shape = {**color, "scale": {"domain": conditions, "range": list(LINE_SHAPES)}}
    return vega_lite(
        300,
        values,
        layer=[
            {
                "mark": {"type": "line", "strokeWidth": 2},
                "encoding": {
                    "x": x,
                    "y": y,
                    "color": color,
                    "strokeDash": {"field": "condition", "type": "nominal", "sort": conditions, "legend": None},
                },
            },
            {
                "mark": {"type": "rule", "strokeWidth": 1.5},
                "encoding": {"x": x, "y": {**y, "field": "low"}, "y2": {"field": "high"}, "color": color},
            },
            {
                "mark": {"type": "point", "filled": True, "size": 75, "opacity": 1},
                "encoding": {
                    "x": x,
                    "y": y,
                    "color": color,
                    "shape": shape,
                    "tooltip": tooltip(
                        threads="threads", condition="condition", latency="latency", interval="95 %_interval"
                    ),
                },
            },
        ],
    )


def _plot(rows: Sequence[Row]) -> dict[str, Any]:
    """Latency against threads as plain series, for whoever draws it elsewhere."""
    series: dict[tuple[Condition, tuple[int, ...]], list[Row]] = {}
    for row in rows:
        series.setdefault((row.condition, row.cores), []).append(row)
    return {
        "x": "threads",
        "y": "median_ms",
        "series": [
            {
                "label": _series(members[0]),
                "load": condition.situation,
                "load_kind": condition.kind or None,
                "cores": list(cores),
                "points": [
                    {
                        "threads": row.threads,
                        "median_ms": row.median_ms,
                        "low_ms": row.ci95_ms[0],
                        "high_ms": row.ci95_ms[1],
                        "p95_ms": row.p95_ms,
                    }
                    for row in sorted(members, key=lambda row: row.threads)
                ],
            }
            for (condition, cores), members in series.items()
        ],
    }
