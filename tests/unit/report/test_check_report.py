"""A gate as text and as Markdown."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from examples import HOSTILE

from hasten.core import doubts
from hasten.core.measurement import Model
from hasten.core.plan import Plan
from hasten.core.remark import said
from hasten.gate.limits_file import Budget
from hasten.gate.rules import CheckResult, GateVerdict, Row
from hasten.report.check_markdown import check_markdown
from hasten.report.check_text import check_text, row_sentence, verdict_sentence

PASSED, FAILED, UNDECIDED = GateVerdict.PASSED, GateVerdict.FAILED, GateVerdict.UNDECIDED
ROWS = (
    Row("size", "bytes", 1_434_432, None, 2e6, PASSED, "it is exact"),
    Row("latency", "ms", 2.24, (2.236, 2.317), 5.0, PASSED, "the whole interval lies below the limit"),
    Row("init", "ms", 300.0, (280.0, 310.0), 200.0, FAILED, "50% above the limit, and the whole interval is"),
    Row("memory", "MB", 101.0, (99.0, 101.0), 100.0, UNDECIDED, "1 of 4 processes went above the limit"),
    Row("accuracy", "share", 0.9917, (0.98, 0.996), 0.95, PASSED, "top-1 on these 600 samples", at_least=True),
    Row("accuracy", "value", 3.2, (3.1, 3.3), 4.0, PASSED, "mae on these 600 samples"),
    Row("latency against old.tflite", "ratio", 1.013, (0.99, 1.04), 1.02, UNDECIDED, "the noise is larger"),
)


def result(*rows: Row, name: str = "digits.tflite", **changes: Any) -> CheckResult:
    return CheckResult(Model(f"folder/{name}", 1_434_432, "ab"), Plan(threads=2), Budget(), rows or ROWS, **changes)


def test_a_line_for_each_limit_within_80_columns() -> None:
    busy = (said("other processes kept 1.3 cores busy meanwhile", doubts.OTHER_LOAD),)
    text = check_text(result(doubts=busy, notes=("a note",)))
    assert max(map(len, text.splitlines())) <= 80
    assert text.startswith("Failed: 1 of 7 limits is broken. digits.tflite on cpu, 2 threads.")
    for word in ("1.43 MB", "2.236 - 2.317 ms", "at most 5.00 ms", "at least 95.00%", "1.013 times", "50% above"):
        assert word in text
    assert "other-load" in text
    assert "a note" in text


@pytest.mark.parametrize(
    ("verdicts", "changes", "sentence"),
    [
        ([PASSED], {}, "Passed: 1 limit kept."),
        ([PASSED, UNDECIDED], {}, "Passed, but 1 of 2 limits is undecided."),
        ([PASSED, UNDECIDED], {"strict": True}, "Failed: 1 of 2 limits undecided, which --strict does not let pass."),
        ([FAILED, FAILED], {}, "Failed: 2 of 2 limits are broken."),
        ([PASSED], {"interrupted": True}, "Interrupted: this is how it stood."),
    ],
)
def test_the_verdict_in_a_sentence(verdicts: list[GateVerdict], changes: dict[str, Any], sentence: str) -> None:
    rows = [Row("latency", "ms", 1.0, None, 2.0, verdict, "so") for verdict in verdicts]
    assert verdict_sentence(result(*rows, **changes)) == sentence


def test_it_says_how_sure_the_intervals_are() -> None:
    times = Row("latency", "ms", 2.24, (2.2, 2.3), 5.0, PASSED, "so", confidence=0.99)
    ratio = Row("latency against old", "ratio", 1.0, (0.9, 1.1), 1.02, PASSED, "so", confidence=0.95)
    assert "Intervals: 99% for times, 95% for ratios." in check_text(result(times, ratio))
    assert "Intervals: 99% for times." in check_markdown(result(times))
    assert "Intervals" not in check_text(result(ROWS[0]))


def test_what_is_not_known_is_said() -> None:
    row = Row("latency", "ms", None, None, 2.0, UNDECIDED, "nothing was measured")
    assert "unknown" in check_text(result(row))
    endless = Row("latency", "ms", 1.0, (-math.inf, math.inf), 2.0, UNDECIDED, "too few")
    assert row_sentence(endless) == "latency 1.00 ms, at most 2.00 ms: undecided"
    json.dumps(result(endless).as_data(), allow_nan=False)


@pytest.mark.parametrize("name", HOSTILE)
def test_markdown_is_one_table_whatever_the_names(name: str) -> None:
    row = Row(f"latency against {name}", "ratio", 1.0, (0.9, 1.1), 1.02, UNDECIDED, f"because of {name}")
    text = check_markdown(result(row, name=name or "x"))
    lines = text.splitlines()
    table = [line for line in lines if line.startswith("|")]
    assert len(table) == 3
    assert all(line.replace("\\|", "").count("|") == 7 for line in table)
    assert lines[0].startswith("### ✅ Passed, but 1 of 1 limit is undecided.")
    assert "\x1b" not in text
    assert "<bold>" not in text


def test_markdown_shows_verdicts_and_folds_doubts() -> None:
    text = check_markdown(result(doubts=(said("the interval is ±9 % wide", doubts.NOISY),), notes=("a <b>note</b>",)))
    assert text.startswith("### ❌ Failed: 1 of 7 limits is broken.")
    assert "| init | 300 ms | 280 - 310 ms | at most 200 ms | ❌ failed |" in text
    assert "<details>" in text
    assert "a &lt;b&gt;note&lt;/b&gt;" in text
    assert "<details>" not in check_markdown(result())
