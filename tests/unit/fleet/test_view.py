"""A fleet as it is shown: the contract of its document, a page of its session, and no two figures that disagree."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from hasten import api
from hasten.core.codec import from_data, to_data
from hasten.core.doubts import OTHER_LOAD
from hasten.core.remark import remark
from hasten.core.session import Line, Session, SessionWriter, read_session
from hasten.fleet.facts import FleetFound
from hasten.fleet.view import document, fleet_in, session_lines, view
from hasten.report.page import html_report
from hasten.show.blocks import Table, flat
from hasten.show.terminal import terminal_text
from tests.unit.fleet import examples

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

KEYS = {"model", "cluster", "verdict", "devices", "choices", "trials", "single", "weights", "seconds", "interrupted"}
MAKERS = [examples.typical, examples.divided, examples.troubled]


@pytest.mark.parametrize("make", MAKERS)
def test_the_document_keeps_its_contract(make: Callable[[], FleetFound]) -> None:
    found = document(make())
    json.dumps(found, allow_nan=False)
    assert found.keys() >= KEYS
    for device in found["devices"]:
        assert device.keys() >= {"name", "kind", "machine", "status", "why", "best", "worker"}
    assert found["single"].keys() == {"worst_case", "weighted", "folder"}


@pytest.mark.parametrize("make", MAKERS)
def test_a_session_gives_back_what_it_was_given(make: Callable[[], FleetFound], tmp_path: Path) -> None:
    found = make()
    writer = SessionWriter(tmp_path / "session.jsonl", {"command": "fleet"})
    for line in session_lines(found):
        writer.add(*line)
    writer.close()
    again = fleet_in(read_session(tmp_path / "session.jsonl").lines)
    assert again is not None
    assert to_data(again) == to_data(found)
    assert from_data(FleetFound, to_data(found)).weighted == found.weighted


@pytest.mark.parametrize("make", MAKERS)
def test_the_page_shows_every_device(make: Callable[[], FleetFound]) -> None:
    found = make()
    session = Session({"command": "fleet"}, _lines(found))
    page = html_report(session)
    assert all(device.name in page for device in found.devices)
    assert "The fleet" in page
    text = terminal_text(api.blocks(found), verbose=True)
    assert all(device.name in text for device in found.devices)


def test_the_page_lists_the_doubts_of_the_race_on_each_device() -> None:
    found = examples.typical()
    doubted = replace(found.trials[0], doubts=(remark(OTHER_LOAD, cores=1.5),))
    page = html_report(Session({"command": "fleet"}, _lines(replace(found, trials=(doubted, *found.trials[1:])))))
    assert "No reason was found to doubt" not in page
    assert f"fleet {doubted.device} {doubted.choice}" in page


def test_a_device_has_one_speedup_wherever_it_stands() -> None:
    found = examples.divided()
    tables = {block.name: block for block in flat(view(found)) if isinstance(block, Table)}
    place = [column.title for column in tables["fleet-choices"].columns].index("kitchen-pi")
    row = next(row for row in tables["fleet-choices"].rows if row[0].text == "static_int8@cpu, 2 threads")
    of_device = next(row for row in tables["fleet-devices"].rows if row[0].text == "kitchen-pi")
    assert of_device[3].sort is not None
    assert row[place].sort == pytest.approx(1 / of_device[3].sort)


def _lines(found: FleetFound) -> tuple[Line, ...]:
    return tuple(Line(kind, label, "2026-01-01T00:00:00+00:00", data) for kind, label, data in session_lines(found))
