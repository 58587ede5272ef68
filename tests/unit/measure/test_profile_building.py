"""A profile from events made by hand: every figure can be checked on paper."""

from __future__ import annotations

from array import array
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from tests.example_models import two_signatures
from tests.model_builder import ModelBuilder

from hasten.core import doubts
from hasten.core.block import Block, Conditions, ProfiledRun, RawEvent
from hasten.core.doubts import DOUBTS
from hasten.core.measurement import Model
from hasten.core.plan import Plan, Workload
from hasten.core.profile import Peaks, Profile
from hasten.core.remark import remark
from hasten.core.samples import Samples
from hasten.measure.profiling import RawProfile, build_profile
from hasten.measure.rounds import Candidate
from hasten.model.reader import read_graph
from hasten.practices.profile.rules import where_time_goes
from hasten.practices.profile.view import view
from hasten.practices.profile.words import BOOK
from hasten.show.terminal import terminal_text
from hasten.targets.client import LoadReport

if TYPE_CHECKING:
    from pathlib import Path

    from hasten.model.graph import Graph

PEAKS = Peaks(1, float_gflops=0.001, int8_gops=0.002, bandwidth=((1000, 10.0), (10**6, 1.0)))
LOAD = LoadReport(10.0, {"compile_ms": 10.0}, 5.0, "CompiledModel", 0, True, True, (), ())


def invoke(elapsed_us: int, subgraph: int = 0) -> RawEvent:
    return RawEvent("invoke", "Invoke", 0, subgraph, 1000, elapsed_us)


def kernel(tag: str, index: int, elapsed_us: int, subgraph: int = 0) -> RawEvent:
    return RawEvent("kernel", tag, index, subgraph, 0, elapsed_us)


def operator(tag: str, index: int, elapsed_us: int, subgraph: int = 0) -> RawEvent:
    return RawEvent("operator", tag, index, subgraph, 1500, elapsed_us)


def run_of(*events: RawEvent, total_us: float | None = None) -> ProfiledRun:
    return ProfiledRun(events[0].elapsed_us + 2.0 if total_us is None else total_us, events)


def raw_of(*runs: ProfiledRun, latency_ms: float = 1.0) -> RawProfile:
    block = Block(0, 0.0, array("q", [round(latency_ms * 1e6)] * 30))
    return RawProfile(runs, Samples((block, block)), LOAD)


def graph_of(builder: ModelBuilder, folder: Path) -> Graph:
    path = folder / "m.tflite"
    path.write_bytes(builder.build())
    return read_graph(path)


def profile_of(graph: Graph, raw: RawProfile, peaks: Peaks | None = None, workload: Workload = Workload()) -> Profile:
    candidate = Candidate("m", graph.path, Model("m.tflite", graph.size_bytes, graph.sha256), Plan(), workload)
    return build_profile(candidate, graph, raw, peaks)


@pytest.fixture
def dense(tmp_path: Path) -> Graph:
    """FULLY_CONNECTED of 4 to 8, then SOFTMAX."""
    g = ModelBuilder()
    g.output(g.softmax(g.fully_connected(g.input("x", (1, 4)), 8)), "y")
    return graph_of(g, tmp_path)


@pytest.fixture
def chain(tmp_path: Path) -> Graph:
    """CONV_2D, TANH, CONV_2D: the middle one can be left to the engine."""
    g = ModelBuilder()
    g.output(g.conv2d(g.tanh(g.conv2d(g.input("x", (1, 8, 8, 2)), 2, 3)), 2, 3), "y")
    return graph_of(g, tmp_path)


def test_kernels_are_mapped_to_their_nodes(dense: Graph) -> None:
    raw = raw_of(run_of(invoke(200), kernel("Fully Connected (NC, F32) GEMM", 0, 100), kernel("Softmax (NC)", 1, 50)))
    found = profile_of(dense, raw)
    assert [(op.index, op.op, op.mapped, op.partition) for op in found.operators] == [
        (0, "FULLY_CONNECTED", "exact", 0),
        (1, "SOFTMAX", "exact", 0),
    ]
    assert found.operators[0].kernels == ("Fully Connected (NC, F32) GEMM",)
    assert found.operators[0].events == (1,)
    assert found.operators[0].shapes == "1x4 → 1x8"
    assert found.operators[1].location == dense.main.tensors[dense.main.nodes[1].outputs[0]].name
    assert found.partitions[0].nodes == (0, 1)


