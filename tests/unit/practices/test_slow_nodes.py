"""What nodes gain by integers, and the variant that leaves the losers float: by known profiles, and on the demo."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from hasten.core.comparison import Comparison, Verdict
from hasten.core.quantization import BROKEN, FAILED, KEPT, SIZE, VariantRow
from hasten.demo import CALIBRATION, DATA, MODEL
from hasten.explain.facts import Change, NodeRow
from hasten.explain.node_gains import Gains, NodeGain, gains_from_rows
from hasten.library import quantize
from hasten.model.example_models import mobilenet_like
from hasten.model.matching import Certainty
from hasten.model.reader import read_graph
from hasten.practices.pruned_variants import kernel_note
from hasten.practices.quantize_records import QuantizeSettings
from hasten.practices.slow_nodes import leave_slow_nodes, subject_of

if TYPE_CHECKING:
    from pathlib import Path

    from hasten.practices.quantize.run import QuantizePractice


def row(node: int, before: float, after: float, spread: float = 0.001, *, op: str = "CONV_2D") -> NodeRow:
    change = after - before
    changed = Change(change, change - spread, change + spread)
    return NodeRow(
        node,
        node,
        Certainty.EXACT,
        op,
        ms_before=before,
        ms_after=after,
        change_ms=changed,
        kernel_before="float kernel",
        kernel_after="int8 kernel",
    )


def test_a_node_is_a_loss_if_surely_slower_by_more_than_its_conversions(tmp_path: Path) -> None:
    (tmp_path / "m.tflite").write_bytes(mobilenet_like(8, 1, 16))
    graph = read_graph(tmp_path / "m.tflite").main
    rows = [row(0, 1.0, 0.4), row(1, 1.0, 1.5), row(2, 1.0, 1.5, spread=1.0), row(3, 1.0, 1.0001, spread=0.00001)]
    values = sum(graph.tensors[index].elements or 0 for index in graph.nodes[4].outputs)
    # A millionth of a millisecond for each value.
    rows.append(NodeRow(None, 4, Certainty.NONE, "QUANTIZE", ms_after=values * 1e-6, kernel_after="Convert"))
    found = Gains(gains_from_rows(rows, graph, graph), 4.0)
    assert found.losses == (1,)
    assert found.nodes[0].saved_ms == pytest.approx(0.6)
    assert found.nodes[0].conversions_ms > 0
    shares = found.shares()
    assert shares[0] == pytest.approx((0.6 + found.nodes[0].conversions_ms) / 4)
    assert shares[1] == 0


def test_a_node_in_noise_counts_where_its_kind_surely_lost(tmp_path: Path) -> None:
    (tmp_path / "m.tflite").write_bytes(mobilenet_like(8, 1, 16))
    graph = read_graph(tmp_path / "m.tflite").main
    rows = [row(1, 1.0, 1.5, spread=1.0), row(2, 1.0, 0.9, spread=1.0)]
    assert Gains(gains_from_rows(rows, graph, graph), 4.0).losses == ()
    assert Gains(gains_from_rows(rows, graph, graph, {1, 2}), 4.0).losses == (1,)


def variant(name: str, ratio: float, floor: str = KEPT) -> VariantRow:
    against = Comparison(Verdict.SAME, ratio, (ratio, ratio), 0.01, 5)
    return VariantRow(name, f"{name}.tflite", "bb", 500, 400, floor, against=against)


def test_the_static_int8_variant_that_keeps_the_floor_is_improved_on() -> None:
    rows = [variant("float16", 0.5), variant("static_int8", 0.6, BROKEN), variant("static_int8_mse", 0.9)]
    found = subject_of(rows)
    assert found is not None
    assert found.recipe == "static_int8_mse"
    assert subject_of([variant("static_int16", 0.5), variant("static_int8", 0.5, FAILED)]) is None


def test_who_asks_for_size_gets_no_larger_variant_and_waits_for_no_profile() -> None:
    practice = SimpleNamespace(settings=QuantizeSettings(goal=SIZE), rows=[variant("static_int8", 0.9)])
    leave_slow_nodes(cast("QuantizePractice", practice))  # it would profile with a target that is not there


def test_pruned_layers_on_the_same_kernels_are_told_from_others() -> None:
    same = NodeGain(0, "CONV_2D", 0.0, False, 0.0, "GEMM", "GEMM")
    other = NodeGain(1, "FULLY_CONNECTED", 0.1, True, 0.0, "GEMM", "built-in kernel")
    assert "no sparse path is taken" in kernel_note([same])
    assert kernel_note([same, other]) == "1 of its 2 pruned layers have other kernels than before (built-in kernel)"


@pytest.mark.slow
def test_hard_swish_of_the_demo_is_left_float_and_that_makes_it_faster(tmp_path: Path) -> None:
    """On a CPU whose delegate takes it in int8 there may be nothing to leave: then there is no such row."""
    settings = QuantizeSettings(recipes=("static_int8",), seconds=20.0)
    found = quantize(MODEL, tmp_path / "out", data=str(DATA), calibration=str(CALIBRATION), settings=settings)
    static = next(row for row in found.rows if row.recipe == "static_int8")
    slow = [row for row in found.rows if "_but_slow_" in row.recipe]
    if not slow:
        pytest.skip("no node is slower in int8 on this machine")
    assert slow[0].against is not None
    assert static.against is not None
    assert slow[0].against.ratio < static.against.ratio
    graph = read_graph(MODEL).main
    assert {graph.nodes[node].op for node in slow[0].float_nodes} & {"HARD_SWISH"}
