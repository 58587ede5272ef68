"""The report of an application: what a reader sees, within 80 columns."""

from __future__ import annotations

import json

from hasten.core.finding import Standing
from hasten.practices.app.facts import PARTS, AppFinding, AppResult, CodeTime, Frames, ModelUse, Overhead, ThreadSplit
from hasten.report.app_text import app_text

FAULT = AppFinding(
    "input converted",
    "/home/somebody/project/with/a/long/path/application.py",
    95,
    "Detector.detect",
    188.0,
    0.028,
    "an array that is not contiguous of 1.05 MB, 100 times",
    "Write into a contiguous array.",
)
SPLIT = {"start": 300.0, "load": 20.0, "pre": 100.0, "inference": 600.0, "waiting": 80.0}


def result(*findings: AppFinding, **changes: object) -> AppResult:
    main = ThreadSplit(7, "main", 1100.0, SPLIT, 100)
    values = {
        "command": ("python", "application.py"),
        "exit_code": 0,
        "wall_ms": 1100.0,
        "main": main,
        "threads": (main,),
        "findings": findings,
        "code": (CodeTime("pre", "application.py", "prepare", 20, 90.0, 18),),
        "models": (
            ModelUse("m.tflite", "ai_edge_litert", "Interpreter", None, 1, 100, 9.0, 6.0, 7.0, (("CONV_2D", 3, 0.8),)),
        ),
        "frames": Frames(100, 8.0, 9.0, 12.0, 330.0, ((3, 400.0, 30.0, 6.0),), ((400.0, 30.0, 6.0),)),
        "overhead": Overhead(300, 600.0, 200, 4.0, 15.0),
        **changes,
    }
    return AppResult(**values)  # type: ignore[arg-type]


def test_the_split_the_fault_and_the_overhead_are_told() -> None:
    text = app_text(result(FAULT, exit_code=3, trace="t.json"))
    assert max(map(len, text.splitlines())) <= 80
    for part in ("exit code 3", "inference", "55%", "application.py:20 prepare", "CONV_2D 80%", "number 3 at 0.40 s"):
        assert part in text
    assert "application.py:95" in text
    assert "Write into a contiguous array." in text
    assert "Watching cost about 19.2 ms (1.7%)" in text
    assert "t.json" in text


def test_a_clean_program_one_without_litert_and_one_unseen() -> None:
    assert "Nothing around the model costs what it need not." in app_text(result())
    assert "did not use LiteRT" in app_text(result(models=(), frames=None))
    assert "Nothing was seen" in app_text(result(main=None, threads=(), code=(), models=(), frames=None))


def test_the_finding_of_the_practice() -> None:
    assert result().finding.standing is Standing.GOOD
    assert result(FAULT).finding.standing is Standing.TO_DO
    assert result(FAULT).finding.what_to_do == FAULT.fix
    assert result(main=None).finding.standing is Standing.NOT_EXAMINED


def test_json_has_the_keys_of_the_contract() -> None:
    data = json.loads(json.dumps(result(FAULT).as_data()))
    assert set(data["split"]) == {f"{part}_ms" for part in PARTS}
    assert {"rule", "file", "line", "cost_ms", "fix"} <= set(data["findings"][0])
    assert data["trace"] is None
