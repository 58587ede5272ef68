"""A gate on a terminal, in Markdown, as JSON, and back from a session of any age."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import pytest

from hasten.core.plan import Plan
from hasten.core.remark import remark
from hasten.core.session import Line
from hasten.gate.facts import CheckFound, GateVerdict, Limits, Row
from hasten.gate.view import answer, document, markdown, sections, session_lines, view
from hasten.gate.words import headline, intervals_words, row_words
from hasten.show.blocks import Table, flat
from hasten.show.terminal import terminal_text
from tests.unit.gate.examples import (
    FAILED,
    INIT,
    LATENCY,
    PASSED,
    SIZE,
    SLOWDOWN,
    UNDECIDED,
    UNKNOWN,
    found,
    odd,
    unsure,
    usual,
)

OLD = {
    "model": {"path": "folder/digits.tflite", "size_bytes": 1434432, "sha256": "ab"},
    "plan": {"accelerator": "cpu", "threads": 2, "kernel": "delegate", "precision": "default", "delegate": ""},
    "passed": False,
    "rows": [
        {
            "what": "latency against old.tflite",
            "unit": "ratio",
            "measured": 1.2,
            "interval": [1.1, None],
            "limit": 1.03,
            "verdict": "failed",
            "why": "surely slower, by 20%",
            "at_least": False,
            "confidence": 0.95,
        }
    ],
    "budget": {"latency_ms": 5.0, "max_slowdown": 0.03, "max_drop": 0.01},
    "strict": False,
    "seconds": 3.0,
    "doubts": [{"reason": "noisy", "evidence": "the interval is wide", "hint": ""}],
    "notes": ["a note"],
    "interrupted": False,
}


def line(data: dict[str, Any]) -> Line:
    return Line("check", "folder/digits.tflite", "2026-01-01T00:00:00", data)


def test_the_verdict_comes_first_and_all_fits_80_columns() -> None:
    text = terminal_text(view(odd()))
    assert text.startswith("Failed: 2 of 9 limits are broken. digits.tflite on cpu, 2 threads.")
    assert max(map(len, text.splitlines())) <= 80
    assert "init: 50 % above the limit." in text
    assert "size: " not in text, "a limit that is kept needs no reason"


@pytest.mark.parametrize(
    ("verdicts", "changes", "sentence"),
    [
        ([PASSED], {}, "Passed: 1 limit kept."),
        ([PASSED, UNDECIDED], {}, "Undecided: 1 of 2 limits. This fails nothing (--undecided pass)."),
        (
            [PASSED, UNDECIDED],
            {"strict": True},
            "Undecided: 1 of 2 limits. This counts as a failure (--undecided fail).",
        ),
        ([FAILED, FAILED], {}, "Failed: 2 of 2 limits are broken."),
        ([PASSED], {"interrupted": True}, "Undecided: interrupted before every limit was decided."),
        ([FAILED], {"interrupted": True}, "Failed: 1 of 1 limit is broken."),
    ],
)
def test_the_verdict_in_a_sentence(verdicts: list[GateVerdict], changes: dict[str, Any], sentence: str) -> None:
    rows = [Row("latency", "ms", 1.0, None, 2.0, verdict, remark("gate.kept")) for verdict in verdicts]
    assert headline(found(*rows, **changes)) == sentence


def test_it_says_how_sure_the_intervals_are() -> None:
    assert intervals_words(found(LATENCY, SLOWDOWN)) == "Confidence intervals: 99 % for times, 99 % for ratios."
    assert intervals_words(found(SIZE)) == ""


def test_what_is_not_known_is_said() -> None:
    assert "unknown" in terminal_text(view(found(UNKNOWN)))
    endless = Row("latency", "ms", 1.0, (-math.inf, math.inf), 2.0, UNDECIDED, remark("gate.undecided"))
    assert row_words(endless) == "latency 1.00 ms, at most 2.00 ms: undecided"
    json.dumps(document(found(endless)), allow_nan=False)


def test_markdown_has_the_verdict_as_its_heading_and_a_table() -> None:
    text = markdown(odd())
    assert text.startswith("### ❌ Failed: 2 of 9 limits are broken.")
    assert "| init | 300 ms | 280–310 ms | at most 200 ms | failed |" in text
    assert markdown(usual()).startswith("### ✅ Passed: 3 limits kept.")
    assert markdown(unsure()).startswith("### ❔ Undecided: 2 of 2 limits.")


def test_a_document_has_the_keys_that_pipelines_read() -> None:
    data = document(odd())
    assert set(data) >= {"model", "plan", "passed", "rows", "budget", "strict", "seconds", "doubts", "notes"}
    assert (data["verdict"], data["passed"], data["undecided"]) == ("failed", False, "fail")
    open_gate = document(replace(unsure(), strict=False))
    assert (open_gate["verdict"], open_gate["passed"], open_gate["undecided"]) == ("undecided", False, "pass")
    assert (open_gate["seconds"], open_gate["bound_seconds"]) == (48.2, 60)
    row = data["rows"][6]
    assert row["what"] == "latency against old.tflite"
    assert isinstance(row["why"], str)
    assert row["why_code"] == "gate.undecided"
    assert all(isinstance(note, str) for note in data["notes"])


def lines_of(*gates: CheckFound) -> list[Line]:
    return [Line(kind, label, "", data) for gate in gates for kind, label, data in session_lines(gate)]


def test_a_session_shows_the_last_of_gates_that_check_the_same() -> None:
    lines = lines_of(replace(usual(), rows=(replace(LATENCY, verdict=FAILED),)), usual())
    (section,) = sections(lines)
    assert list(section.blocks) == view(usual())
    assert answer(lines) == "Passed: 3 limits kept."
    assert sections([]) == []
    assert answer([]) == ""


A_FAILS, B_PASSES = found(INIT, name="a.tflite"), found(SIZE, name="b.tflite")


@pytest.mark.parametrize(
    ("gates", "sentence"),
    [
        ([A_FAILS, B_PASSES], "1 of 2 gates failed: a.tflite (cpu, 2 threads)."),
        ([A_FAILS, B_PASSES, A_FAILS], "1 of 2 gates failed: a.tflite (cpu, 2 threads)."),
        ([A_FAILS, B_PASSES, found(SIZE, name="a.tflite")], "Passed: 2 gates."),
        ([replace(B_PASSES, rows=(UNKNOWN,)), A_FAILS], "1 of 2 gates failed: a.tflite (cpu, 2 threads)."),
        ([replace(B_PASSES, rows=(UNKNOWN,)), usual()], "1 of 2 gates undecided: b.tflite (cpu, 2 threads)."),
        ([A_FAILS, replace(A_FAILS, plan=Plan(), rows=(SIZE,))], "1 of 2 gates failed: a.tflite (cpu, 2 threads)."),
        (
            [A_FAILS, replace(A_FAILS, limits=Limits(size_bytes=2e6), rows=(SIZE,))],
            "1 of 2 gates failed: a.tflite (cpu, 2 threads).",
        ),
        (
            [
                found(replace(SLOWDOWN, verdict=FAILED)),
                found(replace(SLOWDOWN, verdict=PASSED, against="other.tflite")),
            ],
            "1 of 2 gates failed: digits.tflite (cpu, 2 threads).",
        ),
    ],
    ids=["a, b", "a, b, a", "a mended", "undecided, failed", "undecided, passed", "plans", "limits", "baselines"],
)
def test_the_headline_of_a_session_has_the_worst_verdict(gates: list[CheckFound], sentence: str) -> None:
    lines = lines_of(*gates)
    assert answer(lines) == sentence
    tables = [block.name for section in sections(lines) for block in flat(section.blocks) if isinstance(block, Table)]
    assert len(set(tables)) == len(tables) == 2


def test_a_session_of_an_earlier_release_is_shown_as_it_was_written() -> None:
    (section,) = sections([line(OLD)])
    (table,) = (block for block in flat(section.blocks) if isinstance(block, Table))
    assert [cell.text for cell in table.rows[0]] == [
        "latency against old.tflite",
        "1.200×",
        "",
        "at most 1.030×",
        "failed",
    ]
    text = terminal_text(section.blocks)
    assert "surely slower, by 20%" in text
    assert "a note" in text


def test_a_measured_value_lies_inside_its_interval_as_printed() -> None:
    row = replace(LATENCY, measured=1.7524, interval=(1.7503, 1.7559))
    assert row_words(row).startswith("latency 1.7524 ms (1.7503–1.7559 ms)")


def test_doubts_of_the_runs_are_not_about_the_first_start() -> None:
    noisy = odd().doubts
    assert noisy
    alone, beside = (found(*rows, doubts=noisy) for rows in ((INIT,), (INIT, LATENCY)))
    assert len(view(alone)) == len(view(beside)) - 1