def test_times_shares_and_coverage(dense: Graph) -> None:
    raw = raw_of(run_of(invoke(200), kernel("Fully Connected", 0, 100), kernel("Softmax", 1, 50)))
    found = profile_of(dense, raw)
    assert found.invoke_ms == 0.2
    # XNNPACK cuts to whole microseconds: half of one is given back
    assert [op.ms for op in found.operators] == pytest.approx([0.1005, 0.0505])
    assert [op.share for op in found.operators] == pytest.approx([0.5025, 0.2525])
    assert found.coverage == pytest.approx(0.755)
    assert found.profiled_ms == pytest.approx(0.202)
    assert doubts.UNSEEN in [doubt.code for doubt in found.doubts]


def test_kernel_of_no_time_is_given_none_back(dense: Graph) -> None:
    raw = raw_of(run_of(invoke(10), kernel("Fully Connected", 0, 9), kernel("Softmax", 1, 0)))
    assert profile_of(dense, raw).operators[1].ms == 0.0


def test_cost_headroom_and_bound(dense: Graph) -> None:
    raw = raw_of(run_of(invoke(200), kernel("Fully Connected", 0, 100), kernel("Softmax", 1, 50)))
    first = profile_of(dense, raw, PEAKS).operators[0]
    assert (first.macs, first.flops) == (32, 64)
    assert first.bytes == 4 * (4 + 32 + 8 + 8)
    assert first.gflops == pytest.approx(64 / 100.5e-6 / 1e9)
    # 64 operations at a million a second are 64 µs; 208 bytes at 10 GB/s are nothing
    assert first.bound == "compute"
    assert first.headroom_ms == pytest.approx(0.1005 - 0.064)


def test_memory_bound_operator(dense: Graph) -> None:
    slow_memory = Peaks(1, 1000.0, 1000.0, ((10**6, 0.00001),))
    raw = raw_of(run_of(invoke(200), kernel("Fully Connected", 0, 100), kernel("Softmax", 1, 50)))
    first = profile_of(dense, raw, slow_memory).operators[0]
    assert first.bound == "memory"
    assert first.headroom_ms == pytest.approx(max(0.0, 0.1005 - 208 / 1e4 * 1e3))


def test_operator_above_its_peak_has_no_headroom_and_never_a_negative_one(dense: Graph) -> None:
    raw = raw_of(run_of(invoke(20), kernel("Fully Connected", 0, 10), kernel("Softmax", 1, 5)))
    found = profile_of(dense, raw, PEAKS)
    assert found.operators[0].headroom_ms == 0.0
    # A peak that an operator exceeds was measured beside other programs.
    assert found.peaks is not None
    assert found.peaks.float_gflops == found.operators[0].gflops


def test_without_peaks_there_is_no_bound(dense: Graph) -> None:
    raw = raw_of(run_of(invoke(200), kernel("Fully Connected", 0, 100), kernel("Softmax", 1, 50)))
    first = profile_of(dense, raw).operators[0]
    assert first.gflops is not None
    assert (first.bound, first.headroom_ms) == (None, None)


def test_eight_bit_operators_are_held_against_the_eight_bit_peak(tmp_path: Path) -> None:
    g = ModelBuilder()
    g.output(g.fully_connected(g.input("x", (1, 4), "int8", scale=0.1), 8), "y")
    raw = raw_of(run_of(invoke(100), kernel("Fully Connected", 0, 100)))
    found = profile_of(graph_of(g, tmp_path), raw, PEAKS).operators[0]
    assert found.headroom_ms == pytest.approx(0.1005 - 64 / 0.002 / 1e6)


def test_unknown_cost_is_none_and_never_zero(tmp_path: Path) -> None:
    g = ModelBuilder()
    g.output(g.custom("Polish", [g.input("x", (1, 4))], (1, 4)), "y")
    found = profile_of(graph_of(g, tmp_path), raw_of(run_of(invoke(50), operator("Polish", 0, 49))), PEAKS).operators[0]
    assert found.op == "Polish"
    assert (found.macs, found.flops, found.gflops, found.bound, found.headroom_ms) == (None,) * 5


def test_two_partitions_with_an_operator_of_the_engine_in_between(chain: Graph) -> None:
    raw = raw_of(
        run_of(invoke(300), kernel("Convolution", 0, 100), operator("TANH", 1, 80), kernel("Convolution", 0, 110))
    )
    found = profile_of(chain, raw)
    assert [(op.index, op.mapped, op.partition) for op in found.operators] == [
        (0, "exact", 0),
        (1, "engine", None),
        (2, "exact", 2),
    ]
    assert [(part.delegated, part.nodes) for part in found.partitions] == [(True, (0,)), (False, (1,)), (True, (2,))]
    assert [part.ms for part in found.partitions] == pytest.approx([0.1005, 0.08, 0.1105])


