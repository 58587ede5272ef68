"""`hasten app --from`: traces of platform tools on the command line, as a user has it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from commandline import QUICK, ROOT, hasten

if TYPE_CHECKING:
    from pathlib import Path

RECORDED: Final = ROOT / "tests" / "data" / "platform_traces"


def test_a_recorded_trace_is_shown_and_kept(tmp_path: Path) -> None:
    timeline, session = tmp_path / "timeline.json", tmp_path / "session.jsonl"
    done = hasten("app", "--from", RECORDED / "pyspy.speedscope.json", "--trace", timeline, "--session", session)

    assert done.code == 0
    assert max(map(len, done.output.splitlines())) <= max(80, len(str(timeline)) + 1)
    assert "pre-processing dominates in recorded_app.py:13 (prepare)" in " ".join(done.output.split())
    assert json.loads(timeline.read_text())["traceEvents"]
    kinds = [json.loads(line)["kind"] for line in session.read_text().splitlines() if "kind" in line]
    assert {"app", "finding"} <= set(kinds)
    refused = hasten("app", "--from", RECORDED / "pyspy.speedscope.json", "--trace", timeline)
    assert refused.code == 2
    assert "already exists" in refused.errors
    copy = tmp_path / "copy.json"
    copy.write_bytes((RECORDED / "pyspy.speedscope.json").read_bytes())
    assert hasten("app", "--from", copy, "--trace", copy, "--force").code == 2
    assert copy.read_bytes() == (RECORDED / "pyspy.speedscope.json").read_bytes()


def test_the_runs_of_a_trace_are_those_that_were_told_when_it_was_written(tmp_path: Path) -> None:
    """The first run is part of the start-up, and a run like any other to who reads the file."""
    trace = tmp_path / "trace.json"
    told = " ".join(hasten("trace", "demo", "-o", trace, *QUICK).output.split())
    shown = hasten("app", "--from", trace, "--json").json()
    assert f"holds the first run and {shown['inferences']['count'] - 1} profiled runs of" in told


def test_json_is_one_document(tmp_path: Path) -> None:
    done = hasten("app", "--from", RECORDED / "perf.script.txt", "--json", "--kind", "perf")

    found = done.json()
    assert done.code == 0
    assert found["source"]["kind"] == "perf"
    assert found["split"]["inference_ms"] > 0
    assert found["trace"] is None


def test_a_file_of_another_kind_is_refused_with_the_kinds_that_are_known(tmp_path: Path) -> None:
    letter = tmp_path / "letter.txt"
    letter.write_text("Dear reader,\nnothing was traced.\n")
    done = hasten("app", "--from", letter, "--json")

    assert done.code == 3
    for kind in ("perfetto", "atrace", "perf", "speedscope", "folded", "instruments", "chrome"):
        assert kind in done.json()["error"]["hint"]
    assert hasten("app", "--from", tmp_path / "missing").code == 3
    assert hasten("app", "--from", letter, "--kind", "systemtap").code == 2
