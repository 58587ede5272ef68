"""The section about profiles: time by kind of operator, a treemap, the roofline, and every operator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hasten.core.units import count, milliseconds, percent, size
from hasten.report.charts.profile import kinds_of, kinds_spec, roofline_spec, treemap_spec
from hasten.report.summary.reading import number, text, whole
from hasten.show.blocks import Cell, Chart, Prose, Section, Table, cell, columns

if TYPE_CHECKING:
    from hasten.report.summary.records import ProfileView, Summary
    from hasten.show.blocks import Block


def profile_section(summary: Summary) -> Section | None:
    """Where a run's time goes, before and after."""
    views = [view for view in summary.profiles if view.operators]
    if not views:
        return None
    titles = {"before": "before", "after": "after"}
    kinds = Chart(
        "profile-kinds",
        "Time by kind of operator",
        " ".join(map(_in_words, views)),
        kinds_spec(views),
        _kinds_sheet(views),
    )
    blocks: list[Block] = [kinds]
    for place, view in enumerate(views):
        title = f"Operators {titles[view.label]}" if view.label in titles else f"Operators of {view.label}"
        if len(view.operators) == 1:
            blocks += [
                Prose(f"{title}: the engine shows {text(view.operators[0], 'op')} as a whole, and nothing in it.")
            ]
            continue
        said = f"Each tile is an operator, its area the time: {len(view.operators)} operators."
        blocks.append(Chart(f"profile-tree-{place}", title, said, treemap_spec(view), _operators_sheet(view, place)))
    roofline = roofline_spec(views)
    if roofline is not None:
        said = (
            "The lines are what this machine can do at most, limited by memory on the left and by arithmetic on the "
            "right. An operator far below its line has headroom; the larger the mark, the more time it takes."
        )
        blocks.append(Chart("profile-roofline", "Roofline", said, roofline, _headroom_sheet(views)))
    elif not any(view.peaks for view in views):
        blocks.append(Prose("The machine's peaks were not measured, so there is no roofline."))
    return Section("profile", "Where the time goes", tuple(blocks))


def _in_words(view: ProfileView) -> str:
    kind, many, spent = kinds_of(view)[0]
    whole_ms = view.invoke_ms or sum(row[2] for row in kinds_of(view))
    share = f" ({percent(spent / whole_ms)} of {milliseconds(whole_ms)})" if whole_ms else ""
    name = view.label[:1].upper() + view.label[1:]
    often = "once" if many == 1 else f"{many} times"
    return f"{name}: most time goes to {kind}, {often}, {milliseconds(spent)}{share}."


def _kinds_sheet(views: list[ProfileView]) -> Table:
    rows = tuple(
        (Cell(view.label), Cell(kind), cell(many), Cell(milliseconds(spent), spent))
        for view in views
        for kind, many, spent in kinds_of(view)
    )
    headings = columns("profile", "operator", "#how many", "#time")
    return Table("profile-kinds-table", "Time by kind of operator", headings, rows)


def _operators_sheet(view: ProfileView, place: int) -> Table:
    headings = columns(
        "#node",
        "operator",
        "#time",
        "#share",
        "kernel",
        "where",
        "#MACs",
        "#bytes",
        "#GFLOP/s",
        "bound by",
        "#headroom",
    )
    rows = tuple(_operator(entry) for entry in view.operators)
    return Table(f"profile-table-{place}", f"Every operator, {view.label}", headings, rows, filterable=len(rows) > 12)


def _operator(entry: dict[str, Any]) -> tuple[Cell, ...]:
    spent, share, macs = number(entry, "ms"), number(entry, "share"), whole(entry, "macs")
    touched, speed, headroom = whole(entry, "bytes"), number(entry, "gflops"), number(entry, "headroom_ms")
    return (
        cell(whole(entry, "index")),
        Cell(text(entry, "op")),
        Cell(milliseconds(spent or 0.0), spent),
        Cell("" if share is None else percent(share), share),
        Cell(text(entry, "kernel"), code=True),
        Cell(text(entry, "location"), code=True),
        Cell("" if macs is None else count(macs), macs),
        Cell("" if touched is None else size(touched), touched),
        Cell("" if speed is None else f"{speed:.3g}", speed),
        Cell(text(entry, "bound")),
        Cell("" if headroom is None else milliseconds(headroom), headroom),
    )


def _headroom_sheet(views: list[ProfileView]) -> Table:
    entries = [(view.label, entry) for view in views for entry in view.operators if number(entry, "headroom_ms")]
    entries.sort(key=lambda pair: -(number(pair[1], "headroom_ms") or 0.0))
    rows = tuple(
        (
            Cell(label),
            cell(whole(entry, "index")),
            Cell(text(entry, "op")),
            Cell(milliseconds(number(entry, "headroom_ms") or 0.0), number(entry, "headroom_ms")),
            Cell(text(entry, "bound")),
        )
        for label, entry in entries[:30]
    )
    headings = columns("profile", "#node", "operator", "#headroom", "bound by")
    return Table("profile-headroom-table", "The operators with most headroom", headings, rows)