def test_engine_alone(chain: Graph) -> None:
    raw = raw_of(run_of(invoke(300), *(operator(node.op, node.index, 90) for node in chain.main.nodes)))
    found = profile_of(chain, raw)
    assert {op.mapped for op in found.operators} == {"engine"}
    assert [part.delegated for part in found.partitions] == [False]
    assert found.coverage == pytest.approx(0.9)


def test_fused_nodes_stand_with_the_kernel_that_runs_them(tmp_path: Path) -> None:
    g = ModelBuilder()
    g.output(g.swish(g.conv2d(g.input("x", (1, 8, 8, 2)), 2, 3)), "y")
    graph = graph_of(g, tmp_path)
    raw = raw_of(run_of(invoke(120), kernel("Convolution", 0, 100), kernel("Invalid Unary Op", 1, 15)))
    found = profile_of(graph, raw)
    assert [(op.op, op.fused) for op in found.operators] == [("CONV_2D", ()), ("LOGISTIC", ("2 MUL",))]


def test_node_fused_ahead_of_the_first_kernel_is_not_lost(tmp_path: Path) -> None:
    g = ModelBuilder()
    g.output(g.fully_connected(g.reshape(g.input("x", (2, 2)), (1, 4)), 8), "y")
    found = profile_of(graph_of(g, tmp_path), raw_of(run_of(invoke(120), kernel("Fully Connected", 0, 100))))
    assert [(op.op, op.fused) for op in found.operators] == [("FULLY_CONNECTED", ("0 RESHAPE",))]


def test_delegate_that_tells_nothing_is_one_row(chain: Graph) -> None:
    found = profile_of(chain, raw_of(run_of(invoke(300), operator("SomeDelegate", 3, 290))), PEAKS)
    (row,) = found.operators
    assert (row.index, row.op, row.mapped, row.ms) == (-1, "DELEGATE", "partition", 0.29)
    assert row.kernels == ("SomeDelegate",)
    assert row.fused == ("0 CONV_2D", "1 TANH", "2 CONV_2D")
    assert (row.macs, row.headroom_ms) == (None, None)


def test_delegate_that_is_not_even_timed_is_a_row_without_time(chain: Graph) -> None:
    found = profile_of(chain, raw_of(run_of(invoke(300))))
    assert [(row.op, row.kernels, row.ms) for row in found.operators] == [("DELEGATE", ("not reported",), 0.0)]
    assert found.coverage == 0.0
    assert doubts.UNSEEN in [doubt.code for doubt in found.doubts]


def test_kernels_too_short_for_the_profiler_are_not_said_to_run_elsewhere(dense: Graph) -> None:
    events = (invoke(17), kernel("Fully Connected", 0, 0), kernel("Softmax", 1, 0))
    unseen, profiling = profile_of(dense, raw_of(run_of(*events), latency_ms=0.002)).doubts
    assert unseen == remark(doubts.UNSEEN, seen=0.0, rest="short", short=2, operators=2)
    assert profiling.facts["cost"] == pytest.approx(7.5)


def test_delegate_that_tells_nothing_is_what_the_doubt_names(chain: Graph) -> None:
    (doubt,) = profile_of(chain, raw_of(run_of(invoke(300)))).doubts
    assert doubt == remark(doubts.UNSEEN, seen=0.0, rest="delegate")


@pytest.fixture
def loop(tmp_path: Path) -> Graph:
    """CONV_2D, a WHILE around an ADD and a CONV_2D, CONV_2D."""
    g = ModelBuilder()
    condition, body = g.subgraph("condition"), g.subgraph("body")
    number = condition.input("count", (1,), "int32")
    condition.input("x", (1, 8, 8, 2))
    condition.output(condition.less(number, condition.constant(np.array([3], dtype=np.int32))))
    number, x = body.input("count", (1,), "int32"), body.input("x", (1, 8, 8, 2))
    body.output(body.add(number, body.constant(np.array([1], dtype=np.int32))))
    body.output(body.conv2d(x, 2, 3))
    first = g.conv2d(g.input("x", (1, 8, 8, 2)), 2, 3)
    _, y = g.while_loop([g.constant(np.array([0], dtype=np.int32)), first], condition, body)
    g.output(g.conv2d(y, 2, 3), "y")
    return graph_of(g, tmp_path)


