"""A retraining as blocks, as the document that `--json` prints, and as lines of a session."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Final

from hasten.core.codec import to_data
from hasten.core.finding import Standing
from hasten.core.units import duration, size
from hasten.retraining.facts import HEAD, RetrainFound
from hasten.retraining.rules import NAME, finding_of, lost_by_integers, more_samples, way_remarks
from hasten.retraining.words import BOOK, METRICS, RIVALS, SUBJECTS, WAYS, change_text, share, share_range
from hasten.show.blocks import (
    Cell,
    Chart,
    Detail,
    Facts,
    Prose,
    Snippet,
    Table,
    answer,
    cell,
    columns,
    known,
    notes,
    studies_section,
)
from hasten.show.charts import from_zero, tooltip, vega_lite

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hasten.core.session import Line
    from hasten.show.blocks import Block, Section

# Beyond so many classes a matrix is unreadable; the list of confusions says the same.
_MOST_IN_MATRIX: Final = 20
_MOST_CONFUSIONS: Final = 10
_CELL_PIXELS: Final = 26
_CURVE_PIXELS: Final = 220


def view(found: RetrainFound, name: str = NAME) -> list[Block]:
    """The accuracy, the rivals, the classes, what is wrong, and what to do next."""
    remarks = [one for one in (more_samples(found), lost_by_integers(found)) if one is not None]
    return [
        answer(finding_of(found).remark, BOOK),
        _facts(found),
        _rivals(found, name),
        *_ways(found, name),
        *notes([*remarks, *way_remarks(found.ways), *found.notes], BOOK),
        *_classes(found, name),
        *_worst(found, name),
        Detail((*_curve(found, name), *_confusions(found, name), *_decays(found, name))),
        *_next(found),
    ]


def document(found: RetrainFound) -> dict[str, Any]:
    """The document of `hasten retrain --json`."""
    return {
        **to_data(replace(found, test_names=()), BOOK),
        "way": found.name,
        "finding": BOOK.finding_data(finding_of(found)),
    }


def session_lines(found: RetrainFound) -> list[tuple[str, str, dict[str, Any]]]:
    """What a session keeps of a retraining."""
    return [(NAME, found.model.path, to_data(found)), ("finding", NAME, to_data(finding_of(found)))]


def sections(lines: Sequence[Line]) -> list[Section]:
    """The section of a report: the last retraining of each file."""
    return studies_section(RetrainFound, NAME, lines, view)


def _facts(found: RetrainFound) -> Facts:
    accuracy, written = found.accuracy, found.written
    split = f"{accuracy.train_samples:,} to learn from, {accuracy.test_samples:,} for the test"
    rows = [
        ("model", f"{PurePath(found.source.path).name} → {found.model.path} ({size(found.model.size_bytes)})"),
        ("data", f"{found.data}: {len(found.classes)} classes, {split}"),
        ("accuracy", _three(found)),
    ]
    if accuracy.mean_recall is not None:
        rows.append(("mean recall", f"{share(accuracy.mean_recall)} over the classes of the test part"))
    if found.name == HEAD:
        rows += [
            ("features", f"{found.features:,}" + (f" (before {found.replaced})" if found.replaced else "")),
            ("same predictions", f"{written.same} of {written.samples}: the written file against embeddings and head"),
        ]
    if found.preprocess:
        rows.append(("input", found.preprocess.replace(",", ", ")))  # a terminal breaks lines at spaces
    parts = f"features {found.embedding_seconds:.1f} s, fit {found.fit_seconds:.1f} s"
    return Facts((*rows, ("time", f"{duration(found.seconds)} ({parts})")))


def _three(found: RetrainFound) -> str:
    accuracy = found.accuracy
    learned = "" if accuracy.train is None else f", {share(accuracy.train)} training"
    tested = f"{share(accuracy.test)} test (95 % CI {share_range(accuracy.interval)})"
    validated = "" if accuracy.validation is None else f", {share(accuracy.validation)} validation"
    return f"{tested}{validated}{learned}"


def _rivals(found: RetrainFound, name: str) -> Table:
    own = found.accuracy
    title = SUBJECTS[found.name]
    rows = [(title, own.test, own.interval, "")]
    for rival in found.baselines:
        told = rival.change.as_data()
        rows.append((RIVALS[rival.name], rival.test, rival.interval, change_text(told)))
    headings = columns("", f"#{METRICS.get(own.metric, own.metric)}", "#95 % CI", f"#{title} against it")
    cells = tuple(
        (Cell(title), Cell(share(value), value), Cell(share_range(ends), ends[0]), Cell(change))
        for title, value, ends, change in rows
    )
    return Table(f"{name}-rivals", "On the test part", headings, cells)


def _ways(found: RetrainFound, name: str) -> list[Block]:
    if len(found.ways) < 2:
        return []
    cells = tuple(
        (
            Cell(WAYS[way.name]),
            Cell("" if way.failure else share(way.test), way.test),
            Cell("" if way.failure else share_range(way.interval)),
            Cell("" if way.change is None else change_text(way.change.as_data())),
            Cell(duration(way.seconds), way.seconds),
            Cell(way.failure or ("written" if way.path == found.model.path else "")),
        )
        for way in found.ways
    )
    headings = columns("way", "#test", "#95 % CI", "#against the new head", "#time", "")
    return [Table(f"{name}-ways", "Ways to retrain, on the same test part", headings, cells)]


def _classes(found: RetrainFound, name: str) -> list[Block]:
    cells = tuple(
        (cell(row.name), cell(row.train), cell(row.test), known(row.recall, share), known(row.precision, share))
        for row in found.classes
    )
    headings = columns("class", "#learned from", "#tested", "#recall", "#precision")
    return [Table(f"{name}-classes", "Classes", headings, cells, filterable=len(cells) > _MOST_IN_MATRIX, most=20)]


def _worst(found: RetrainFound, name: str) -> list[Block]:
    if not found.worst:
        return []
    cells = tuple(
        (
            Cell(row.name, code=True),
            Cell(row.actual),
            Cell(row.predicted),
            Cell(share(row.probability), row.probability),
            Cell(row.part),
        )
        for row in found.worst
    )
    headings = columns("sample", "label", "prediction", "#its own class", "?part")
    said = "The samples whose own label the model finds least likely. Look at them: a label may be wrong."
    return [Prose(said), Table(f"{name}-worst", "Worst samples", headings, cells)]


def _curve(found: RetrainFound, name: str) -> list[Block]:
    if len(found.curve) < 2:
        return []
    values = [
        {
            "samples": point.samples,
            "accuracy": point.test * 100,
            "low": point.interval[0] * 100,
            "high": point.interval[1] * 100,
            "told": share(point.test),
        }
        for point in found.curve
    ]
    x = {
        "field": "samples",
        "type": "quantitative",
        "title": "samples learned from",
        "scale": {"type": "log", "nice": False},
        "axis": {"values": [point.samples for point in found.curve], "format": "~d"},
    }
    y = {"field": "accuracy", "type": "quantitative", "title": "test accuracy, %", "scale": {"zero": False}}
    layers = [
        {
            "mark": {"type": "line", "point": {"size": 70, "filled": True}},
            "encoding": {"x": x, "y": y, "tooltip": tooltip(samples="samples", told="test_accuracy")},
        },
        {
            "mark": {"type": "rule", "strokeWidth": 2},
            "encoding": {"x": x, "y": {**y, "field": "low"}, "y2": {"field": "high"}},
        },
    ]
    cells = tuple(
        (cell(point.samples), Cell(share(point.test), point.test), Cell(share_range(point.interval), point.interval[0]))
        for point in found.curve
    )
    headings = columns("#samples", "#test accuracy", "#95 % CI")
    sheet = Table(f"{name}-curve-table", "Learning curve", headings, cells)
    said = "The test accuracy of heads that learned from an eighth, a quarter, half and all of the samples."
    return [Chart(f"{name}-curve", "Learning curve", said, vega_lite(_CURVE_PIXELS, values, layer=layers), sheet)]


def _confusions(found: RetrainFound, name: str) -> list[Block]:
    if not found.confusions:
        return []
    cells = tuple(
        (cell(one.actual), cell(one.predicted), cell(one.samples)) for one in found.confusions[:_MOST_CONFUSIONS]
    )
    headings = columns("label", "taken for", "#test samples")
    table = Table(f"{name}-confusions", "Most frequent confusions", headings, cells)
    if len(found.classes) > _MOST_IN_MATRIX:
        return [table]
    return [_matrix(found, name), table]


def _matrix(found: RetrainFound, name: str) -> Chart:
    """A cell for each pair of classes, as dark as it has samples, with the number in it."""
    names = [row.name for row in found.classes]
    counts = {(one.actual, one.predicted): one.samples for one in found.confusions}
    counts |= {(row.name, row.name): row.right for row in found.classes}
    values = [
        {"label": actual, "prediction": predicted, "samples": counts.get((actual, predicted), 0)}
        for actual in names
        for predicted in names
    ]
    scale = from_zero([float(value) for value in counts.values()] or [1.0])
    x = {"field": "prediction", "type": "nominal", "sort": None, "title": "prediction", "axis": {"labelAngle": -40}}
    y = {"field": "label", "type": "nominal", "sort": None, "title": "label"}
    # Not a scale of colors: those of the page are variables, between which nothing can be interpolated.
    shade = {"field": "samples", "type": "quantitative", "legend": None, "scale": {**scale, "range": [0, 1]}}
    light = {"test": f"datum.samples > {scale['domain'][1] / 2}", "value": "@inside"}
    layers = [
        {"mark": {"type": "rect", "color": "@accent"}, "encoding": {"x": x, "y": y, "opacity": shade}},
        {
            "mark": {"type": "text"},
            "transform": [{"filter": "datum.samples > 0"}],
            "encoding": {"x": x, "y": y, "text": {"field": "samples"}, "color": {"condition": light, "value": "@ink"}},
        },
    ]
    cells = tuple(
        (cell(actual), *(cell(counts.get((actual, predicted), 0)) for predicted in names)) for actual in names
    )
    sheet = Table(f"{name}-matrix-table", "Confusion table", columns("label", *(f"#{one}" for one in names)), cells)
    said = "Rows are labels, columns are predictions, on the test part."
    spec = vega_lite(_CELL_PIXELS * len(names), values, layer=layers)
    return Chart(f"{name}-matrix", "Confusion table", said, spec, sheet, on_terminal=len(names) <= _MOST_CONFUSIONS)


def _decays(found: RetrainFound, name: str) -> list[Block]:
    cells = tuple(
        (Cell(f"{one.decay:.1e}", one.decay), cell(one.loss), Cell("chosen" if one.decay == found.decay else ""))
        for one in found.decays
    )
    headings = columns("#weight decay", "#loss on samples left out", "")
    return [Table(f"{name}-decays", "Weight decay by cross-validation", headings, cells)] if cells else []


def _next(found: RetrainFound) -> list[Block]:
    """The command that makes the new model fast, judged on samples that it has not learned from.

    What has not learned its classes is not worth that: other models to begin with come first.
    """
    if finding_of(found).standing is not Standing.IMPROVED:
        return [
            Prose("Next: give more samples, or choose another backbone from the catalogue."),
            Snippet("hasten choose --list", "sh"),
        ]
    data = shlex.quote(found.held_out) if found.held_out else "TEST_DATA"
    command = f"hasten tune {shlex.quote(found.model.path)} --data {data} -o tuned"
    return [Prose("Next: make it fast, and judge it on the test part."), Snippet(command, "sh")]
