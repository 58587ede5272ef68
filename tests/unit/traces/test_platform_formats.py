"""The same application in every format that holds sections comes to the same result."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import constructed
import pytest
from timelines import MAIN, WORKER, Faults, Timeline, camera

from hasten.practices.app.recorded.analysis import analyze_trace
from hasten.practices.app.words import BOOK
from hasten.traces.reading import read_trace

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from hasten.practices.app.facts import TraceFound

FORMATS: dict[str, tuple[str, Callable[[Timeline], str | bytes]]] = {
    "perfetto": ("perfetto", constructed.perfetto),
    "perfetto-compact": ("perfetto", lambda life: constructed.perfetto(life, compact=True)),
    "perfetto-compressed": ("perfetto", lambda life: constructed.perfetto(life, compressed=True)),
    "perfetto-tracks": ("perfetto", constructed.perfetto_track_events),
    "atrace": ("atrace", constructed.atrace),
    "systrace": ("atrace", constructed.systrace),
    "systrace-old": ("atrace", constructed.systrace_old),
    "chrome": ("chrome", constructed.chrome),
    "instruments-intervals": ("instruments", constructed.instruments_intervals),
    "instruments-events": ("instruments", constructed.instruments_events),
}
WITH_SCHEDULER = ("perfetto", "perfetto-compact", "perfetto-compressed", "atrace", "systrace", "systrace-old")


def examined(folder: Path, content: str | bytes, kind: str = "") -> TraceFound:
    path = folder / "trace"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return analyze_trace(read_trace(path, kind))


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_gives_the_same_split_operators_and_runs(tmp_path: Path, name: str) -> None:
    kind, build = FORMATS[name]
    found = examined(tmp_path, build(camera()))

    assert found.source.kind == kind
    assert found.source.complete
    assert not found.findings
    assert found.split.load_ms == pytest.approx(30.1, rel=0.01)
    assert found.split.inference_ms == pytest.approx(20 * 8.0, rel=0.01)
    assert found.split.pre_ms == pytest.approx(20 * 2.0, rel=0.01)
    assert found.split.post_ms == pytest.approx(20 * 0.5, rel=0.01)
    assert found.split.total_ms == pytest.approx(found.wall_ms, rel=0.001)
    assert found.inferences is not None
    assert (found.inferences.count, found.loads) == (20, 1)
    assert found.inferences.median_ms == pytest.approx(8.0, rel=0.01)
    assert found.partitions == 2
    times = {(row.op, row.node): row.ms for row in found.operators}
    assert times[("TfLiteXNNPackDelegate", 66)] == pytest.approx(100.0)
    assert times[("RESIZE_BILINEAR", 60)] == pytest.approx(30.0)
    assert times[("CONV_2D", 64)] == pytest.approx(6.0)
    assert {row.count for row in found.operators} == {20}


@pytest.mark.parametrize("name", WITH_SCHEDULER)
def test_the_scheduler_tells_waiting_from_work(tmp_path: Path, name: str) -> None:
    found = examined(tmp_path, FORMATS[name][1](camera(Faults(no_core=True))))

    assert found.split.waiting_ms == pytest.approx(19 * 4.98, rel=0.01)
    assert found.scheduling is not None
    assert found.scheduling.no_core_ms == pytest.approx(20 * 2.0, rel=0.01)
    taker = next(row for row in found.instead if row.part == "core")
    assert "surfaceflinger" in taker.where
    assert taker.ms == pytest.approx(40.0, rel=0.01)
    (fault,) = found.findings
    assert fault.rule == "waits for a core"
    assert fault.cost_ms == pytest.approx(40.0, rel=0.01)


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize(
    ("faults", "rule", "cost_ms"),
    [
        (Faults(reloads=True), "model loaded again", 19 * 30.0),
        (Faults(allocates=True), "resized on every frame", 19 * 0.9),
        (Faults(cold=True), "first run not warmed up", 60.0),
        (Faults(on_main=True), "inference on the event loop", 20 * 8.0),
        (Faults(slow_pre=True), "pre-processing dominates", 20 * 12.0),
    ],
)
def test_a_planted_fault_is_the_one_that_is_found(
    tmp_path: Path, name: str, faults: Faults, rule: str, cost_ms: float
) -> None:
    found = examined(tmp_path, FORMATS[name][1](camera(faults)))

    assert [fault.rule for fault in found.findings] == [rule]
    assert found.findings[0].cost_ms == pytest.approx(cost_ms, rel=0.02)
    assert BOOK.hint(found.findings[0].evidence)


def test_a_slow_function_is_named(tmp_path: Path) -> None:
    found = examined(tmp_path, constructed.atrace(camera(Faults(slow_pre=True))))

    assert found.findings[0].function == "convertToBitmap"
    assert found.instead[0].what == "convertToBitmap"
    assert found.instead[0].part == "pre"


@pytest.mark.parametrize("name", FORMATS)
def test_kind_overrides_what_the_content_shows(tmp_path: Path, name: str) -> None:
    kind, build = FORMATS[name]
    path = tmp_path / "trace"
    content: Any = build(camera(frames=2))
    path.write_bytes(content if isinstance(content, bytes) else content.encode())

    assert read_trace(path, kind).source.kind == kind


def test_litert_compiled_models_are_known_by_their_own_sections(tmp_path: Path) -> None:
    life = Timeline()
    life.add(WORKER, 0, 900, "LiteRT Graph Loading From File")
    life.add(WORKER, 1_000, 21_000, "CompiledModel Creation")
    life.add(WORKER, 1_100, 20_000, "CompiledModel Delegate Graph Conversion")
    for frame in range(12):
        begin = 30_000 + 10_000 * frame
        life.add(WORKER, begin, begin + 8_000, "CompiledModel Inference")
        life.add(WORKER, begin + 10, begin + 2_010, "CompiledModel Buffer Registration")
        life.add(WORKER, begin + 2_100, begin + 7_900, "CompiledModel Invoke")
        life.add(WORKER, begin + 2_200, begin + 7_200, "Dispatch API invoke")
    found = examined(tmp_path, constructed.perfetto_track_events(life))

    assert found.inferences is not None
    assert (found.loads, found.inferences.count) == (1, 12)
    assert found.split.load_ms == pytest.approx(20.9)
    assert found.split.copy_in_ms == pytest.approx(24.0)
    assert found.split.inference_ms == pytest.approx(72.0)
    assert [(row.op, row.delegate, row.count) for row in found.operators] == [("Dispatch API invoke", True, 12)]
    assert [fault.rule for fault in found.findings] == ["input converted"]


def test_two_interpreters_that_take_each_others_cores_are_found(tmp_path: Path) -> None:
    life = Timeline(names={MAIN: "main", WORKER: "first", WORKER + 1: "second"})
    for tid in (WORKER, WORKER + 1):
        for frame in range(12):
            begin = 1_000_000 + 10_000 * frame
            life.add(tid, begin, begin + 9_000, "Invoke@0/0")
            life.off_core.append((tid, begin + 1_000 + tid, begin + 4_000 + tid, True))
    found = examined(tmp_path, constructed.perfetto(life))

    assert {fault.rule for fault in found.findings} == {"waits for a core", "interpreters fight for cores"}


def test_subgraphs_and_nested_operators_count_no_time_twice(tmp_path: Path) -> None:
    life = Timeline()
    life.add(WORKER, 0, 10_000, "Invoke@0/0")
    life.add(WORKER, 100, 9_100, "WHILE@3/0")
    for step in range(4):
        life.add(WORKER, 200 + 2_000 * step, 2_100 + 2_000 * step, "Invoke@0/1")
        life.add(WORKER, 250 + 2_000 * step, 2_050 + 2_000 * step, "ADD@0/1")
    found = examined(tmp_path, constructed.chrome(life))

    assert found.inferences is not None
    assert found.inferences.count == 1
    times = {(row.op, row.subgraph): row.ms for row in found.operators}
    assert times == {("ADD", 1): pytest.approx(7.2), ("WHILE", 0): pytest.approx(1.4)}
    assert found.split.inference_ms == pytest.approx(10.0)


def test_garbage_collection_is_named_among_what_ran_instead(tmp_path: Path) -> None:
    life = camera()
    life.names[4130] = "HeapTaskDaemon"
    life.add(4130, 1_050_000, 1_090_000, "Background young concurrent copying GC")
    found = examined(tmp_path, constructed.atrace(life))

    row = next(row for row in found.instead if row.where == "HeapTaskDaemon")
    assert row.what == "Background young concurrent copying GC"
    assert row.ms == pytest.approx(40.0)
