"""The same samples in every format that holds stacks come to the same result; recorded ones to what was recorded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Final

import constructed_samples
import pytest
from constructed_samples import STRIPPED, Samples, session
from test_platform_formats import examined
from timelines import WORKER

from hasten.core.platform_trace import NO_ORDER, NO_SYMBOLS
from hasten.practices.app.recorded.analysis import analyze_trace
from hasten.traces.reading import read_trace

if TYPE_CHECKING:
    from collections.abc import Callable

RECORDED: Final = Path(__file__).resolve().parents[2] / "data" / "platform_traces"
FORMATS: dict[str, tuple[str, Callable[[Samples], str | bytes]]] = {
    "perf": ("perf", constructed_samples.perf_script),
    "evented": ("speedscope", constructed_samples.speedscope_evented),
    "perfetto": ("perfetto", constructed_samples.perfetto_samples),
    "instruments": ("instruments", constructed_samples.instruments_profile),
}


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_gives_the_same_split_and_kernels(tmp_path: Path, name: str) -> None:
    kind, build = FORMATS[name]
    found = examined(tmp_path, build(session()))

    assert found.source.kind == kind
    assert found.source.complete
    assert found.sampled
    split = {part: round(ms) for part, ms in found.split.parts.items() if ms}
    assert split == {"load": 5, "pre": 20, "inference": 60, "post": 10}
    kernels = {row.op: round(row.ms) for row in found.operators}
    beside = 0 if name == "evented" else 40
    assert kernels == {"xnn_f32_gemm_minmax_ukernel_6x8__neonfma": 40 + beside, "RESIZE_BILINEAR": 20}
    assert found.inferences is None
    assert not found.findings


def test_folded_stacks_give_totals_and_say_that_there_is_no_order(tmp_path: Path) -> None:
    found = examined(tmp_path, constructed_samples.folded(session()))

    assert found.split.inference_ms == pytest.approx(1000.0)
    assert NO_ORDER in {doubt.code for doubt in found.doubts}


def test_a_model_loaded_between_frames_shows_in_samples_too(tmp_path: Path) -> None:
    samples = session(3)
    again = [(tid, time_us + 100_000, stack) for tid, time_us, stack in session(3)]
    third = [(tid, time_us + 200_000, stack) for tid, time_us, stack in session(3)]
    found = examined(tmp_path, constructed_samples.perf_script([*samples, *again, *third]))

    assert [fault.rule for fault in found.findings] == ["model loaded again"]
    assert found.findings[0].cost_ms == pytest.approx(10.0)


def test_a_stripped_library_still_gives_its_share_and_the_doubt(tmp_path: Path) -> None:
    samples = [(WORKER, 1_000_000 + 1000 * step, STRIPPED) for step in range(120)]
    found = examined(tmp_path, constructed_samples.perf_script(samples))

    assert found.split.inference_ms == pytest.approx(120.0)
    assert NO_SYMBOLS in {doubt.code for doubt in found.doubts}


@pytest.mark.parametrize("name", ["pyspy.speedscope.json", "pyspy.folded.txt"])
def test_a_recorded_program_is_named_by_function_and_line(name: str) -> None:
    trace = read_trace(RECORDED / name)
    found = analyze_trace(trace)

    (fault,) = found.findings
    assert (fault.rule, fault.function) == ("pre-processing dominates", "prepare")
    assert (Path(fault.file).name, fault.line) == ("recorded_app.py", 13)
    assert found.split.inference_ms > 0
    assert found.split.start_ms > 0
    whole = sum(float(thread.samples.weight_ns.sum()) for thread in trace.threads) / 1e6
    assert found.split.total_ms == pytest.approx(whole)


def test_recorded_perf_shows_the_kernels_of_xnnpack() -> None:
    found = analyze_trace(read_trace(RECORDED / "perf.script.txt"))

    assert found.source.kind == "perf"
    assert found.process.startswith("python")
    assert all(row.op.startswith("xnn_") for row in found.operators)
    assert any("gemm" in row.op for row in found.operators)
    assert 0.02 < found.split.inference_ms / found.wall_ms < 0.5


def test_a_trace_of_hasten_itself_comes_back_as_it_was() -> None:
    path = RECORDED / "hasten.trace.json"
    events = json.loads(path.read_text())["traceEvents"]
    found = analyze_trace(read_trace(path))

    convolutions = sum(event["dur"] for event in events if event.get("name") == "CONV_2D") / 1e3
    assert sum(row.ms for row in found.operators if row.op == "CONV_2D") == pytest.approx(convolutions, rel=0.01)
    assert found.loads == 1
    assert found.thread == "engine"


def test_the_kernels_own_text_gives_runs_and_the_scheduler() -> None:
    found = analyze_trace(read_trace(RECORDED / "kernel.ftrace.txt"))

    assert (found.source.kind, found.source.complete) == ("atrace", True)
    assert found.inferences is not None
    assert found.inferences.count == 25
    assert found.allocations == 1
    assert found.thread == "python"
    assert all(found.split.parts[part] > 0 for part in ("load", "pre", "inference", "post"))
    assert found.scheduling is not None
    inside = found.scheduling.running_ms + found.scheduling.no_core_ms + found.scheduling.waiting_ms
    assert inside <= found.split.inference_ms * 1.001
    held = sum(row.ms for row in found.instead if row.part == "core")
    assert held <= 2 * found.scheduling.no_core_ms * 1.001  # two cores


def test_perf_without_stacks_and_with_other_events_is_read(tmp_path: Path) -> None:
    head = "camera 4100/4123 [002]     1.{:06}:     250000 cycles:u: "
    lines = [head.format(1000 * step) + " 7f00 xnn_f32_gemm+0x1 (/x/libtensorflowlite.so)" for step in range(120)]
    lines.insert(5, "camera 4100/4123 [002]     1.004500: sched:sched_switch: prev_comm=camera prev_pid=4123")
    found = examined(tmp_path, "\n".join(lines) + "\n")

    assert (found.source.kind, found.source.complete) == ("perf", True)
    assert [row.op for row in found.operators] == ["xnn_f32_gemm"]
    assert found.operators[0].count == 120
