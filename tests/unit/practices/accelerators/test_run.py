"""The examination of accelerators on a simulated machine: what is named, what is timed, what is recommended."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from hasten.core import doubts
from hasten.core.codec import from_data
from hasten.core.comparison import Comparison, Verdict
from hasten.core.failure import Failure, RunnerFailed
from hasten.core.finding import Standing
from hasten.core.measurement import Measurement
from hasten.core.placement import XNNPACK, YNNPACK, Partition, Placement
from hasten.core.plan import Plan, Workload
from hasten.measure.effort import Effort
from hasten.model.reader import read_graph
from hasten.practices.accelerators.break_even_size import climb
from hasten.practices.accelerators.facts import Status
from hasten.practices.accelerators.rules import finding_of, pays_from, recommend, why_of
from hasten.practices.accelerators.run import plans_to_examine
from hasten.practices.accelerators.words import BOOK
from tests.example_models import counting_loop
from tests.unit.practices.accelerators.machine import (
    GPU,
    NPU,
    TRUTH,
    Back,
    Examination,
    SimulatedMachine,
    SimulatedRunner,
    backs,
    codes,
    facts_of,
    graph_in,
    placed,
)

if TYPE_CHECKING:
    from pathlib import Path

    from hasten.practices.accelerators.facts import AcceleratorRow
    from hasten.targets.client import LoadReport, RunnerClient


@pytest.fixture
def examined(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Examination:
    return Examination(graph_in(tmp_path), monkeypatch)


def processes(row: AcceleratorRow) -> int:
    return row.latency.processes if row.latency else 0


def test_everything_that_runs_is_placed_compared_and_timed(examined: Examination) -> None:
    rows = examined(backs())
    assert [row.status for row in rows.values()] == [*[Status.RUNS] * 3, Status.MISSING, *[Status.RUNS] * 2]
    assert all((row.placed_ops, row.total_ops) == (4, 4) for name, row in rows.items() if name != "ynnpack")
    assert all(row.max_error == 0 for row in rows.values() if row.latency and row.name != "reference")
    assert rows["reference"].max_error is None
    assert rows["xnnpack"].against_cpu is None
    assert rows["gpu"].against_cpu is not None
    assert rows["gpu"].against_cpu.verdict is Verdict.SLOWER
    assert rows["gpu"].break_even_runs is None
    assert facts_of(rows["gpu"], "accelerators.stand-in")["what"] == "a software GPU, as this machine has no other"
    assert BOOK.text(rows["ynnpack"].why) == "This release of LiteRT was built without YNNPACK."


def test_what_is_slower_by_far_is_retired_after_a_round_and_by_less_when_proven(examined: Examination) -> None:
    rows = examined(backs())
    starts = examined.machine.starts
    assert starts["reference"] == 2, "one to check, one to time"
    assert starts["builtin"] == 4, "three times as slow could be load: one to check, three to prove"
    assert facts_of(rows["builtin"], "accelerators.speed")["verdict"] == "slower"
    assert starts["gpu"] > 5
    assert rows["reference"].latency is not None
    assert facts_of(rows["reference"], "accelerators.speed")["ratio"]["ratio"] == pytest.approx(30, rel=0.05)


def test_progress_grows_and_names_what_is_under_way(examined: Examination) -> None:
    examined(backs())
    shares = [share for share, _ in examined.progress]
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
    assert any("checking gpu" in text for _, text in examined.progress)
    assert any("round 1: xnnpack, builtin, reference, gpu, npu" in text for _, text in examined.progress)


def test_every_round_is_kept_with_its_raw_samples(examined: Examination) -> None:
    rows = examined(backs())
    labels = [label for kind, label, _ in examined.kept if kind == "measurement"]
    assert labels.count("xnnpack") == processes(rows["xnnpack"])
    assert labels.count("reference") == 1
    assert from_data(Measurement, {k: v for k, v in examined.kept[0][2].items() if k != "round"}).samples.count > 0


@pytest.mark.parametrize("seconds", [1.0, 8.0, 30.0])
def test_the_budget_is_kept_once_there_is_a_round(examined: Examination, seconds: float) -> None:
    near = {"gpu": Back(1.001, placement=GPU, without_cpu=True), "npu": Back(1.02, placement=NPU, without_cpu=True)}
    examined(backs(**near), seconds=0.1)
    checks_and_a_round = examined.machine.now - 100.0
    rows = examined(backs(**near), seconds=seconds)
    assert examined.machine.now - 100.0 <= max(seconds, checks_and_a_round) + 0.1
    assert all(row.latency is not None for name, row in rows.items() if name != "ynnpack")


def test_the_faster_is_recommended_and_its_start_repaid(examined: Examination) -> None:
    rows = examined(backs(npu=Back(0.5, placement=NPU, without_cpu=True, start_ms=110.0)))
    assert rows["npu"].break_even_runs == pytest.approx(200, abs=4)
    name, why = recommend(examined.rows)
    assert (name, why.code) == ("npu", "accelerators.use")
    assert why.facts["ratio"]["ratio"] == pytest.approx(0.5, abs=0.02)
    assert why.facts["break_even_runs"] == rows["npu"].break_even_runs
    finding = finding_of(examined.rows)
    assert finding.standing is Standing.TO_DO
    assert finding.remark.facts["settings"] == "--accelerator npu"


def test_xnnpack_stays_if_nothing_is_surely_faster(examined: Examination) -> None:
    examined(backs())
    name, why = recommend(examined.rows)
    assert (name, why.code) == ("xnnpack", "accelerators.stay")
    assert why.facts["tried"] == ["builtin", "gpu", "npu"]
    assert finding_of(examined.rows).standing is Standing.GOOD


def test_too_few_rounds_recommend_nothing(examined: Examination) -> None:
    rows = examined(backs(npu=Back(0.5, placement=NPU, without_cpu=True)), seconds=0.1)
    assert facts_of(rows["npu"], "accelerators.speed")["verdict"] == "undecided"
    assert rows["npu"].break_even_runs is None
    assert recommend(examined.rows)[0] == "xnnpack"
    finding = finding_of(examined.rows)
    assert finding.standing is Standing.UNDECIDED
    assert "Undecided: " in BOOK.text(finding.remark)
    assert "npu (so far 2.0× faster)" in BOOK.text(finding.remark)
    assert "Measure longer" in BOOK.hint(finding.remark)


@pytest.mark.parametrize(("ratio", "standing"), [(2.1, Standing.UNDECIDED), (8.0, Standing.GOOD)])
def test_one_round_tells_only_what_no_load_explains(examined: Examination, ratio: float, standing: Standing) -> None:
    """Beyond four times, load is no explanation; twice as long may be a busy core."""
    rows = [row for row in examined(backs(npu=Back(0.5, placement=NPU))).values() if row.name in ("xnnpack", "npu")]
    seen = Comparison(Verdict.UNDECIDED, ratio, (0.0, math.inf), math.inf, 1)
    rows = [replace(row, against_cpu=seen) if row.name == "npu" else row for row in rows]
    assert finding_of(rows).standing is standing
    told = BOOK.text(why_of(rows[1], chooses=False))
    assert ("ndecided" in told) is (standing is Standing.UNDECIDED)


def test_the_quickest_of_several_is_recommended(examined: Examination) -> None:
    examined(backs(npu=Back(0.5, placement=NPU), gpu=Back(0.4, placement=GPU)))
    assert recommend(examined.rows)[0] == "gpu"


def test_the_reference_kernels_are_a_yardstick_and_no_option(examined: Examination) -> None:
    examined(backs(reference=Back(0.3, placement=None)))
    name, why = recommend(examined.rows)
    assert name == "xnnpack"
    assert "reference" not in why.facts["tried"]


@pytest.mark.parametrize(
    ("outputs", "status", "code"),
    [
        (TRUTH[::-1], Status.WRONG, "accelerators.wrong"),
        (np.where(TRUTH > 0.5, np.nan, TRUTH), Status.WRONG, "accelerators.no-numbers"),
        (TRUTH * 1e6, Status.WRONG, "accelerators.wrong"),
        (TRUTH[:4], Status.WRONG, "accelerators.no-numbers"),
        (TRUTH + np.array([0.13] + [0.0] * 7), Status.RUNS, "accelerators.imprecise"),
        (TRUTH + np.array([0.01] + [0.0] * 7), Status.RUNS, "accelerators.speed"),
    ],
)
def test_outputs_decide_what_may_be_recommended(
    examined: Examination, outputs: np.ndarray, status: Status, code: str
) -> None:
    rows = examined(backs(npu=Back(0.5, outputs, NPU, without_cpu=True)))
    assert rows["npu"].status is status
    assert codes(rows["npu"])[0] == code
    assert recommend(examined.rows)[0] == ("npu" if code == "accelerators.speed" else "xnnpack")


def test_the_imprecise_is_named_but_not_recommended(examined: Examination) -> None:
    truth = np.linspace(0, 1, 500)
    off = truth + np.array([0.5] + [0.0] * 499)
    found = backs(npu=Back(0.5, off, NPU, without_cpu=True))
    rows = examined({name: replace(back, outputs=truth) if name != "npu" else back for name, back in found.items()})
    assert rows["npu"].status is Status.IMPRECISE
    name, why = recommend(examined.rows)
    assert name == "xnnpack"
    assert [row["name"] for row in why.facts["conditional"]] == ["npu"]
    assert BOOK.text(why).startswith("Stay with XNNPACK")


def test_a_part_is_named_with_what_was_left(examined: Examination) -> None:
    part = placed(("LITERT_WEBGPU", (0, 1)), (XNNPACK, (2,)), left=(3,))
    rows = examined(backs(gpu=Back(0.5, placement=part)))
    assert rows["gpu"].status is Status.PARTIAL
    assert (rows["gpu"].placed_ops, rows["gpu"].partitions) == (2, 1)
    assert rows["gpu"].refused == ("MUL x1", "ADD x1")
    left = {"operators": ["MUL x1", "ADD x1"], "on_cpu": False}
    assert facts_of(rows["gpu"], "accelerators.left") == left
    assert recommend(examined.rows)[0] == "gpu"


def test_operators_of_a_loop_are_told_from_those_around_it(examined: Examination, tmp_path: Path) -> None:
    path = tmp_path / "loop.tflite"
    path.write_bytes(counting_loop())
    examined.graph = read_graph(path)
    assert [len(subgraph.nodes) for subgraph in examined.graph.subgraphs] == [1, 1, 2]
    body = Placement((Partition("LITERT_WEBGPU", 2, (0, 1)),), ((0, 0), (1, 0)))
    rows = examined(backs(gpu=Back(placement=body)))
    assert (rows["gpu"].placed_ops, rows["gpu"].total_ops) == (2, 4)
    assert rows["gpu"].refused == ("WHILE x1", "LESS x1")


def test_a_compiler_that_rewrote_the_graph_leaves_a_number(examined: Examination) -> None:
    rows = examined(backs(npu=Back(placement=placed(("delegate", (0,)), left=(1,)))))
    assert (rows["npu"].status, rows["npu"].placed_ops) == (Status.PARTIAL, 3)
    assert facts_of(rows["npu"], "accelerators.left-count") == {"count": 1, "on_cpu": False}
    assert rows["npu"].placed_macs is None


def test_ynnpack_runs_where_it_is_built_in(examined: Examination) -> None:
    rows = examined(backs(ynnpack=Back(0.5, placement=placed((YNNPACK, (0, 1, 2)), (XNNPACK, (3,))))))
    assert (rows["ynnpack"].status, rows["ynnpack"].placed_ops) == (Status.PARTIAL, 3)
    assert recommend(examined.rows)[0] == "ynnpack"
    assert finding_of(examined.rows).remark.facts["settings"] == "--option cpu.enable_ynnpack=true"


def test_the_fastest_right_one_is_recommended_and_a_faster_one_named_with_its_condition(examined: Examination) -> None:
    off = TRUTH + np.array([0.1] + [0.0] * 7)
    rows = examined(backs(npu=Back(0.3, off, NPU), gpu=Back(0.5, placement=GPU)))
    name, why = recommend(examined.rows)
    assert name == "gpu"
    assert rows["npu"].status is Status.RUNS
    (condition,) = why.facts["conditional"]
    assert (condition["name"], condition["error"]) == ("npu", pytest.approx(0.1))
    assert "npu is 3.33× faster" in BOOK.text(why)
    assert "10 % of their range: use it only if its accuracy holds" in BOOK.text(why)
    assert BOOK.hint(finding_of(examined.rows).remark) == "Run the model with --accelerator gpu."


def test_what_differs_is_worth_a_test_where_nothing_right_is_faster(examined: Examination) -> None:
    examined(backs(npu=Back(0.5, TRUTH + np.array([0.1] + [0.0] * 7), NPU)))
    finding = finding_of(examined.rows)
    assert (finding.standing, finding.remark.code) == (Standing.TO_DO, "accelerators.stay")
    assert BOOK.text(finding.remark).startswith("Stay with XNNPACK")
    assert "--data" in BOOK.hint(finding.remark)


def test_a_slower_one_that_differs_is_not_worth_a_word(examined: Examination) -> None:
    examined(backs(npu=Back(0.8, TRUTH + np.array([0.1] + [0.0] * 7), NPU), gpu=Back(0.5, placement=GPU)))
    assert recommend(examined.rows)[1].facts["conditional"] == []


def test_wrong_outputs_of_xnnpack_are_no_reason_to_stay(examined: Examination) -> None:
    examined(backs(xnnpack=Back(1.0, TRUTH[::-1])))
    name, why = recommend(examined.rows)
    assert name in ("gpu", "npu")
    assert "XNNPACK is wrong. Do not use it" in BOOK.text(why)


def test_more_cores_than_the_plan_has_are_named(examined: Examination) -> None:
    rows = examined(backs(npu=Back(0.5, placement=NPU, busy_cores=1.9)))
    assert facts_of(rows["npu"], doubts.MORE_CORES)["cores"] == pytest.approx(1.9)
    assert doubts.MORE_CORES not in codes(rows["xnnpack"])
    more_cores = recommend(examined.rows)[1].facts["more_cores"]
    assert more_cores["cores"] == pytest.approx(1.9)


def test_caches_show_what_they_save(examined: Examination) -> None:
    rows = examined(backs(npu=Back(placement=NPU, start_ms=500.0, cached_ms=50.0)), cache="/cache")
    assert rows["npu"].cached_start_ms == pytest.approx(50.0)
    cached = facts_of(rows["npu"], "accelerators.cached")
    assert (cached["start_ms"], cached["cached_ms"]) == (pytest.approx(500.0), pytest.approx(50.0))
    assert rows["builtin"].cached_start_ms is None


def test_every_delegate_has_a_row_of_its_own() -> None:
    settings = ["/a/lib.so", "/b/lib.so", "/b/lib.so:device=1", "/b/lib.so", "/c/npu"]
    plans = plans_to_examine(Plan(threads=2), 2, settings)
    assert {plan.delegate for plan in plans.values() if plan.delegate} == set(settings)
    assert all(plan.threads == 2 for plan in plans.values())
    assert plans["npu"].accelerator == "npu"


class ByModel(SimulatedMachine):
    """A machine whose accelerator has a fixed cost: 0.4 ms for each run, and a third of the time beyond."""

    def start(self, plan: Plan) -> RunnerClient:
        machine = self

        class Sized(SimulatedRunner):
            def load(self, path: Path, workload: Workload, *, profiling: bool = False) -> LoadReport:
                cpu_ms = path.stat().st_size / 1e5
                slow = {"xnnpack": cpu_ms, "npu": 0.4 + cpu_ms / 3, "gpu": 90.0}
                machine.backs[self.back_name].latency_ms = slow[self.back_name]
                if self.back_name == "gpu" and path.stat().st_size > 1e6:
                    raise RunnerFailed(Failure("load", "crash", "the runner died of SIGABRT"))
                return super().load(path, workload, profiling=profiling)

        return Sized(self, plan)


def test_the_size_from_which_on_it_pays(examined: Examination) -> None:
    examined.machine = ByModel(backs())
    examined.use_clock()
    plans = {name: Plan(accelerator=name) for name in ("gpu", "npu")}
    shares: list[float] = []
    effort = Effort(60.0, examined.machine, lambda share, text: shares.append(share))
    found = climb([Plan()], plans, effort)
    npu = found["npu"]
    sizes = [point.macs for point in npu.points]
    assert len(sizes) == 4
    assert sizes == sorted(sizes)
    assert sizes[0] < 1e6
    assert sizes[-1] > 1.5e8
    assert pays_from(npu.points) in sizes[1:]
    assert all(point.accelerator.low <= point.accelerator.estimate <= point.accelerator.high for point in npu.points)
    assert pays_from(found["gpu"].points) is None
    trouble = found["gpu"].trouble
    assert trouble is not None
    assert trouble.facts["message"] == "the runner died of SIGABRT"
    assert shares == sorted(shares)
    assert examined.machine.now - 100.0 <= 75.0
