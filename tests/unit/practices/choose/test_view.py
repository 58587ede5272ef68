"""The two graphs: shapes tell where an accuracy comes from, and every point is in the table, too."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from hasten.core.accuracy import Accuracy, value_text
from hasten.core.accuracy_notes import TIES
from hasten.core.codec import to_data
from hasten.core.plan import Plan
from hasten.core.remark import remark
from hasten.core.session import Line
from hasten.core.statistics import Interval
from hasten.practices.choose.candidates import listed_catalogue
from hasten.practices.choose.charts import accuracy_spec, points
from hasten.practices.choose.facts import ChooseFound, ModelRow, Place, PlanRow, Source
from hasten.practices.choose.rules import choice_of, row_facts, why_of
from hasten.practices.choose.view import document, sections, session_lines, view
from hasten.practices.choose.words import BOOK, limit_words
from hasten.show.blocks import Chart, charts_of
from hasten.show.terminal import terminal_text
from tests.unit.practices.choose import examples

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

EVERY = [examples.typical, examples.knee, examples.none_fits, examples.measured, examples.odd, examples.own]


def charts(found: ChooseFound) -> dict[str, Chart]:
    return {block.name: block for block in view(found) if isinstance(block, Chart)}


def encoding(spec: dict[str, Any], channel: str) -> dict[str, Any]:
    layer = next(layer for layer in spec["layer"] if layer["mark"]["type"] == "point")
    found: dict[str, Any] = layer["encoding"][channel]
    return found


def test_published_measured_and_unknown_have_shapes_of_their_own() -> None:
    spec = charts(examples.measured())["choose-latency"].spec
    shape = encoding(spec, "shape")
    assert shape["field"] == "source"
    assert dict(zip(shape["scale"]["domain"], shape["scale"]["range"], strict=True)) == {
        "measured": "circle",
        "published": "diamond",
    }
    assert len(set(encoding(charts(examples.typical())["choose-latency"].spec, "shape")["scale"]["range"])) == 2


def test_the_line_joins_accuracies_of_one_kind_only() -> None:
    spec = charts(examples.measured())["choose-latency"].spec
    joined = [value for value in spec["data"]["values"] if value["line"]]
    assert {value["source"] for value in joined} == {"measured"}
    heights = [value["y"] for value in sorted(joined, key=lambda value: value["x"])]
    assert heights == sorted(heights)


def test_what_has_no_accuracy_stands_at_the_foot_of_the_graph() -> None:
    found = examples.typical()
    spec = accuracy_spec(found.models, "latency", "")
    assert spec is not None
    values = spec["data"]["values"]
    lowest = min(value["y"] for value in values if value["source"] != "unknown")
    assert all(value["y"] < lowest for value in values if value["source"] == "unknown")
    assert not any(value["line"] for value in values if value["source"] == "unknown")
    by_size = accuracy_spec(found.models, "size", "")
    assert by_size is not None
    assert all(value["source"] != "unknown" for value in by_size["data"]["values"])


def test_an_interval_that_tells_nothing_is_not_drawn() -> None:
    """It may begin at 0, and the axis is logarithmic."""
    first, *others = examples.typical().models
    spec = accuracy_spec((replace(first, latency=Interval(3.1, 0.0, 9.0)), *others), "latency", "")
    assert spec is not None
    assert encoding(spec, "x")["scale"]["type"] == "log"
    low, high = encoding(spec, "x")["scale"]["domain"]
    assert all(low < value["low"] <= value["x"] <= value["high"] < high for value in spec["data"]["values"])


def test_an_axis_has_one_metric() -> None:
    first, *others = examples.typical().models
    error = Accuracy("mae", 3.0, 2.9, 3.1, 100, "tables", higher_is_better=False)
    rows = (replace(first, accuracy=error, accuracy_source=Source.MEASURED), *others)
    spec = accuracy_spec(rows, "latency", others[0].name)
    assert spec is not None
    assert encoding(spec, "y")["title"] == "top-1"
    assert first.name not in {value["name"] for value in spec["data"]["values"]}


def test_with_fewer_than_two_accuracies_there_is_a_table_and_no_graph() -> None:
    assert charts(examples.odd()) == {}
    assert "second int8" in terminal_text(view(examples.odd()))


@pytest.mark.parametrize("make", EVERY)
def test_every_figure_of_a_graph_is_in_its_table(make: Callable[[], ChooseFound]) -> None:
    for chart in charts(make()).values():
        names = {row[0].text for row in chart.table.rows}
        assert {value["name"] for value in chart.spec["data"]["values"]} <= names


@pytest.mark.parametrize("make", EVERY)
def test_every_remark_has_words(make: Callable[[], ChooseFound]) -> None:
    """No template lacks a fact, and no code a sentence."""
    found = make()
    text = terminal_text(view(found), verbose=True)
    assert "choose." not in text
    told = json.dumps(document(found), allow_nan=False)
    assert json.loads(told)["why"].endswith(".")


def test_the_report_of_a_session_shows_the_same_blocks_with_both_graphs() -> None:
    found = examples.typical()
    lines = [Line(kind, label, "", json.loads(json.dumps(data))) for kind, label, data in session_lines(found)]
    (section,) = sections(lines)
    assert list(section.blocks) == view(found)
    assert [chart.name for chart in charts_of([section])] == ["choose-latency", "choose-size"]
    assert sections([]) == []


def test_a_later_choice_of_the_same_task_replaces_the_earlier_one() -> None:
    first, second = examples.typical(), replace(examples.typical(), seconds=1.0)
    lines = [Line(kind, label, "", data) for found in (first, second) for kind, label, data in session_lines(found)]
    (section,) = sections(lines)
    assert list(section.blocks) == view(second)


def test_the_sentence_says_which_limit_and_which_source() -> None:
    text = BOOK.text(why_of(examples.measured()))
    assert "accuracy ≥ 90.0 % top-1" in text
    assert "(measured)" in text
    assert "(published)" in BOOK.text(why_of(examples.typical()))
    chosen = choice_of(examples.typical()).row
    assert chosen is not None
    assert row_facts(chosen)["source"] == "published"


def test_the_command_gets_the_precision_that_was_taken() -> None:
    row = replace(examples.typical().models[0], precision="int8")
    assert "--get mobilenet_v3_small --only int8." in BOOK.hint(why_of(ChooseFound("", (row,))))
    assert "--only" not in BOOK.hint(why_of(examples.typical()))


@pytest.mark.parametrize(
    ("name", "asked", "words"),
    [
        ("latency", 20.0, "latency ≤ 20.0 ms"),
        ("size", 5e6, "size ≤ 5.00 MB"),
        ("memory", 100.0, "memory ≤ 100.0 MB"),
        ("accuracy", 0.7, "accuracy ≥ 70.0 % top-1"),
    ],
)
def test_limits_in_words(name: str, asked: float, words: str) -> None:
    limit = {"limit": name, "asked": asked, "metric": "top-1", "at_least": name == "accuracy"}
    assert limit_words(limit) == words


def test_points_for_programs_have_no_drawing_in_them() -> None:
    graphs = {graph["name"]: graph for graph in document(examples.typical())["graphs"]}
    assert set(graphs) == {"latency", "size"}
    assert set(graphs["latency"]["points"][0]) == {
        *("name", "precision", "source", "x", "low", "high", "y", "y_low", "y_high", "on_front")
    }
    unknown = [one for one in graphs["latency"]["points"] if one["source"] == Source.UNKNOWN.value]
    assert unknown
    assert all(one["y"] is None for one in unknown)
    assert len(points(examples.typical().models, "size")) == len(graphs["size"]["points"])


def test_a_row_says_whether_it_is_on_the_front() -> None:
    rows = {row["name"]: row for row in document(examples.typical())["models"]}
    assert rows["efficientnet_lite0 float32"]["on_front"]
    assert rows["efficientnet_lite0 float32"]["place"] == Place.POSSIBLE.value
    assert not rows["mobilenet_v1_1.0_224 float32"]["on_front"]
    assert rows["mobilenet_v1_1.0_224 float32"]["why_dropped"]
    assert to_data(examples.catalogue())["models"][0]["accuracies"]["float32"]["value"] == 0.709


@pytest.mark.parametrize(("ms", "unproven"), [(1.0, True), (3.0, False)])
def test_threads_that_look_faster_and_are_not_used_are_called_unproven(ms: float, unproven: bool) -> None:
    one = PlanRow("net", Plan(), Interval(2.0, 1.5, 2.5), used=True)
    two = PlanRow("net", Plan(threads=2), Interval(ms, 0.5, 3.5))
    text = terminal_text(view(replace(examples.typical(), plans=(one, two))), width=200)
    assert ("not proven faster" in text) is unproven


def test_a_note_about_some_accuracies_says_whose_it_is() -> None:
    found = examples.measured()
    ties = {row.name: share for share, row in zip((0.01, 0.05), found.models, strict=False)}

    def with_ties(row: ModelRow) -> ModelRow:
        if row.accuracy is None:
            return row
        notes = (remark(TIES, share=ties[row.name]),) if row.name in ties else ()
        return replace(row, accuracy=replace(row.accuracy, notes=notes), accuracy_source=Source.MEASURED)

    text = terminal_text(view(replace(found, models=tuple(map(with_ties, found.models)))), width=200)
    assert text.count("have equal highest outputs") == 1
    assert f"{', '.join(ties)}: 5.0 % of the samples have equal highest outputs" in text


def test_the_graph_of_sizes_tells_its_own_front_and_has_each_file_once() -> None:
    small = examples.published("small", 0.6, 8.0, 1_000_000, Place.OFF)
    quick = examples.published("quick", 0.7, 2.0, 9_000_000)
    elsewhere = replace(quick, name="quick float32, npu", plan=Plan(accelerator="npu"), latency=None)
    chart = charts(replace(examples.typical(), models=(quick, small, elsewhere)))["choose-size"]
    assert [value["name"] for value in chart.spec["data"]["values"]] == [quick.name, small.name]
    assert f"estimates: {small.name}, {quick.name}." in chart.description


def test_a_name_near_the_axis_does_not_run_over_it() -> None:
    rows = [examples.published(f"m{at}", 0.5 + at / 10, ms, 1_000) for at, ms in enumerate((1.0, 1.1, 20.0))]
    spec = accuracy_spec(rows, "latency", rows[1].name)
    assert spec is not None
    shown = {value["name"]: (value["label"], value["first_label"]) for value in spec["data"]["values"]}
    assert shown == {rows[0].name: ("", ""), rows[1].name: ("", rows[1].name), rows[2].name: (rows[2].name, "")}


def test_every_published_metric_is_written_as_a_share() -> None:
    for row in listed_catalogue("", []).models:
        for accuracy in row.accuracies.values():
            assert value_text(accuracy.metric, accuracy.value).endswith(" %"), (row.name, accuracy.metric)
