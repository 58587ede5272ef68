"""A latency against an older session: only where machines are alike, and with room for what differs between runs."""

from __future__ import annotations

import math
from array import array
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from hasten.core.block import Block, Conditions
from hasten.core.codec import to_data
from hasten.core.measurement import Effective, Measurement, Model
from hasten.core.plan import Plan, Workload
from hasten.core.remark import remark
from hasten.core.samples import Samples
from hasten.core.session import SessionWriter
from hasten.gate.baseline import BaselineRun, baseline_runs, session_row
from hasten.gate.facts import GateVerdict, Row
from hasten.gate.run import baseline_name
from hasten.gate.words import BOOK
from hasten.measure.rounds import Candidate

if TYPE_CHECKING:
    from collections.abc import Sequence


HERE = {"cpu": "Some CPU", "architecture": "x86_64", "cores": 4, "litert": "2.3.0", "load_average": 0.3}


EVEN = tuple(1 + 0.001 * process for process in range(4))


def measurement(
    latency_ms: float, name: str = "model.tflite", plan: Plan = Plan(), processes: Sequence[float] = EVEN
) -> Measurement:
    """Processes that take these times the latency."""
    blocks = [
        Block(number, 0.0, array("q", [round(latency_ms * 1e6 * factor)] * 20))
        for number, factor in enumerate(processes)
        for _ in range(3)
    ]
    effective = Effective("cpu", 1, "CompiledModel", True, True)
    return Measurement(
        Model(f"some/{name}", 10, name), plan, Workload(), effective, Samples(tuple(blocks)), 1.0, 1.0, 3, 5.0
    )


def run(latency_ms: float, environment: dict[str, Any] | None = None, **changes: Any) -> BaselineRun:
    return BaselineRun(measurement(latency_ms, **changes), HERE if environment is None else environment)


def row(before: list[BaselineRun], latency_ms: float, margin: float = 0.02) -> Row:
    return session_row("old.jsonl", before, run(latency_ms), margin)


@pytest.mark.parametrize(("key", "value"), [("cpu", "Another"), ("litert", "2.2.0"), ("cores", 8)])
def test_another_machine_cannot_be_compared(key: str, value: Any) -> None:
    found = row([run(1.0, {**HERE, key: value})], 2.0)
    assert found.verdict is GateVerdict.UNDECIDED
    assert found.why == remark("gate.session-unlike", part=key, before=value, now=HERE[key])
    assert str(value) in BOOK.text(found.why)
    assert "--baseline-model" in BOOK.hint(found.why)


def test_a_session_that_does_not_say_where_it_was_made() -> None:
    found = row([run(1.0, {})], 2.0)
    assert found.verdict is GateVerdict.UNDECIDED
    assert found.why.facts["before"] is None


def test_only_the_same_plan_and_the_same_file_name_count() -> None:
    assert row([run(1.0, plan=Plan(threads=2))], 2.0).why.code == "gate.session-other-plan"
    assert row([], 2.0).why.code == "gate.session-empty"
    two = [run(1.0, name="a.tflite"), run(5.0, name="b.tflite")]
    assert row(two, 1.0).why.code == "gate.session-other-models"
    found = row([*two, run(1.0)], 1.5)
    assert found.measured == pytest.approx(1.5)


def test_one_earlier_run_leaves_much_room_and_says_how_much() -> None:
    assert row([run(1.0)], 1.1).verdict is GateVerdict.UNDECIDED
    assert row([run(1.0)], 1.1).why.facts["hidden"] == pytest.approx(0.20, abs=0.005)
    assert row([run(1.0)], 1.5).verdict is GateVerdict.FAILED
    assert row([run(1.0)], 0.7).verdict is GateVerdict.PASSED


def test_several_quiet_runs_leave_little() -> None:
    before = [run(latency) for latency in (1.0, 1.01, 0.99, 1.0, 1.005, 0.995, 1.0, 1.0)]
    assert row(before, 1.1).verdict is GateVerdict.FAILED
    assert row(before, 1.05).verdict is GateVerdict.UNDECIDED, "the interval begins below the limit"
    assert row(before, 0.97).verdict is GateVerdict.PASSED
    assert row(before, 1.0).interval == pytest.approx((0.963, 1.038), abs=0.002)


def test_a_busy_machine_makes_no_model_slower() -> None:
    assert session_row("old.jsonl", [run(1.0)], run(2.0), 0.02).verdict is GateVerdict.FAILED
    found = session_row("old.jsonl", [run(1.0)], beside_load(run(2.0)), 0.02)
    assert (found.verdict, found.why) == (GateVerdict.UNDECIDED, remark("gate.contended", cores=pytest.approx(2.0)))


def without_cpu_time(told: BaselineRun) -> BaselineRun:
    blocks = told.measurement.samples.blocks
    blocks = tuple(replace(block, conditions=replace(block.conditions, cpu_seconds=0.0)) for block in blocks)
    return replace(told, measurement=replace(told.measurement, samples=Samples(blocks)))


def beside_load(quiet: BaselineRun) -> BaselineRun:
    conditions = Conditions(wall_seconds=0.05, cpu_seconds=0.02, cores=2, other_cores_busy=2.0)
    blocks = tuple(replace(block, conditions=conditions) for block in quiet.measurement.samples.blocks)
    return replace(quiet, measurement=replace(quiet.measurement, samples=Samples(blocks)))


