"""What is shown of an application: blocks, the JSON document, and sessions of this release and the one before."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from hasten.core.finding import Standing
from hasten.core.session import Line
from hasten.practices.app.facts import PARTS, TraceFound, WatchedFound
from hasten.practices.app.rules import finding_of
from hasten.practices.app.view import document, sections, session_lines, view
from hasten.practices.app.words import BOOK, PHRASES
from hasten.show.blocks import Note, Notes
from hasten.show.terminal import terminal_text
from tests.unit.practices.app.examples import FAULT, clean, recorded, unseen, watched, without_litert

ALL = (watched, clean, without_litert, unseen, recorded)


@pytest.mark.parametrize("example", ALL)
def test_it_fits_a_terminal_and_shows_no_bare_code(example: Any) -> None:
    for verbose in (False, True):
        text = terminal_text(view(example()), verbose=verbose)
        assert max(map(len, text.splitlines())) <= 80
        assert not [code for code in PHRASES if code.startswith("app.") and code in text]


def test_a_fault_is_shown_with_its_place_its_cost_and_what_to_do() -> None:
    (faults,) = [block for block in view(watched()) if isinstance(block, Notes)][:1]
    (note,) = faults.rows
    for part in ("Input converted in application.py:95 (Detector.detect)", "188 ms", "17 %", "1.05 MB"):
        assert part in note.text
    assert note.hint == BOOK.hint(FAULT.evidence)


@pytest.mark.parametrize(
    ("example", "standing", "code"),
    [
        (watched, Standing.TO_DO, "app.faults"),
        (clean, Standing.GOOD, "app.no-fault"),
        (without_litert, Standing.NOT_EXAMINED, "app.no-litert"),
        (unseen, Standing.NOT_EXAMINED, "app.not-seen"),
        (recorded, Standing.TO_DO, "app.faults"),
    ],
)
def test_the_finding_of_the_practice(example: Any, standing: Standing, code: str) -> None:
    finding = finding_of(example())
    assert (finding.standing, finding.remark.code) == (standing, code)
    assert bool(BOOK.hint(finding.remark)) == (code in ("app.faults", "app.not-seen"))


@pytest.mark.parametrize("example", ALL)
def test_json_has_the_keys_of_the_contract(example: Any) -> None:
    data = json.loads(json.dumps(document(example()), allow_nan=False))
    assert set(data["split"]) == {f"{part}_ms" for part in PARTS}
    assert data["trace"] is None
    for fault in data["findings"]:
        assert {"rule", "file", "line", "cost_ms", "function", "share"} <= set(fault)
        assert isinstance(fault["fix"], str)
        assert isinstance(fault["evidence"], str)
    assert {"evidence", "what_to_do", "verdict"} <= set(data["finding"])


def test_a_trace_says_what_it_lost() -> None:
    source = document(recorded())["source"]
    assert source["complete"] is False
    assert source["lost"] == ["The file ends inside a packet; 12 bytes are missing."]


@pytest.mark.parametrize("example", ALL)
def test_a_session_shows_what_the_terminal_showed(example: Any) -> None:
    found: WatchedFound | TraceFound = replace(example(), trace="timeline.json")
    lines = [Line(kind, label, "", json.loads(json.dumps(data))) for kind, label, data in session_lines(found)]
    (section,) = sections(lines)
    assert list(section.blocks) == view(found, "app-0")


@pytest.mark.parametrize("example", [watched, recorded])
def test_a_session_with_sentences_in_the_place_of_codes_is_shown_as_it_was_written(example: Any) -> None:
    data = document(example())
    data["findings"] = [
        {key: row[key] for key in ("rule", "file", "line", "cost_ms", "function", "share")}
        | {"evidence": "it was slow", "fix": "Make it fast."}
        for row in data["findings"]
    ]
    data["doubts"] = [{"reason": "partial", "evidence": "something is missing", "hint": "Look for it."}]
    (section,) = sections([Line("app", "", "", json.loads(json.dumps(data)))])
    notes = [note for block in section.blocks if isinstance(block, Notes) for note in block.rows]
    assert notes[0].text.endswith("it was slow")
    assert notes[0].hint == "Make it fast."
    assert notes[-1] == Note("something is missing", "Look for it.")
