"""The examination of accelerators on a simulated machine: what is named, what is timed, what is recommended."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from hasten.core.acceleration import FAILED, IMPRECISE, MISSING, PARTIAL, RUNS, WRONG
from hasten.core.block import Block, Conditions
from hasten.core.comparison import Verdict
from hasten.core.errors import UsageError
from hasten.core.failure import Failure, RunnerFailed
from hasten.core.finding import Standing
from hasten.core.measurement import Model, measurement_from_data
from hasten.core.placement import XNNPACK, YNNPACK, Partition, Placement
from hasten.core.plan import Plan, Workload
from hasten.measure.rounds import Candidate
from hasten.model.build import ModelBuilder
from hasten.model.reader import read_graph
from hasten.model.samples_odd import counting_loop
from hasten.practices.accelerator_vendors import vendor_rows
from hasten.practices.accelerator_words import finding_of, recommend
from hasten.practices.accelerators import ExaminationInterrupted, examine, plans_to_examine
from hasten.practices.pays_from import pays_from
from hasten.targets.client import LoadReport, Runner, TensorInfo

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from hasten.core.acceleration import AcceleratorRow
    from hasten.model.graph import Graph
    from hasten.runner.protocol import Message
    from hasten.targets.load import Load

TRUTH = np.linspace(0, 1, 8, dtype=np.float32)
NODES = (0, 1, 2, 3)


def placed(*parts: tuple[str, tuple[int, ...]], left: tuple[int, ...] = ()) -> Placement:
    return Placement(tuple(Partition(name, 0, nodes) for name, nodes in parts), tuple((0, node) for node in left))


ON_XNNPACK = placed((XNNPACK, NODES))


@dataclass
class Back:
    """How one back end behaves."""

    latency_ms: float = 1.0
    outputs: np.ndarray = field(default_factory=TRUTH.copy)
    placement: Placement | None = ON_XNNPACK
    without_cpu: bool = False
    start_ms: float = 10.0
    cached_ms: float = 10.0
    refuses: Failure | None = None
    dies_in_round: int = 0
    busy_cores: float = 1.0
    interrupted_in_round: int = 0


GPU, NPU = placed(("LITERT_WEBGPU", NODES)), placed(("delegate", (0,)))


def backs(**changes: Back | None) -> dict[str, Back]:
    """Back ends that all run, on the CPU and beside it, unless told otherwise."""
    usual: dict[str, Back | None] = {
        "xnnpack": Back(), "builtin": Back(3.0, placement=None), "reference": Back(30.0, placement=None),
        "ynnpack": Back(refuses=Failure("load", "engine", "LiteRtCreateCompiledModel answered unsupported (5)")),
        "gpu": Back(1.5, placement=GPU, without_cpu=True), "npu": Back(1.5, placement=NPU, without_cpu=True),
    }  # fmt: skip
    return {name: back for name, back in {**usual, **changes}.items() if back is not None}


@dataclass
class Machine:
    """A target whose runners behave as the back end that their plan asks for."""

    backs: dict[str, Back]
    now: float = 100.0
    name: str = "simulated"
    noise: float = 0.003
    starts: dict[str, int] = field(default_factory=dict)
    source: np.random.Generator = field(default_factory=lambda: np.random.default_rng(3))

    def start(self, plan: Plan) -> Runner:
        return SimulatedRunner(self, plan)

    def start_load(self, kind: str, workers: int) -> Load:
        raise NotImplementedError

    def monotonic(self) -> float:
        return self.now


class SimulatedRunner(Runner):
    def __init__(self, machine: Machine, plan: Plan) -> None:
        super().__init__(NoLink(), plan, 1.0)
        self.machine, self.back_name = machine, name_of(plan)
        machine.starts[self.back_name] = machine.starts.get(self.back_name, 0) + 1
        machine.now += 0.2

    @property
    def back(self) -> Back:
        return self.machine.backs[self.back_name]

    def hello(self) -> dict[str, Any]:
        stand_ins = {"gpu": "a software GPU, as this machine has no other"}
        return {"machine": {"timer_ns": 30, "stand_ins": stand_ins}}

    def load(self, path: Path, workload: Workload, *, profiling: bool = False) -> LoadReport:
        if self.back.refuses is not None:
            raise RunnerFailed(self.back.refuses)
        start = self.back.cached_ms if self.plan.cache else self.back.start_ms
        self.machine.now += start / 1e3
        tensors = (TensorInfo("x", "float32", (1, 8), 32, True),)
        return LoadReport(
            start, {}, 0.0, "CompiledModel", 0, True, self.back.without_cpu, tensors, tensors, self.back.placement
        )

    def evaluate_many(
        self, samples: Sequence[Sequence[bytes | memoryview]], *, fresh: bool = False
    ) -> list[tuple[bytes | memoryview, ...]]:
        return [(self.back.outputs.astype(np.float32).tobytes(),) for _ in samples]

    def block(self, seconds: float, most: int, *, runner: int = 0, lead: int = 0) -> Block:
        back = self.back
        if back.dies_in_round and runner + 1 >= back.dies_in_round and most == 400:
            raise RunnerFailed(Failure("run", "crash", "the runner died of SIGSEGV"))
        if back.interrupted_in_round and runner + 1 >= back.interrupted_in_round and most == 400:
            raise KeyboardInterrupt
        latency = back.latency_ms * float(np.exp(self.machine.source.normal(0, self.machine.noise)))
        runs = max(1, min(most, int(seconds * 1e3 / latency)))
        wall = runs * latency / 1e3
        self.machine.now += wall
        self.peak_memory_mb = 20.0
        times = array("q", [round(latency * 1e6)] * min(runs, 8))
        return Block(runner, self.machine.now, times, Conditions(wall, wall * back.busy_cores))

    def close(self) -> None:
        """Nothing to close."""


class NoLink:
    def ask(self, request: Message, *, stage: str, seconds: float) -> Message:
        raise NotImplementedError

    def close(self) -> None:
        """Nothing to close."""


def name_of(plan: Plan) -> str:
    if plan.delegate:
        return plan.delegate
    if plan.accelerator != "cpu":
        return plan.accelerator
    if plan.options:
        return "ynnpack"
    return "xnnpack" if plan.kernel == "delegate" else plan.kernel


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    """ADD, ADD, MUL, ADD."""
    g = ModelBuilder()
    x = g.input("x", (1, 8))
    g.output(g.add(g.mul(g.add(g.add(x, x), x), x), x), "y")
    path = tmp_path / "model.tflite"
    path.write_bytes(g.build())
    return read_graph(path)


class Examination:
    """Examines the simulated back ends, and keeps what was reported."""

    def __init__(self, graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
        self.graph, self.monkeypatch = graph, monkeypatch
        self.progress: list[tuple[float, str]] = []
        self.kept: list[tuple[str, str, dict[str, Any]]] = []

    def __call__(
        self, found: dict[str, Back], seconds: float = 60.0, delegates: Sequence[str] = (), cache: str = ""
    ) -> dict[str, AcceleratorRow]:
        self.machine = Machine(found)
        self.use_clock()
        candidate = Candidate("model.tflite", self.graph.path, Model("model.tflite", 100, "ab" * 32))
        self.rows = examine(
            self.machine, candidate, self.graph, plans_to_examine(1, delegates), seconds,
            lambda share, text: self.progress.append((share, text)), cache, lambda *trial: self.kept.append(trial),
        )  # fmt: skip
        return {row.name: row for row in self.rows}

    def use_clock(self) -> None:
        clock = SimpleNamespace(monotonic=self.machine.monotonic)
        for module in ("measure.rounds", "practices.accelerators", "measure.race", "practices.pays_from"):
            self.monkeypatch.setattr(f"hasten.{module}.time", clock)


@pytest.fixture
def examined(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> Examination:
    return Examination(graph, monkeypatch)


def test_everything_that_runs_is_placed_compared_and_timed(examined: Examination) -> None:
    rows = examined(backs())
    assert [row.status for row in rows.values()] == [RUNS, RUNS, RUNS, MISSING, RUNS, RUNS]
    assert all((row.placed_ops, row.total_ops) == (4, 4) for name, row in rows.items() if name != "ynnpack")
    assert all(row.error is not None and row.error.worst == 0 for row in rows.values() if row.latency)
    assert rows["xnnpack"].against_cpu is None
    assert rows["gpu"].against_cpu is not None
    assert rows["gpu"].against_cpu.verdict is Verdict.SLOWER
    assert rows["gpu"].break_even_runs is None
    assert "this is a software GPU" in rows["gpu"].why
    assert rows["ynnpack"].why == "this release of LiteRT was built without YNNPACK."


def test_what_is_twice_as_slow_is_retired_after_a_round(examined: Examination) -> None:
    rows = examined(backs())
    starts = examined.machine.starts
    assert starts["reference"] == starts["builtin"] == 2, "one to check, one to time"
    assert starts["gpu"] > 5
    assert rows["reference"].latency is not None
    assert "takes about 30.0 times as long as XNNPACK" in rows["reference"].why


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
    assert labels.count("xnnpack") == rows["xnnpack"].processes
    assert labels.count("reference") == 1
    assert measurement_from_data({k: v for k, v in examined.kept[0][2].items() if k != "round"}).samples.count > 0


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
    assert name == "npu"
    assert why.startswith("use npu: 2.0")
    assert why.endswith("runs have repaid its start.")
    finding = finding_of(examined.rows)
    assert finding.standing is Standing.TO_DO
    assert finding.what_to_do == "Run the model with --accelerator npu."


def test_xnnpack_stays_if_nothing_is_surely_faster(examined: Examination) -> None:
    examined(backs())
    name, why = recommend(examined.rows)
    assert name == "xnnpack"
    assert why.endswith("(against builtin, gpu, npu).")
    assert finding_of(examined.rows).standing is Standing.GOOD


def test_too_few_rounds_recommend_nothing(examined: Examination) -> None:
    rows = examined(backs(npu=Back(0.5, placement=NPU, without_cpu=True)), seconds=0.1)
    assert "not sure yet: give it more --seconds" in rows["npu"].why
    assert rows["npu"].break_even_runs is None
    assert recommend(examined.rows)[0] == "xnnpack"


def test_the_quickest_of_several_is_recommended(examined: Examination) -> None:
    examined(backs(npu=Back(0.5, placement=NPU), gpu=Back(0.4, placement=GPU)))
    assert recommend(examined.rows)[0] == "gpu"


def test_the_reference_kernels_are_a_yardstick_and_no_option(examined: Examination) -> None:
    examined(backs(reference=Back(0.3, placement=None)))
    name, why = recommend(examined.rows)
    assert name == "xnnpack"
    assert "reference" not in why


@pytest.mark.parametrize(
    ("outputs", "status", "words"),
    [
        (TRUTH[::-1], WRONG, "do not use it"),
        (np.where(TRUTH > 0.5, np.nan, TRUTH), WRONG, "no numbers"),
        (TRUTH * 1e6, WRONG, "more than ten times their range"),
        (TRUTH[:4], WRONG, "another size"),
        (TRUTH + np.array([0.13] + [0.0] * 7), RUNS, ""),
    ],
)
def test_outputs_decide_what_may_be_recommended(
    examined: Examination, outputs: np.ndarray, status: str, words: str
) -> None:
    rows = examined(backs(npu=Back(0.5, outputs, NPU, without_cpu=True)))
    assert rows["npu"].status == status
    assert words in rows["npu"].why
    assert recommend(examined.rows)[0] == ("npu" if status == RUNS else "xnnpack")


def test_the_imprecise_is_named_but_not_recommended(examined: Examination, graph: Graph) -> None:
    truth = np.linspace(0, 1, 500)
    off = truth + np.array([0.5] + [0.0] * 499)
    found = backs(npu=Back(0.5, off, NPU, without_cpu=True))
    rows = examined({name: replace(back, outputs=truth) if name != "npu" else back for name, back in found.items()})
    assert rows["npu"].status == IMPRECISE
    name, why = recommend(examined.rows)
    assert name == "xnnpack"
    assert why.endswith("Faster, but to be tested for accuracy first: npu.")


def test_a_part_is_named_with_what_was_left(examined: Examination) -> None:
    part = placed(("LITERT_WEBGPU", (0, 1)), (XNNPACK, (2,)), left=(3,))
    rows = examined(backs(gpu=Back(0.5, placement=part)))
    assert rows["gpu"].status == PARTIAL
    assert (rows["gpu"].placed_ops, rows["gpu"].partitions) == (2, 1)
    assert rows["gpu"].refused == ("MUL x1", "ADD x1")
    assert "left to the CPU: MUL x1, ADD x1" in rows["gpu"].why
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
    assert (rows["npu"].status, rows["npu"].placed_ops) == (PARTIAL, 3)
    assert "left to the CPU: 1 operator, and its compiler does not tell which" in rows["npu"].why
    assert rows["npu"].placed_macs is None


@pytest.mark.parametrize(
    ("asked", "placement", "ran"),
    [
        ("npu", GPU, "LITERT_WEBGPU (4 operators)"),
        ("gpu", placed(("DispatchDelegate", NODES)), "DispatchDelegate (4 operators)"),
        ("ynnpack", ON_XNNPACK, "TfLiteXNNPackDelegate (4 operators)"),
        ("gpu", ON_XNNPACK, "TfLiteXNNPackDelegate (4 operators)"),
    ],
)
def test_two_accelerators_of_which_the_other_runs(
    examined: Examination, asked: str, placement: Placement, ran: str
) -> None:
    """Its quick runs must not be booked on the one that was asked for."""
    rows = examined(backs(**{asked: Back(0.2, placement=placement, without_cpu=True)}))
    assert rows[asked].status == FAILED
    assert f"it was asked for, but what took the model's operators is {ran}" in rows[asked].why
    assert rows[asked].latency is None
    assert recommend(examined.rows)[0] == "xnnpack"
    assert examined.machine.starts[asked] == 1


def test_a_silent_fallback_that_cannot_be_seen_is_no_full_placement(examined: Examination) -> None:
    rows = examined(backs(gpu=Back(0.5, placement=None, without_cpu=False)))
    assert rows["gpu"].status == PARTIAL
    assert rows["gpu"].placed_ops is None
    assert "does not tell which operators it takes" in rows["gpu"].why
    whole = examined(backs(gpu=Back(0.5, placement=None, without_cpu=True)))
    assert (whole["gpu"].status, whole["gpu"].placed_ops) == (RUNS, 4)


def test_ynnpack_runs_where_it_is_built_in(examined: Examination) -> None:
    rows = examined(backs(ynnpack=Back(0.5, placement=placed((YNNPACK, (0, 1, 2)), (XNNPACK, (3,))))))
    assert (rows["ynnpack"].status, rows["ynnpack"].placed_ops) == (PARTIAL, 3)
    assert recommend(examined.rows)[0] == "ynnpack"
    assert finding_of(examined.rows).what_to_do == "Run the model with --option cpu.enable_ynnpack=true."


def test_a_failure_costs_its_own_row(examined: Examination) -> None:
    crash = Failure("load", "crash", "the runner died of SIGSEGV", "Try another driver.")
    rows = examined(backs(gpu=Back(refuses=crash)))
    assert rows["gpu"].status == FAILED
    assert rows["gpu"].why == "the runner died of SIGSEGV. Try another driver."
    assert rows["npu"].latency is not None


@pytest.mark.parametrize(("round_number", "timed"), [(1, False), (3, True)])
def test_a_crash_while_timing(examined: Examination, round_number: int, timed: bool) -> None:
    rows = examined(backs(npu=Back(0.5, placement=NPU, dies_in_round=round_number)))
    assert (rows["npu"].latency is not None) == timed
    if timed:
        assert rows["npu"].processes == 2
        assert any("a later process failed" in doubt.evidence for doubt in rows["npu"].doubts)
    else:
        assert (rows["npu"].status, rows["npu"].why) == (FAILED, "the runner died of SIGSEGV")
    assert rows["gpu"].processes > 4


def test_missing_libraries_are_missing_and_say_what_installs_them(examined: Examination) -> None:
    absent = Failure("load", "accelerator", "the NPU accelerator needs OpenVINO", "pip install openvino==1")
    vulkan = Failure("load", "accelerator", "the GPU accelerator cannot load Vulkan", "apt-get install libvulkan1")
    rows = examined(backs(npu=Back(refuses=absent), gpu=Back(refuses=vulkan)))
    assert (rows["npu"].status, rows["gpu"].status) == (MISSING, MISSING)
    assert rows["npu"].why.endswith("OpenVINO. pip install openvino==1")
    finding = finding_of(examined.rows)
    assert finding.standing is Standing.NOT_EXAMINED
    assert "npu: the NPU accelerator needs OpenVINO" in finding.evidence


def test_without_the_base_the_rest_is_still_told(examined: Examination) -> None:
    rows = examined(backs(xnnpack=Back(refuses=Failure("load", "engine", "XNNPACK cannot lay it out"))))
    assert rows["npu"].latency is not None
    assert rows["npu"].against_cpu is None
    name, why = recommend(examined.rows)
    assert name in ("gpu", "npu")
    assert "XNNPACK does not run this model (XNNPACK cannot lay it out)" in why
    assert finding_of(examined.rows).standing is Standing.TO_DO


def test_without_reference_kernels_the_next_best_is_the_truth(examined: Examination) -> None:
    gone = Back(refuses=Failure("load", "model", "no such kernel"))
    rows = examined(backs(reference=gone, builtin=gone, npu=Back(0.5, TRUTH[::-1], NPU)))
    assert (rows["xnnpack"].status, rows["npu"].status) == (RUNS, WRONG)


def test_all_failing_is_told_for_each(examined: Examination) -> None:
    broken = Failure("load", "model", "the file is damaged", "Download it again.")
    rows = examined({name: Back(refuses=broken) for name in backs()})
    assert {row.status for row in rows.values()} == {FAILED}
    name, why = recommend(examined.rows)
    assert name is None
    assert why.startswith("nothing here runs this model")
    assert finding_of(examined.rows).standing is Standing.NOT_EXAMINED


def test_outputs_that_cannot_be_checked_recommend_nothing(examined: Examination) -> None:
    crash = Back(refuses=Failure("load", "crash", "native code crashed with SIGABRT"))
    rows = examined(backs(xnnpack=crash, builtin=crash, reference=crash, gpu=crash))
    assert rows["npu"].error is None
    name, why = recommend(examined.rows)
    assert name is None
    assert why.startswith("only npu runs this model, and its outputs are wrong or cannot be checked; XNNPACK does not")


def test_a_recommendation_names_what_its_outputs_differ_by(examined: Examination) -> None:
    examined(backs(npu=Back(0.5, TRUTH + np.array([0.1] + [0.0] * 7), NPU)))
    name, why = recommend(examined.rows)
    assert name == "npu"
    assert why.endswith("but some outputs differ by 10% of their range: test its accuracy.")


def test_ynnpack_is_not_the_classic_interface(examined: Examination) -> None:
    rows = examined(backs(ynnpack=Back(0.5, placement=None)))
    assert (rows["ynnpack"].status, rows["ynnpack"].latency) == (FAILED, None)
    assert "has no YNNPACK" in rows["ynnpack"].why


def test_a_long_message_is_cut(examined: Examination) -> None:
    rows = examined(backs(gpu=Back(refuses=Failure("load", "model", "far too long " * 100, "Do this."))))
    assert len(rows["gpu"].why) < 280
    assert rows["gpu"].why.endswith("… Do this.")


def test_an_interruption_leaves_what_was_found(examined: Examination) -> None:
    with pytest.raises(ExaminationInterrupted) as caught:
        examined(backs(npu=Back(1.01, placement=NPU, interrupted_in_round=3)))
    rows = {row.name: row for row in caught.value.rows}
    assert rows["npu"].processes == rows["xnnpack"].processes == 2
    assert recommend(caught.value.rows)[0] == "xnnpack"


def test_an_interruption_before_anything_was_timed_is_one(examined: Examination) -> None:
    with pytest.raises(KeyboardInterrupt) as caught:
        examined(backs(npu=Back(1.01, placement=NPU, interrupted_in_round=1)))
    assert not isinstance(caught.value, ExaminationInterrupted)


def test_more_cores_than_the_plan_has_are_named(examined: Examination) -> None:
    rows = examined(backs(npu=Back(0.5, placement=NPU, busy_cores=1.9)))
    assert "1.9 cores were busy, where the plan has 1" in rows["npu"].why
    assert "cores were busy" not in rows["xnnpack"].why
    assert recommend(examined.rows)[1].endswith("but 1.9 cores were busy, where the plan has 1.")


def test_caches_show_what_they_save(examined: Examination) -> None:
    rows = examined(backs(npu=Back(placement=NPU, start_ms=500.0, cached_ms=50.0)), cache="/cache")
    assert rows["npu"].cached_start_ms == pytest.approx(50.0)
    assert "starts in 500 ms, with its cache in 50.0 ms" in rows["npu"].why
    assert rows["builtin"].cached_start_ms is None


def test_every_delegate_has_a_row_of_its_own() -> None:
    settings = ["/a/lib.so", "/b/lib.so", "/b/lib.so:device=1", "/b/lib.so", "/c/npu"]
    plans = plans_to_examine(2, settings)
    assert {plan.delegate for plan in plans.values() if plan.delegate} == set(settings)
    assert all(plan.threads == 2 for plan in plans.values())
    assert plans["npu"].accelerator == "npu"


def test_a_delegate_without_a_name_is_a_wrong_usage() -> None:
    for setting in ("", ":device=1"):
        with pytest.raises(UsageError, match="names no library"):
            plans_to_examine(1, [setting])


class ByModel(Machine):
    """A machine whose accelerator has a fixed cost: 0.4 ms for each run, and a third of the time beyond."""

    def start(self, plan: Plan) -> Runner:
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
    found = pays_from(examined.machine, Plan(), plans, 60.0, lambda share, text: shares.append(share))
    npu = found["npu"]
    sizes = [point.macs for point in npu.points]
    assert len(sizes) == 4
    assert sizes == sorted(sizes)
    assert sizes[0] < 1e6
    assert sizes[-1] > 1.5e8
    assert npu.from_macs in sizes[1:]
    assert all(point.accelerator.low <= point.accelerator.estimate <= point.accelerator.high for point in npu.points)
    assert found["gpu"].from_macs is None
    assert "the runner died of SIGABRT" in found["gpu"].sentence()
    assert shares == sorted(shares)
    assert examined.machine.now - 100.0 <= 75.0


def test_other_vendors_say_which_library_is_missing(tmp_path: Path) -> None:
    for vendor in ("qualcomm", "intel_openvino"):
        (tmp_path / vendor / "compiler").mkdir(parents=True)
        (tmp_path / vendor / "compiler" / f"libLiteRtCompilerPlugin_{vendor}.so").touch()
    (row,) = vendor_rows(1, tmp_path)
    assert (row.name, row.status) == ("npu qualcomm", MISSING)
    assert "no dispatch library (libLiteRtDispatch*.so) is in vendors/qualcomm/dispatch" in row.why
    (tmp_path / "qualcomm" / "dispatch").mkdir()
    (tmp_path / "qualcomm" / "dispatch" / "libLiteRtDispatch_Qualcomm.so").touch()
    assert "libLiteRtDispatch_Qualcomm.so is there" in vendor_rows(1, tmp_path)[0].why
    assert all(row.status == MISSING for row in vendor_rows(1))