@pytest.mark.parametrize("history", [1, 6])
def test_a_baseline_from_a_busy_machine_passes_nothing(history: int) -> None:
    """What took 1 ms seemed to take 2 ms next to a load, and takes 1.3 ms now."""
    busy = [beside_load(run(2.0))] * history
    found = row(busy, 1.3)
    assert (found.verdict, found.why.code) == (GateVerdict.UNDECIDED, "gate.session-contended")
    assert "2.0 cores busy" in BOOK.text(found.why)
    assert row(busy, 4.0).verdict is GateVerdict.FAILED, "slower even than next to a load"
    allowed = session_row("old.jsonl", busy, run(1.3), 9.0)
    assert allowed.verdict is GateVerdict.PASSED, "no load hides that it takes ten times as long"
    idle = session_row("old.jsonl", [without_cpu_time(one) for one in busy], run(1.3), 9.0)
    assert idle.verdict is GateVerdict.UNDECIDED, "without CPU time, nobody knows what the load hides"
    assert row([*busy, run(1.0)], 1.3).verdict is GateVerdict.FAILED, "quiet runs count where there are some"
    assert row([*busy, run(1.0)], 0.7).verdict is GateVerdict.PASSED


def outcomes(ratio: float, history: int, spread: float, times: int) -> Counter[GateVerdict]:
    """Runs whose latency differs by this spread from one to the next, on a model that takes `ratio` of the time."""
    source = np.random.default_rng(5)
    found: Counter[GateVerdict] = Counter()
    for _ in range(times):
        before = [run(math.exp(source.normal(0, spread))) for _ in range(history)]
        found[row(before, ratio * math.exp(source.normal(0, spread))).verdict] += 1
    return found


@pytest.mark.parametrize(("history", "spread"), [(1, 0.05), (2, 0.03), (6, 0.01), (10, 0.05)])
def test_no_alarm_for_a_model_that_did_not_change(history: int, spread: float) -> None:
    assert outcomes(1.0, history, spread, 200)[GateVerdict.FAILED] / 200 <= 0.02


@pytest.mark.parametrize("history", [2, 4, 8])
@pytest.mark.parametrize("processes", [1, 2, 3, 4, 6])
@pytest.mark.parametrize("ratio", [1.0, 1.02])
def test_few_processes_that_differ_by_chance_decide_nothing(ratio: float, processes: int, history: int) -> None:
    """A session with precise runs; today's processes differ by 5 %, and 2 % slower is allowed."""
    source, times, found = np.random.default_rng(3), 200, Counter[GateVerdict]()
    before = [run(latency) for latency in np.exp(source.normal(0, 0.004, history))]
    for _ in range(times):
        now = run(ratio, processes=np.exp(source.normal(0, 0.05, processes)).tolist())
        found[session_row("old.jsonl", before, now, 0.02).verdict] += 1
    assert found[GateVerdict.FAILED] / times <= 0.02
    assert ratio == 1 or found[GateVerdict.PASSED] / times <= 0.02
    assert processes >= 4 or found[GateVerdict.UNDECIDED] == times


@pytest.mark.parametrize(
    ("ratio", "processes", "verdict"),
    [
        (1.6, 1, GateVerdict.UNDECIDED),
        (2.5, 1, GateVerdict.FAILED),
        (1.6, 2, GateVerdict.FAILED),
        (1.3, 3, GateVerdict.UNDECIDED),
        (0.4, 1, GateVerdict.PASSED),
    ],
)
def test_few_processes_decide_only_what_is_clear(ratio: float, processes: int, verdict: GateVerdict) -> None:
    now = run(ratio, processes=EVEN[:processes])
    found = session_row("old.jsonl", [run(1.0)] * 4, now, 0.02)
    assert found.verdict is verdict
    if verdict is GateVerdict.UNDECIDED:
        assert found.why == remark("gate.few-processes", processes=processes, needed=4)
    assert session_row("old.jsonl", [run(1.0)] * 4, beside_load(now), 0.02).verdict is not GateVerdict.FAILED


def test_ten_percent_are_found_in_a_quiet_history() -> None:
    assert outcomes(1.1, 10, 0.01, 100)[GateVerdict.FAILED] / 100 >= 0.95


def test_measurements_take_the_environment_written_before_them(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    writer = SessionWriter(path)
    writer.add("measurement", "m", to_data(measurement(1.0)))
    writer.add("environment", "", HERE)
    writer.add("measurement", "m", to_data(measurement(2.0)))
    writer.add("measurement", "m", {**to_data(measurement(3.0)), "interrupted": True})
    writer.add("measurement", "m", {"of": "another hasten"})
    writer.add("environment", "", {**HERE, "cores": 8})
    writer.add("measurement", "m", to_data(measurement(4.0)))
    writer.close()
    found = baseline_runs(path)
    assert [run.environment.get("cores") for run in found] == [None, 4, 8]
    assert found[1] == replace(found[1], measurement=measurement(2.0))


@pytest.mark.parametrize(
    ("path", "plan", "name"),
    [
        ("new/m.tflite", Plan(), "m.tflite"),
        ("new/m.tflite", Plan(threads=2), "cpu, 2 threads"),
        ("old/m.tflite", Plan(), "old/m.tflite"),
        ("old/n.tflite", Plan(), "n.tflite"),
    ],
)
def test_a_baseline_is_called_by_what_tells_it_apart(path: str, plan: Plan, name: str) -> None:
    model = Model("m", 1, "ab")
    candidate, baseline = Candidate("", Path("new/m.tflite"), model), Candidate("", Path(path), model, plan)
    assert baseline_name(candidate, baseline) == name
