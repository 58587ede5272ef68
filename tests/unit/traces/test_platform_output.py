"""What is shown of a trace: the text in 80 columns, the data, and the timeline that comes back as it went."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import constructed
import constructed_samples
import numpy as np
import pytest
from test_platform_formats import examined
from timelines import Faults, Timeline, camera

from hasten.core.platform_trace import RUNNABLE, RUNNING, WAITING, StateColumns
from hasten.library import examine_platform_trace
from hasten.practices.app.facts import PARTS
from hasten.report.platform_timeline import trace_events
from hasten.report.platform_trace_text import platform_trace_text

if TYPE_CHECKING:
    from pathlib import Path


def test_the_text_says_where_the_time_went(tmp_path: Path) -> None:
    text = platform_trace_text(examined(tmp_path, constructed.perfetto(camera(Faults(no_core=True, slow_pre=True)))))

    lines = text.splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[0].startswith("trace: Perfetto trace, ")
    assert "process com.example.camera (4100)" in lines
    for words in ("pre-processing", "inference", "TfLiteXNNPackDelegate", "What ran instead", "convertToBitmap"):
        assert words in text
    assert "1. pre-processing dominates in convertToBitmap: 240 ms" in text
    assert "waits for a core" in text
    assert "2 of them whole partitions of a delegate" in text


def test_the_data_has_the_keys_of_app(tmp_path: Path) -> None:
    data = examined(tmp_path, constructed.atrace(camera(Faults(cold=True)))).as_data()

    assert set(data) >= {"split", "findings", "trace", "operators", "source", "doubts"}
    assert set(data["split"]) == {f"{part}_ms" for part in PARTS}
    assert set(data["findings"][0]) >= {"rule", "file", "line", "cost_ms", "fix"}
    assert data["source"]["complete"] is True
    assert set(data["operators"][0]) >= {"op", "node", "count", "ms", "share", "delegate"}
    json.dumps(data, allow_nan=False)


@pytest.mark.parametrize("build", [constructed.perfetto, constructed.perfetto_track_events])
def test_the_timeline_read_again_comes_to_the_same(tmp_path: Path, build: object) -> None:
    path = tmp_path / "trace"
    path.write_bytes(build(camera()))  # type: ignore[operator]
    trace, first = examine_platform_trace(path)
    again = examined(tmp_path, trace_events(trace))

    assert first.main is not None
    assert again.main is not None
    for part in ("load", "pre", "inference", "post"):
        assert again.main.split[part] == pytest.approx(first.main.split[part])
    assert [(row.op, row.node, row.count) for row in again.operators] == [
        (row.op, row.node, row.count) for row in first.operators
    ]


def test_samples_become_calls_on_the_timeline(tmp_path: Path) -> None:
    path = tmp_path / "trace"
    path.write_text(constructed_samples.perf_script(constructed_samples.session(3)))
    trace, _ = examine_platform_trace(path)
    events = json.loads(trace_events(trace))["traceEvents"]

    runs = [event for event in events if event["name"] == "tflite::Subgraph::Invoke()"]
    assert [event["dur"] for event in runs] == [6000.0] * 3
    outer = next(event for event in events if event["name"] == "main")
    assert outer["dur"] == pytest.approx(32_000)


def test_helper_threads_of_the_same_name_are_shown(tmp_path: Path) -> None:
    text = platform_trace_text(examined(tmp_path, constructed_samples.perf_script(constructed_samples.session())))

    assert "and 40.0 ms of TFLite on camera" in text


def test_a_trace_of_one_process_leaves_out_the_others(tmp_path: Path) -> None:
    path = tmp_path / "trace"
    path.write_bytes(constructed.perfetto(camera(Faults(no_core=True))))
    trace, _ = examine_platform_trace(path)
    events = json.loads(trace_events(trace, 4100))["traceEvents"]

    assert {event["pid"] for event in events} == {4100}
    assert any(event["name"] == "ready, no core" for event in events)


def test_names_that_steer_a_terminal_do_not(tmp_path: Path) -> None:
    life = Timeline()
    life.add(4123, 0, 9_000, "Invoke@0/0")
    life.add(4123, 10, 5_000, "\x1b[31mEVIL[bold]\x07@1/0")
    text = platform_trace_text(examined(tmp_path, constructed.chrome(life)))

    assert "\x1b" not in text
    assert "EVIL[bold]" in text


def test_states_add_up_wherever_a_window_lies() -> None:
    states = StateColumns(np.array([10, 20, 40]), np.array([20, 40, 45]), np.array([RUNNING, WAITING, RUNNABLE]))

    assert states.within([0, 15, 10, 44, 50], [100, 30, 10, 60, 60]).tolist() == [
        [10, 5, 20],
        [5, 0, 10],
        [0, 0, 0],
        [0, 1, 0],
        [0, 0, 0],
    ]
