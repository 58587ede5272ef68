"""Which way to feed and read is recommended, and what is said of it."""

from __future__ import annotations

import json

from hasten.core.finding import Standing
from hasten.core.statistics import Interval
from hasten.practices.copies.facts import LEAN, NAMES, CopyRow, choose, finding_of, measured_row, refused_row
from hasten.runner.copy_ways import BY_KEY, FAMILIES, WAYS


def _row(key: str, us: float, spread: float = 0.05, inference_us: float = 100.0) -> CopyRow:
    return measured_row(BY_KEY[key], "both", Interval(us, us * (1 - spread), us * (1 + spread)), inference_us)


def test_a_dearer_way_must_surely_save_what_matters() -> None:
    assert choose([_row("views", 2.0), _row("host", 0.5)], 100.0) == "host"
    assert choose([_row("views", 2.0), _row("host", 0.5)], 1000.0) == "views", "1.5 µs of 1 ms matter to nobody"
    assert choose([_row("views", 2.0, spread=0.9), _row("host", 0.5)], 100.0) == "views", "it may be noise"
    assert choose([_row("copying", 0.1), _row("host", 50.0)], 100.0) == "host", "the only one that needs no copy"
    assert choose([_row("copying", 1.0), refused_row(BY_KEY["host"], "no")], 100.0) == ""


def test_the_finding_speaks_of_what_the_usual_way_costs() -> None:
    rows = [_row("copying", 40.0), _row("views", 2.0)]
    found = finding_of(rows, "views", 100.0)
    assert found.standing is Standing.TO_DO
    assert "40.0 µs (40% of an inference)" in found.evidence
    assert "38.0 µs an inference (38%)" in found.what_to_do
    assert finding_of(rows, "views", 10_000.0).standing is Standing.GOOD
    assert finding_of([], "", 100.0).standing is Standing.NOT_EXAMINED


def test_on_a_device_the_usual_way_is_its_buffers() -> None:
    found = finding_of([_row("buffers", 30.0), _row("locked", 5.0)], "locked", 100.0)
    assert found.standing is Standing.TO_DO
    assert "TensorBuffer.write and read" in found.evidence


def test_a_cost_below_what_can_be_measured_is_called_so() -> None:
    row = measured_row(BY_KEY["signature"], "both", Interval(-3.0, -9.0, 4.0), 100.0)
    assert row.share is not None
    assert row.share < 0
    assert "nothing that could be measured" in finding_of([_row("views", -1.0)], "views", 100.0).evidence


def test_rows_have_the_keys_that_the_command_line_promises() -> None:
    data = _row("copying", 40.0).as_data()
    assert {"way", "direction", "us", "share", "ci95_us", "reason"} <= set(data)
    assert (data["way"], data["direction"]) == ("set_tensor + get_tensor", "both")
    refused = refused_row(BY_KEY["list"], "why not").as_data()
    assert (refused["us"], refused["direction"], refused["reason"]) == (None, "in", "why not")


def test_an_unknown_interval_can_be_saved() -> None:
    row = measured_row(BY_KEY["list"], "in", Interval(9.0, float("-inf"), float("inf")), 100.0)
    assert json.dumps(row.as_data(), allow_nan=False)
    assert row.as_data()["ci95_us"] == [None, None]


def test_every_way_has_one_interface_and_every_recommendation_a_name() -> None:
    listed = [key for keys in FAMILIES.values() for key in keys]
    assert sorted(listed) == sorted(way.key for way in WAYS)
    assert set(LEAN) <= set(NAMES)
