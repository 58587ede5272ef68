"""Which way to feed and read is recommended, and what is found."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from hasten.core.codec import from_data, to_data
from hasten.core.finding import Finding, Standing
from hasten.core.measurement import Model
from hasten.core.plan import Plan
from hasten.core.remark import said
from hasten.core.statistics import Interval
from hasten.practices.copies.facts import CopiesFound, CopyRow
from hasten.practices.copies.rules import IN_PLACE, finding_of, measured_row, recommended_way, refused_row
from hasten.practices.copies.view import view
from hasten.practices.copies.words import BOOK, WAY_NAMES
from hasten.runner.copy_ways import BY_KEY, FAMILIES, WAYS
from hasten.show.blocks import Facts, Headline, Prose, Table


def _row(key: str, us: float, spread: float = 0.05, inference_us: float = 100.0) -> CopyRow:
    return measured_row(BY_KEY[key], "both", Interval(us, us * (1 - spread), us * (1 + spread)), inference_us)


def _finding(rows: list[CopyRow], inference_us: float = 100.0) -> Finding:
    return finding_of(_found(rows, inference_us))


def _found(rows: list[CopyRow], inference_us: float) -> CopiesFound:
    model = Model("m.tflite", 1, "")
    return CopiesFound(model, Plan(), tuple(rows), inference_us, (inference_us, inference_us), 4, 4)


@pytest.mark.parametrize(
    ("rows", "inference_us", "way"),
    [
        ([_row("views", 2.0), _row("host", 0.5)], 100.0, "host"),
        ([_row("views", 2.0), _row("host", 0.5)], 1000.0, "views"),  # 1.5 µs of 1 ms matter to nobody
        ([_row("views", 2.0, spread=0.9), _row("host", 0.5)], 100.0, "views"),  # it may be noise
        ([_row("copying", 0.1), _row("host", 50.0)], 100.0, "host"),  # the only one that needs no copy
        ([_row("copying", 1.0), refused_row(BY_KEY["host"], said("no"))], 100.0, ""),
    ],
)
def test_a_less_plain_way_must_prove_to_save_what_matters(rows: list[CopyRow], inference_us: float, way: str) -> None:
    assert recommended_way(rows, inference_us) == way


def test_the_finding_speaks_of_what_the_usual_way_costs() -> None:
    rows = [_row("copying", 40.0), _row("views", 2.0)]
    found = _finding(rows)
    assert (found.standing, found.remark.code) == (Standing.TO_DO, "copies.saves")
    assert found.remark.facts["usual_us"] == 40.0
    assert (found.remark.facts["best"], found.remark.facts["saved_us"]) == ("views", 38.0)
    assert _finding(rows, 10_000.0).standing is Standing.GOOD
    assert _finding([]).standing is Standing.NOT_EXAMINED


def test_a_saving_that_may_be_noise_is_undecided() -> None:
    found = _finding([_row("copying", 6.0, spread=0.9), _row("views", 2.0, spread=0.9)])
    assert (found.standing, found.remark.code) == (Standing.UNDECIDED, "copies.undecided")
    assert "No alternative saves" not in BOOK.text(found.remark)
    assert "tensor() views: 4.00 µs per inference (4.0 %)" in BOOK.text(found.remark)
    too_little = [_row("copying", 2.5, spread=0.9), _row("views", 2.0, spread=0.9)]
    assert _finding(too_little).standing is Standing.GOOD


def test_only_a_way_that_pays_is_marked_as_the_one_to_use() -> None:
    """Of two ways in place the plainer one, with the reason, although the other one is a little cheaper."""
    rows = [_row("copying", 40.0), _row("views", 2.0), _row("host", 1.9)]
    for inference_us, text, mark in (
        (100.0, "simplest way without a copy; no other is proven to save another 1 %.", "use this"),
        (10_000.0, "No alternative saves more than 1 %.", ""),
    ):
        found = replace(_found(rows, inference_us), language="python", snippet="code")
        headline, facts, table, *_, code, _ = view(found)
        assert isinstance(headline, Headline)
        assert text in headline.text
        assert isinstance(table, Table)
        assert [cells[-1].text for cells in table.rows] == ["", mark, ""]
        assert isinstance(facts, Facts)
        assert any(name == "use" for name, *_ in facts.rows) is bool(mark)
        assert isinstance(code, Prose)
        assert ("recommended" in code.text) is bool(mark)


def test_on_a_device_the_usual_way_is_its_buffers() -> None:
    found = _finding([_row("buffers", 30.0), _row("locked", 5.0)])
    assert found.standing is Standing.TO_DO
    assert (found.remark.facts["usual"], found.remark.facts["best"]) == ("buffers", "locked")


def test_a_cost_below_what_can_be_measured_is_called_so() -> None:
    row = measured_row(BY_KEY["signature"], "both", Interval(-3.0, -9.0, 4.0), 100.0)
    assert (row.us, row.ci95_us, row.share) == (0.0, (0.0, 4.0), 0.0)
    assert BOOK.text(_finding([_row("views", 0.0)]).remark) == "tensor() views cost nothing measurable."


def test_no_cost_is_known_where_noise_makes_it_negative_for_sure() -> None:
    row = measured_row(BY_KEY["signature"], "both", Interval(-4420.0, -5000.0, -3000.0), 100.0)
    assert (row.us, row.share, row.reason.code) == (None, None, "copies.unclear")


def test_rows_have_the_keys_that_the_command_line_promises() -> None:
    data = to_data(_row("copying", 40.0), BOOK)
    assert {"way", "direction", "us", "share", "ci95_us", "reason"} <= set(data)
    assert (data["way"], data["direction"]) == ("set_tensor + get_tensor", "both")
    refused = to_data(refused_row(BY_KEY["list"], said("why not")), BOOK)
    assert (refused["us"], refused["direction"], refused["reason"]) == (None, "in", "why not")


def test_an_unknown_interval_can_be_saved() -> None:
    row = measured_row(BY_KEY["list"], "in", Interval(9.0, float("-inf"), float("inf")), 100.0)
    assert json.dumps(to_data(row), allow_nan=False)
    assert to_data(row)["ci95_us"] == [None, None]
    assert from_data(CopyRow, to_data(row)) == row


def test_a_row_of_an_older_session_still_loads() -> None:
    old = {"key": "locked", "way": "locked device memory", "direction": "both", "us": None, "ci95_us": None}
    row = from_data(CopyRow, {**old, "share": None, "reason": "no lock is needed", "fault": False})
    assert BOOK.text(row.reason) == "no lock is needed"


def test_every_way_has_one_interface_and_every_recommendation_a_name() -> None:
    listed = [key for keys in FAMILIES.values() for key in keys]
    assert sorted(listed) == sorted(way.key for way in WAYS)
    assert set(IN_PLACE) <= set(WAY_NAMES)
