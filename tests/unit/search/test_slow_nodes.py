"""What nodes gain by integers, and the variant that leaves the losers float: by known profiles, and on the demo."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from hasten.api import Data, Effort, SearchSettings, quantize
from hasten.core.comparison import Comparison, Verdict
from hasten.core.floor import FloorState
from hasten.core.goal import Goal
from hasten.core.plan import Plan
from hasten.core.trial import Purpose, Trial
from hasten.demo import CALIBRATION, DATA, MODEL
from hasten.explanation.facts import Change, NodeRow
from hasten.explanation.node_gains import Gains, NodeGain, gains_from_rows
from hasten.model.matching import Certainty
from hasten.model.reader import read_graph
from hasten.practices.quantize.rules import with_slow_nodes
from hasten.practices.quantize.words import BOOK
from hasten.search import variant_store
from hasten.search.quantizing import QuantizeSearch, kernel_note
from tests.example_models import mobilenet_like
from tests.unit.search.searching import store

if TYPE_CHECKING:
    from pathlib import Path


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


def variant(name: str, ratio: float, floor: FloorState = FloorState.KEPT) -> Trial:
    against = Comparison(Verdict.SAME, ratio, (ratio, ratio), 0.01, 5)
    return Trial(name, recipe=name, path=f"{name}.tflite", size_bytes=500, floor=floor, against=against)


def test_the_static_int8_variant_that_keeps_the_floor_is_improved_on() -> None:
    trials = [variant("float16", 0.5), variant("static_int8", 0.6, FloorState.BROKEN), variant("static_int8_mse", 0.9)]
    found = with_slow_nodes(trials)
    assert found is not None
    assert found.variant == "static_int8_mse"
    assert with_slow_nodes([variant("static_int16", 0.5), variant("static_int8", 0.5, FloorState.FAILED)]) is None


def test_who_asks_for_size_gets_no_larger_variant_and_waits_for_no_profile() -> None:
    profiled: list[Trial] = []

    def profile(trial: Trial, plan: object) -> tuple[int, ...]:
        profiled.append(trial)
        return ()

    class Search(QuantizeSearch):
        def __init__(self, goal: Goal) -> None:
            int8 = variant("static_int8", 0.9)
            self.store: Any = SimpleNamespace(
                settings=SimpleNamespace(goal=goal),
                folder=SimpleNamespace(variants={int8.variant: int8}),
                candidate=SimpleNamespace(plan=None),
                slow_nodes=profile,
                gains_of=lambda trial, plan: None,
            )

    Search(Goal.SIZE)._leave_slow_nodes()
    assert profiled == []
    Search(Goal.LATENCY)._leave_slow_nodes()
    assert [trial.variant for trial in profiled] == ["static_int8"]


def test_a_look_that_failed_is_repeated_and_one_that_succeeded_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "m.tflite").write_bytes(mobilenet_like(8, 1, 16))
    known = Gains({3: NodeGain(3, "CONV_2D", -0.1, True, 0.0, "GEMM", "built-in kernel")}, 1.0)
    answers = [None, known]
    monkeypatch.setattr(variant_store, "measure_gains", lambda *_: answers.pop(0))
    work = store(tmp_path / "m.tflite", tmp_path / "out")
    trial = replace(work.original, variant="static_int8", nodes=(2, 3))
    assert [work.slow_nodes(trial, Plan()) for _ in range(3)] == [(), ((3,),), ((3,),)]
    work.close()


def gain(node: int, saved_ms: float, *, is_sure: bool = True) -> NodeGain:
    return NodeGain(node, "CONV_2D", saved_ms, is_sure, 0.0, "GEMM", "GEMM")


def test_a_race_decides_whether_nodes_that_hardly_lose_stay_in_float() -> None:
    """A loss of 0.3 % of a run is seen in one profile and not in the next; the better set is among both answers."""
    sure, weak, hardly = [gain(0, -0.05), gain(9, -0.014)], gain(11, -0.005), gain(5, -0.003)
    assert Gains({one.node: one for one in (*sure, weak, hardly)}, 1.0).loss_sets == ((0, 9), (0, 9, 11), (0, 5, 9, 11))
    assert Gains({one.node: one for one in (*sure, weak)}, 1.0).loss_sets == ((0, 9), (0, 9, 11))
    assert Gains({one.node: one for one in sure}, 1.0).loss_sets == ((0, 9),)
    assert Gains({5: hardly}, 1.0).loss_sets == ((5,),)
    assert Gains({1: gain(1, 0.2)}, 1.0).loss_sets == ()


def test_nodes_that_seem_to_lose_much_race_although_a_noisy_machine_leaves_it_open() -> None:
    """Eight nodes took 60 % of a run more, none of them surely, and the fastest variant was never made."""
    unsure = [gain(node, -0.075, is_sure=False) for node in range(8)]
    hardly = gain(8, -0.005, is_sure=False)
    assert Gains({one.node: one for one in (*unsure, hardly)}, 1.0).loss_sets == (tuple(range(8)),)
    found = Gains({one.node: one for one in (*unsure, gain(9, -0.2), gain(10, -0.004))}, 1.0)
    assert found.loss_sets == ((9,), (*range(8), 9), (9, 10))


def test_nodes_that_leave_the_delegate_race_whatever_conversions_seem_to_cost() -> None:
    """That is guessed from those at the ends of a model, and was ten times too much."""
    losing = [NodeGain(node, "HARD_SWISH", -0.148, False, 0.150, "HardSwish", "built-in kernel") for node in range(8)]
    within = NodeGain(8, "DEPTHWISE_CONV_2D", -0.019, True, 0.127, "DWConv", "DWConv")
    never = NodeGain(9, "CUSTOM", -0.2, True, 0.3, "built-in kernel", "built-in kernel")
    found = Gains({one.node: one for one in (*losing, within, never)}, 1.25)
    assert found.loss_sets == (tuple(range(8)),)


def test_few_sets_are_raced_however_many_nodes_hardly_lose() -> None:
    found = Gains({node: gain(node, -0.001 * (node + 1)) for node in range(9)}, 1.0)
    assert found.loss_sets == ((2, 3, 4, 5, 6, 7, 8), (1, 2, 3, 4, 5, 6, 7, 8), tuple(range(9)))


def test_pruned_layers_on_the_same_kernels_are_told_from_others() -> None:
    same = NodeGain(0, "CONV_2D", 0.0, False, 0.0, "GEMM", "GEMM")
    other = NodeGain(1, "FULLY_CONNECTED", 0.1, True, 0.0, "GEMM", "built-in kernel")
    assert "no sparse kernel is used" in BOOK.text(kernel_note([same]))
    assert kernel_note([same, other]).facts == {"pruned": 2, "other": 1, "kernels": ["built-in kernel"]}


@pytest.mark.slow
def test_hard_swish_of_the_demo_is_left_float_and_that_makes_it_faster(tmp_path: Path) -> None:
    """On a CPU whose delegate takes it in int8 there may be nothing to leave: then there is no such variant."""
    data, settings = Data(str(DATA), str(CALIBRATION)), SearchSettings(recipes=("static_int8",))
    found = quantize(MODEL, tmp_path / "out", data=data, settings=settings, effort=Effort(20.0))
    static = next(trial for trial in found.trials if trial.variant == "static_int8")
    slow = [trial for trial in found.trials if trial.purpose is Purpose.SLOW_NODES]
    if not slow:
        pytest.skip("no node is slower in int8 on this machine")
    assert slow[0].against is not None
    assert static.against is not None
    assert slow[0].against.ratio < static.against.ratio
    graph = read_graph(MODEL).main
    assert {graph.nodes[node].op for node in slow[0].float_nodes} & {"HARD_SWISH"}