def run_of_loop(graph: Graph, layer_us: int = 100) -> ProfiledRun:
    """Two layers of 100 µs, and 200 µs of a loop between them."""
    place = [node.op for node in graph.main.nodes].index("WHILE")
    inside = (
        invoke(3, 1),
        operator("LESS", 0, 1, 1),
        invoke(60, 2),
        operator("ADD", 0, 1, 2),
        kernel("Convolution", 0, 50, 2),
    )
    before, after = kernel("Convolution", 0, layer_us), kernel("Convolution", 0, 100)
    return run_of(invoke(420), before, operator("WHILE", place, 200), *inside * 3, after)


def test_bodies_of_loops_are_counted_once(loop: Graph) -> None:
    """The loop's own event has the time of its body in it: operators and kernels of other subgraphs do not count."""
    found = profile_of(loop, raw_of(run_of_loop(loop)))
    assert [(op.op, op.mapped) for op in found.operators] == [
        ("CONV_2D", "exact"),
        ("WHILE", "engine"),
        ("CONV_2D", "exact"),
    ]
    assert found.coverage == pytest.approx((100.5 + 200 + 100.5) / 420)
    assert found.profiler_ms == 0.0


def test_a_loop_takes_no_more_than_there_is_in_a_plain_run(loop: Graph) -> None:
    found = profile_of(loop, raw_of(run_of_loop(loop), latency_ms=0.231))
    assert [op.ms for op in found.operators] == pytest.approx([0.1005, 0.030, 0.1005])
    assert [part.ms for part in found.partitions] == pytest.approx([0.1005, 0.030, 0.1005])
    assert (found.profiler_ms, found.invoke_ms) == pytest.approx((0.170, 0.250))
    (doubt,) = found.doubts
    assert doubt.facts == {"cost": pytest.approx(0.82, abs=0.005), "inside": ["WHILE"]}


def test_an_operator_beside_a_loop_is_not_judged_by_one_disturbed_run(loop: Graph) -> None:
    """What the profiler takes in the loop hides which runs were disturbed."""
    disturbed = run_of_loop(loop, layer_us=1000)
    found = profile_of(loop, raw_of(*[run_of_loop(loop)] * 5, replace(disturbed, total_us=1.0)))
    assert [op.ms for op in found.operators] == pytest.approx([0.1005, 0.2, 0.1005])


def test_disturbed_runs_and_runs_with_other_events_do_not_count(dense: Graph) -> None:
    quiet = run_of(invoke(200), kernel("Fully Connected", 0, 100), kernel("Softmax", 1, 50))
    disturbed = run_of(invoke(2000), kernel("Fully Connected", 0, 1000), kernel("Softmax", 1, 500))
    shorter = run_of(invoke(100), kernel("Fully Connected", 0, 100))
    other = run_of(invoke(100), kernel("Fully Connected", 0, 7), operator("SOFTMAX", 1, 7))
    found = profile_of(dense, raw_of(shorter, quiet, disturbed, other, quiet, other, disturbed, quiet))
    assert [op.ms for op in found.operators] == pytest.approx([0.1005, 0.0505])
    assert found.runs == 8


def test_means_are_over_undisturbed_runs_and_add_up_to_the_run(dense: Graph) -> None:
    """Beside other processes three of four runs take up to twice their time, in which operator is a matter of luck."""
    quiet = [run_of(invoke(100 + i), kernel("Fully Connected", 0, 60 + i), kernel("Softmax", 1, 39)) for i in range(5)]
    others = [run_of(invoke(200 + i), kernel("Fully Connected", 0, 160), kernel("Softmax", 1, 39)) for i in range(15)]
    found = profile_of(dense, raw_of(*others, *quiet, latency_ms=0.1))
    assert found.operators[0].ms == pytest.approx(np.mean([60.5 + i for i in range(5)]) / 1e3)
    assert found.invoke_ms == pytest.approx(0.102)
    assert found.seen_ms == pytest.approx(found.invoke_ms)
    assert found.profiling_cost < 0.05, "what other processes took is no cost of profiling"
    disturbed = next(doubt for doubt in found.doubts if doubt.code == doubts.DISTURBED)
    assert disturbed.facts["share"] == pytest.approx(0.75)
    assert DOUBTS.hint(disturbed) == "The times shown exclude them."


