"""A study of operators as blocks and as the document that `--json` prints."""

from __future__ import annotations

from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from hasten.core.codec import finite, to_data
from hasten.core.units import first_few, milliseconds, percent, ratio_decimals, ratio_interval, several, size
from hasten.practices.operators.facts import OperatorsFound
from hasten.practices.operators.rules import NAME, finding_of, kernels_refused
from hasten.practices.operators.words import BOOK
from hasten.show.blocks import Cell, Facts, Table, answer, columns, known, notes, sentences, studies_section

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hasten.core.remark import Remark
    from hasten.core.session import Line
    from hasten.practices.operators.facts import Place, Tried
    from hasten.show.blocks import Block, Section

_NODES_SHOWN = 4
_PLACES_SHOWN = 12
_KINDS_SHOWN = 3


def view(found: OperatorsFound, name: str = NAME) -> list[Block]:
    """The answer, where time can be won, what was tried, and the model that came of it."""
    return [
        answer(finding_of(found).remark, BOOK),
        Facts(tuple(_facts(found))),
        *([_places(found, name)] if found.places else []),
        *([_ranges(found, name)] if found.ranges else []),
        *([_layers(found, name)] if found.layers else []),
        *([_tried(found, name)] if found.tried else []),
        *sentences(f"{one.what}: {hint}" for one in found.tried if (hint := BOOK.hint(one.why))),
        *notes([*_refused(found), *found.doubts], BOOK),
    ]


def document(found: OperatorsFound) -> dict[str, Any]:
    """The document of `hasten operators --json`."""
    data = to_data(found, BOOK)
    return {
        **data,
        "model": found.path or found.model.path,
        "original": data["model"],
        "tried": [_tried_data(one) for one in found.tried],
        "refused_kernels": list(found.refused_kernels),
        "finding": BOOK.finding_data(finding_of(found)),
    }


def session_lines(found: OperatorsFound) -> list[tuple[str, str, dict[str, Any]]]:
    """What a session keeps of a study."""
    return [(NAME, found.model.path, to_data(found)), ("finding", NAME, to_data(finding_of(found)))]


def sections(lines: Sequence[Line]) -> list[Section]:
    """The section of a report."""
    return studies_section(OperatorsFound, NAME, lines, view)


def _refused(found: OperatorsFound) -> list[Remark]:
    """What the answer does not say already: a gain of other rewrites mends no kernel."""
    return [kernels_refused(found)] if found.refused_kernels and found.final is not None else []


def _tried_data(one: Tried) -> dict[str, Any]:
    """Ratio and interval stand where readers look for them."""
    found = one.comparison
    return {
        **to_data(one, BOOK),
        "ratio": None if found is None else found.ratio,
        "ci95": None if found is None else [finite(end) for end in found.ci95],
        "verdict": None if found is None else found.verdict.value,
    }


def _facts(found: OperatorsFound) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = [("model", f"{PurePath(found.model.path).name}, {found.plan.describe()}")]
    if found.invoke_ms:
        seen = percent(min(1.0, found.seen))  # older sessions have it as a part of a run without profiling
        rows.append(("profiled", f"{milliseconds(found.invoke_ms)} a run, {seen} of it in operators"))
    if found.layers:
        counted = sum(layer.ms for layer in found.layers)
        rows.append(("counted", f"{milliseconds(counted)} in {several(len(found.layers), 'layer')}, by OpenVINO"))
    if found.latency_ms is not None:
        rows.append(("latency", " → ".join(milliseconds(value) for value in found.latency_ms)))
        if all(found.partitions):
            rows.append(("partitions", " → ".join(str(count) for count in found.partitions)))
        rows.append(("size", f"{size(found.model.size_bytes)} → {size(found.size_bytes)}"))
        rows.append(("outputs", _equal_text(found.max_error), f"compared on {found.inputs}"))
    if found.dropped_outputs:
        rows.append(("dropped outputs", ", ".join(found.dropped_outputs)))
    if found.path:
        rows.append(("written", found.path))
    rows += [("kernels", library, "give it with --kernel-library") for library in found.kernels]
    return rows


def _places(found: OperatorsFound, name: str) -> Table:
    headings = columns("operators", "nodes", "#time", "#of a run", "#headroom", "runs on", "try")
    cells = tuple(_place_cells(place) for place in found.places)
    return Table(f"{name}-places", "Where time can be won", headings, cells, most=_PLACES_SHOWN)


def _place_cells(place: Place) -> tuple[Cell, ...]:
    many = f"{several(len(place.nodes), 'node')}: {first_few(place.nodes, _NODES_SHOWN)}"
    return (
        Cell(place.op),
        Cell(many, len(place.nodes)),
        Cell(milliseconds(place.ms), place.ms),
        Cell(percent(place.share), place.share),
        known(place.headroom_ms, milliseconds),
        Cell("delegate" if place.delegated else "engine"),
        Cell(", ".join(place.to_try)),
    )


def _ranges(found: OperatorsFound, name: str) -> Table:
    headings = columns("nodes", "#time (estimated)", "#of a run", "operators")
    cells = tuple(
        (
            Cell(f"{it.first} to {it.last}" if it.first < it.last else str(it.first), it.first),
            Cell(milliseconds(it.ms), it.ms),
            Cell(percent(it.share), it.share),
            Cell(first_few(it.operators, _KINDS_SHOWN)),
        )
        for it in found.ranges
    )
    return Table(f"{name}-ranges", "Ranges of nodes, cut out and timed", headings, cells)


def _layers(found: OperatorsFound, name: str) -> Table:
    headings = columns("layer", "kernel", "#node", "#time", "#of all layers")
    cells = tuple(
        (
            Cell(layer.kind),
            Cell(layer.kernel),
            known(layer.node, str),
            Cell(milliseconds(layer.ms), layer.ms),
            Cell(percent(layer.share), layer.share),
        )
        for layer in sorted(found.layers, key=lambda layer: -layer.ms)
    )
    return Table(f"{name}-layers", "Layers by OpenVINO's own counters", headings, cells, most=_PLACES_SHOWN)


def _tried(found: OperatorsFound, name: str) -> Table:
    headings = columns("rewrite", "#places", "#largest error", "#time ratio", "#95 % CI", "kept", "why")
    cells = tuple(_tried_cells(one) for one in found.tried)
    marks = tuple("kept" if one.kept else "dropped" for one in found.tried)
    return Table(f"{name}-tried", "What was tried", headings, cells, marks=marks)


def _tried_cells(one: Tried) -> tuple[Cell, ...]:
    found = one.comparison
    decimals = 3 if found is None else max(3, ratio_decimals(found.ci95, 2))
    return (
        Cell(one.what),
        Cell(str(one.places), one.places),
        Cell("" if one.max_error is None else _equal_text(one.max_error), one.max_error),
        Cell("" if found is None else f"{found.ratio:.{decimals}f}", None if found is None else found.ratio),
        Cell("" if found is None else ratio_interval(found.ci95)),
        Cell("kept" if one.kept else ""),
        Cell(BOOK.text(one.why)),
    )


def _equal_text(error: float | None) -> str:
    if error is None:
        return "not compared"
    return "equal" if error == 0 else f"{error:.1e}"
