"""A session on a device: the commands that give its numbers again name the device, and no other device adds to it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hasten.core.errors import UsageError
from hasten.core.session import SessionWriter, read_session
from hasten.report.summary import summarize

SESSIONS = Path(__file__).parents[2] / "data" / "sessions"


def test_commands_name_the_device() -> None:
    session = read_session(SESSIONS / "threads.jsonl")
    there = replace(session, header={**session.header, "target": "kitchen pi"})
    here, away = summarize(session), summarize(there)
    assert here.reproductions
    assert [f"{row.command} --target 'kitchen pi'" for row in here.reproductions] == [
        row.command for row in away.reproductions
    ]
    assert all(row.command.endswith("'kitchen pi'") for row in away.trials if row.command)


def test_figures_of_two_devices_are_not_mixed(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    for _ in range(2):
        writer = SessionWriter(path, {"target": "kitchen"})
        writer.add("note", "", {})
        writer.close()
    before = path.read_bytes()
    for header in ({"target": "shed"}, {}):
        with pytest.raises(UsageError, match="on kitchen, not on"):
            SessionWriter(path, header).begin()
    assert path.read_bytes() == before
    assert read_session(path).header["target"] == "kitchen"