def test_the_time_of_a_run_is_that_of_the_runs_whose_operators_are_shown(dense: Graph) -> None:
    runs = [run_of(invoke(470), kernel("Fully Connected", 0, 400), kernel("Softmax", 1, 69))] * 9
    found = profile_of(dense, raw_of(*runs, latency_ms=0.236))
    assert BOOK.text(where_time_goes(found)).startswith("A profiled run takes 0.470 ms: FULLY_CONNECTED 85 %")
    assert found.seen_ms == pytest.approx(0.470)


def test_what_other_processes_may_have_taken_is_not_blamed_on_profiling(dense: Graph) -> None:
    """No profiled run was undisturbed, while some plain ones were."""
    runs = [run_of(invoke(us), kernel("Fully Connected", 0, us - 9), kernel("Softmax", 1, 9)) for us in (300, 400, 900)]
    found = profile_of(dense, raw_of(*runs * 10, latency_ms=0.1))
    doubt = next(doubt for doubt in found.doubts if doubt.code == doubts.PROFILING)
    assert DOUBTS.text(doubt).startswith("Profiled runs took 200 % longer than the others: other processes disturbed")
    shown = terminal_text(view(found))
    assert "profiling adds at most 200 %" in shown


def test_a_busy_machine_is_a_doubt_of_a_profile(dense: Graph) -> None:
    raw = raw_of(run_of(invoke(200), kernel("Fully Connected", 0, 150), kernel("Softmax", 1, 50)))
    busy = Conditions(wall_seconds=0.05, cpu_seconds=0.05, other_cores_busy=2.0, stolen_share=0.2)
    blocks = tuple(replace(block, conditions=busy) for block in raw.plain.blocks)
    found = profile_of(dense, replace(raw, plain=Samples(blocks)))
    assert {doubts.OTHER_LOAD, doubts.STOLEN_TIME} <= {doubt.code for doubt in found.doubts}


def test_dear_profiling_is_a_doubt(dense: Graph) -> None:
    events = (invoke(200), kernel("Fully Connected", 0, 150), kernel("Softmax", 1, 48))
    assert profile_of(dense, raw_of(run_of(*events), latency_ms=0.19)).doubts == ()
    (doubt,) = profile_of(dense, raw_of(run_of(*events), latency_ms=0.1)).doubts
    assert doubt.facts == {"cost": pytest.approx(1.0), "inside": []}


def test_time_that_only_profiling_takes_is_no_missing_part(dense: Graph) -> None:
    """The operators add up to 75 % of the profiled run, and to all of a plain one."""
    events = (invoke(200), kernel("Fully Connected", 0, 100), kernel("Softmax", 1, 49))
    (doubt,) = profile_of(dense, raw_of(run_of(*events), latency_ms=0.15)).doubts
    assert doubt.code == doubts.PROFILING
    reasons = [doubt.code for doubt in profile_of(dense, raw_of(run_of(*events), latency_ms=0.175)).doubts]
    assert reasons == [doubts.UNSEEN, doubts.PROFILING]


def test_other_signature_is_mapped_to_its_own_subgraph(tmp_path: Path) -> None:
    path = tmp_path / "m.tflite"
    path.write_bytes(two_signatures())
    graph = read_graph(path)
    signature = graph.signature("multiply")
    assert signature is not None
    index = signature.subgraph
    raw = raw_of(run_of(invoke(100, index), kernel("Multiply", 0, 50, index), kernel("Add", 1, 40, index)))
    found = profile_of(graph, raw, workload=Workload("multiply"))
    assert [(op.op, op.mapped) for op in found.operators] == [("MUL", "exact"), ("ADD", "exact")]


def test_run_without_any_time_gives_no_error(dense: Graph) -> None:
    found = profile_of(
        dense, raw_of(run_of(invoke(0), kernel("Fully Connected", 0, 0), kernel("Softmax", 1, 0))), PEAKS
    )
    assert found.coverage == 0.0


def test_same_input_gives_the_same_profile(dense: Graph) -> None:
    raw = raw_of(run_of(invoke(200), kernel("Fully Connected", 0, 100), kernel("Softmax", 1, 50)))
    assert profile_of(dense, raw, PEAKS) == profile_of(dense, raw, PEAKS)


def test_kinds_add_up(chain: Graph) -> None:
    raw = raw_of(
        run_of(invoke(300), kernel("Convolution", 0, 100), operator("TANH", 1, 80), kernel("Convolution", 0, 110))
    )
    kinds = profile_of(chain, raw).by_kind()
    assert [(kind.op, kind.count) for kind in kinds] == [("CONV_2D", 2), ("TANH", 1)]
    assert kinds[0].ms == pytest.approx(0.211)
    assert kinds[0].macs == 2 * 8 * 8 * 2 * 2 * 9
