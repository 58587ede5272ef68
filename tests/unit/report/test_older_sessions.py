"""Sessions of the release before codes and facts: each still loads, and every part of it is shown."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hasten.core.session import read_session
from hasten.report.page import html_report
from hasten.report.summary import summarize

SESSIONS = Path(__file__).parents[2] / "data" / "sessions"
ALWAYS = {"doubts", "environment"}
SECTIONS = {
    "accelerators": {"verdicts", "accelerators", "timeline", "trials", "reproduce"},
    "app": {"verdicts", "app", "timeline"},
    "app-from": {"verdicts", "app", "timeline"},
    "bench": {"trials", "reproduce"},
    "check": {"checks", "timeline", "trials", "reproduce"},
    "compare": {"comparisons", "explanations", "timeline", "trials", "reproduce"},
    "copies": {"verdicts", "copies", "timeline", "reproduce"},
    "profile": {"profile", "reproduce"},
    "quantize": {"verdicts", "front", "timeline", "trials", "reproduce"},
    "sustained": {"sustained", "reproduce"},
    "threads": {"verdicts", "threads", "timeline", "trials", "reproduce"},
    "tune": {"verdicts", "front", "steps", "comparisons", "profile", "copies", "timeline", "trials", "reproduce"},
}


def test_there_is_a_session_of_every_command() -> None:
    assert {path.stem for path in SESSIONS.glob("*.jsonl")} == set(SECTIONS)


@pytest.mark.parametrize("name", SECTIONS)
def test_every_part_of_an_older_session_is_shown(name: str) -> None:
    session = read_session(SESSIONS / f"{name}.jsonl")
    summary = summarize(session)
    assert summary.unreadable == ()
    assert summary.state == "complete"
    assert {section.name for section in summary.sections} == SECTIONS[name] | ALWAYS
    page = html_report(session)
    assert "cannot be read" not in page
    assert "could not be understood" not in page


@pytest.mark.parametrize("name", SECTIONS)
def test_a_session_has_a_report_as_data(name: str) -> None:
    data = json.loads(json.dumps(summarize(read_session(SESSIONS / f"{name}.jsonl")).as_data(), allow_nan=False))
    assert data["state"] == "complete"
