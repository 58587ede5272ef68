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
from hasten.practices.app.facts import PARTS
from hasten.practices.app.recorded.analysis import analyze_trace
from hasten.practices.app.timeline import trace_timeline
from hasten.practices.app.view import document, view
from hasten.show.terminal import terminal_text
from hasten.traces.reading import read_trace

if TYPE_CHECKING:
    from pathlib import Path

    from hasten.practices.app.facts import TraceFound


def shown(found: TraceFound) -> str:
    return terminal_text(view(found), verbose=True)


def test_the_text_says_where_the_time_went(tmp_path: Path) -> None:
    text = shown(examined(tmp_path, constructed.perfetto(camera(Faults(no_core=True, slow_pre=True)))))

    assert max(map(len, text.splitlines())) <= 80
    for words in ("com.example.camera (4100)", "inference", "TfLiteXNNPackDelegate", "convertToBitmap", "no core"):
        assert words in text
    assert "! Pre-processing dominates in convertToBitmap: 240 ms" in text
    assert "! Waits for a core" in text


def test_the_data_has_the_keys_of_app(tmp_path: Path) -> None:
    data = document(examined(tmp_path, constructed.atrace(camera(Faults(cold=True)))))

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
    trace = read_trace(path)
    first = analyze_trace(trace)
    again = examined(tmp_path, trace_timeline(trace))

    for part in ("load", "pre", "inference", "post"):
        assert again.split.parts[part] == pytest.approx(first.split.parts[part])
    assert [(row.op, row.node, row.count) for row in again.operators] == [
        (row.op, row.node, row.count) for row in first.operators
    ]


def test_samples_become_calls_on_the_timeline(tmp_path: Path) -> None:
    path = tmp_path / "trace"
    path.write_text(constructed_samples.perf_script(constructed_samples.session(3)))
    trace = read_trace(path)
    events = json.loads(trace_timeline(trace))["traceEvents"]

    runs = [event for event in events if event["name"] == "tflite::Subgraph::Invoke()"]
    assert [event["dur"] for event in runs] == [6000.0] * 3
    outer = next(event for event in events if event["name"] == "main")
    assert outer["dur"] == pytest.approx(32_000)


def test_helper_threads_of_the_same_name_are_shown(tmp_path: Path) -> None:
    found = examined(tmp_path, constructed_samples.perf_script(constructed_samples.session()))

    assert [(thread.thread, thread.split.litert_ms) for thread in found.threads][1:] == [("camera", 40.0)]
    assert shown(found).splitlines()[-1].split() == ["camera", "0", "40.0", "ms", "40.0", "ms"]


def test_a_trace_of_one_process_leaves_out_the_others(tmp_path: Path) -> None:
    path = tmp_path / "trace"
    path.write_bytes(constructed.perfetto(camera(Faults(no_core=True))))
    trace = read_trace(path)
    events = json.loads(trace_timeline(trace, 4100))["traceEvents"]

    assert {event["pid"] for event in events} == {4100}
    assert any(event["name"] == "ready, no core" for event in events)


def test_names_that_steer_a_terminal_do_not(tmp_path: Path) -> None:
    life = Timeline()
    life.add(4123, 0, 9_000, "Invoke@0/0")
    life.add(4123, 10, 5_000, "\x1b[31mEVIL[bold]\x07@1/0")
    text = shown(examined(tmp_path, constructed.chrome(life)))

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
