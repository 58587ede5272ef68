"""What delegates refuse, by their rules: each rule on a node that breaks it, and none on nodes that keep all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from hasten.core.placement import XNNPACK, Partition, Placement
from hasten.model.build_bytes import Quantization
from hasten.model.build_graph import Spec
from hasten.model.reader import names_of, read_graph
from hasten.practices.help.facts import Status
from hasten.practices.help.model_checks.delegates.fit import DELEGATES, fit_by_rules, fit_observed
from hasten.practices.help.model_checks.delegates.gpu import GPU
from hasten.practices.help.model_checks.delegates.hexagon import HEXAGON
from hasten.practices.help.model_checks.delegates.nnapi import NNAPI
from hasten.practices.help.model_checks.delegates.xnnpack import XNNPACK_RULES
from hasten.practices.help.model_checks.rules import delegate_check
from hasten.practices.help.words import BOOK
from tests import example_models
from tests.model_builder import ModelBuilder
from tests.unit.practices.help import planted

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from hasten.model.build_graph import Value
    from hasten.model.graph import Graph
    from hasten.practices.help.model_checks.delegates.rule import Delegate


def drawn(folder: Path, draw: Callable[[ModelBuilder], Value]) -> Graph:
    g = ModelBuilder()
    g.output(draw(g), "y")
    return read_graph(g.write(folder / "m.tflite"))


def codes(graph: Graph, delegate: Delegate) -> dict[str, str]:
    """The code of the refusal of each kind of operator."""
    return {row.op: row.why.code for row in fit_by_rules(graph, delegate).refusals}


@pytest.mark.parametrize("delegate", DELEGATES, ids=lambda delegate: delegate.name)
def test_tables_name_operators_of_the_schema_only(delegate: Delegate) -> None:
    from ai_edge_litert import schema_py_generated as schema

    known = set(names_of(schema.BuiltinOperator).values())
    assert set(delegate.operators) - known == set()
    assert delegate.source


@pytest.mark.parametrize("delegate", [XNNPACK_RULES, GPU, NNAPI], ids=lambda delegate: delegate.name)
@pytest.mark.parametrize("name", sorted(planted.clean()))
def test_usual_float_networks_are_taken_whole(delegate: Delegate, name: str, tmp_path: Path) -> None:
    fit = fit_by_rules(read_graph(planted.written(tmp_path, planted.clean()[name])), delegate)
    assert fit.refusals == ()
    assert (fit.taken, fit.partitions, fit.taken_macs) == (fit.total, 1, 1.0)
    assert delegate_check(fit).status is Status.GOOD


def test_hexagon_wants_integers(tmp_path: Path) -> None:
    floats = fit_by_rules(read_graph(planted.written(tmp_path, example_models.mobilenet_like())), HEXAGON)
    assert floats.wants_integers
    assert delegate_check(floats).status is Status.NOT_APPLICABLE
    integers = read_graph(planted.written(tmp_path, example_models.mobilenet_like(dtype="int8")))
    fit = fit_by_rules(integers, HEXAGON)
    assert not fit.wants_integers
    assert "CONV_2D" not in {row.op for row in fit.refusals}


CASES: dict[str, tuple[Callable[[ModelBuilder], Value], Delegate, str, str]] = {
    "gpu: running sum of integers": (
        lambda g: g.operator(
            "CUMSUM", [g.input("x", (1, 4), "int32"), g.constant(np.array([1], np.int32))], [Spec((1, 4), "int32")]
        )[0],
        GPU,
        "CUMSUM",
        "refused.type",
    ),
    "gpu: cast to int64": (lambda g: g.cast(g.input("x", (1, 4)), "int64"), GPU, "CAST", "refused.cast"),
    "gpu: slice of two dimensions": (
        lambda g: g.operator(
            "SLICE",
            [g.input("x", (4, 4)), g.constant(np.array([0, 0], np.int32)), g.constant(np.array([2, 2], np.int32))],
            [Spec((2, 2))],
            options_type="SliceOptions",
        )[0],
        GPU,
        "SLICE",
        "refused.rank",
    ),
    "gpu: softmax with beta": (
        lambda g: g.operator(
            "SOFTMAX", [g.input("x", (1, 4))], [Spec((1, 4))], options_type="SoftmaxOptions", beta=2.0
        )[0],
        GPU,
        "SOFTMAX",
        "refused.option",
    ),
    "gpu: paddings of two dimensions": (
        lambda g: g.pad(g.input("x", (4, 4)), [(1, 1), (0, 0)]),
        GPU,
        "PAD",
        "refused.rank",
    ),
    "xnnpack: integers": (
        lambda g: g.add(g.input("a", (1, 4), "int32"), g.input("b", (1, 4), "int32")),
        XNNPACK_RULES,
        "ADD",
        "refused.type",
    ),
    "xnnpack: 8 bits without a scale": (
        lambda g: g.operator("ADD", [x := g.input("x", (1, 4), "int8"), x], [Spec((1, 4), "int8")])[0],
        XNNPACK_RULES,
        "ADD",
        "refused.unscaled",
    ),
    "xnnpack: no such operator": (
        lambda g: g.operator("FLOOR_MOD", [g.input("a", (1, 4)), g.input("b", (1, 4))], [Spec((1, 4))])[0],
        XNNPACK_RULES,
        "FLOOR_MOD",
        "refused.operator",
    ),
    "xnnpack: an average of 8 bits": (
        lambda g: g.average_pool2d(g.input("x", (1, 4, 4, 2), "int8", scale=0.1)),
        XNNPACK_RULES,
        "AVERAGE_POOL_2D",
        "refused.type",
    ),
    "xnnpack: from signed to unsigned": (
        lambda g: g.operator(
            "QUANTIZE", [g.input("x", (1, 4), "int8", scale=0.1)], [Spec((1, 4), "uint8", Quantization((0.1,), (128,)))]
        )[0],
        XNNPACK_RULES,
        "QUANTIZE",
        "refused.cast",
    ),
    "nnapi: too new a version": (
        lambda g: g.operator("TANH", [g.input("x", (1, 4))], [Spec((1, 4))], version=3)[0],
        NNAPI,
        "TANH",
        "refused.version",
    ),
    "nnapi: five dimensions": (
        lambda g: g.add(g.input("a", (1, 2, 2, 2, 2)), g.input("b", (1, 2, 2, 2, 2))),
        NNAPI,
        "ADD",
        "refused.rank",
    ),
    "hexagon: wide strides": (
        lambda g: g.conv2d(g.input("x", (1, 16, 16, 4), "int8", scale=0.1), 4, 5, 4),
        HEXAGON,
        "CONV_2D",
        "refused.option-large",
    ),
    "hexagon: filters of five": (
        lambda g: g.depthwise_conv2d(g.input("x", (1, 16, 16, 4), "int8", scale=0.1), 5),
        HEXAGON,
        "DEPTHWISE_CONV_2D",
        "refused.filter",
    ),
    "a custom operator": (lambda g: g.custom("Mine", [g.input("x", (1, 4))], (1, 4)), GPU, "Mine", "refused.custom"),
}


@pytest.mark.parametrize("name", CASES)
def test_each_rule_refuses_what_breaks_it_and_says_why(name: str, tmp_path: Path) -> None:
    draw, delegate, op, code = CASES[name]
    graph = drawn(tmp_path, draw)
    assert codes(graph, delegate) == {op: code}
    check = delegate_check(fit_by_rules(graph, delegate))
    assert check.status is Status.BETTER
    assert op in BOOK.text(check.finding)
    assert BOOK.hint(check.finding)


def test_an_open_shape_is_refused_and_an_open_batch_is_not(tmp_path: Path) -> None:
    opened = read_graph(planted.written(tmp_path, example_models.open_image()))
    assert "refused.dynamic" in codes(opened, GPU).values()
    batch = read_graph(planted.written(tmp_path, example_models.dynamic_batch()))
    assert codes(batch, GPU) == {}


def test_a_refused_operator_in_the_middle_costs_a_partition(tmp_path: Path) -> None:
    def draw(g: ModelBuilder) -> Value:
        y = g.conv2d(g.input("x", (1, 8, 8, 3)), 4, 3)
        (odd,) = g.operator("FLOOR_DIV", [y, y], [Spec(y.shape)])
        return g.conv2d(odd, 4, 3)

    fit = fit_by_rules(drawn(tmp_path, draw), XNNPACK_RULES)
    assert (fit.taken, fit.total, fit.partitions) == (2, 3, 2)
    assert fit.taken_macs == 1.0
    assert [row.nodes for row in fit.refusals] == [(1,)]


def test_the_gpu_runs_the_largest_partition_only(tmp_path: Path) -> None:
    def draw(g: ModelBuilder) -> Value:
        y = g.conv2d(g.conv2d(g.input("x", (1, 8, 8, 3)), 4, 3), 4, 3)
        return g.tanh(g.custom("Mine", [y], y.shape))

    fit = fit_by_rules(drawn(tmp_path, draw), GPU)
    assert (fit.taken, fit.total, fit.partitions) == (2, 4, 1)
    assert {row.op: row.why.code for row in fit.refusals} == {"Mine": "refused.custom", "TANH": "refused.small-part"}


@pytest.mark.parametrize("delegate", [XNNPACK_RULES, GPU], ids=lambda delegate: delegate.name)
def test_weights_that_are_unpacked_count_as_constants(delegate: Delegate, tmp_path: Path) -> None:
    g = ModelBuilder(weights="float16")
    g.output(g.conv2d(g.input("x", (1, 8, 8, 3)), 4, 3), "y")
    graph = read_graph(g.write(tmp_path / "m.tflite"))
    assert {node.op for node in graph.main.nodes} == {"DEQUANTIZE", "CONV_2D"}
    assert fit_by_rules(graph, delegate).refusals == ()


def test_refusals_of_one_kind_for_one_reason_are_one(tmp_path: Path) -> None:
    def draw(g: ModelBuilder) -> Value:
        y = g.input("x", (1, 4))
        for _ in range(3):
            (y,) = g.operator("FLOOR_DIV", [y, y], [Spec((1, 4))])
        return y

    (row,) = fit_by_rules(drawn(tmp_path, draw), XNNPACK_RULES).refusals
    assert (row.op, row.nodes) == ("FLOOR_DIV", (0, 1, 2))


def test_what_was_observed_counts_more_than_the_rules(tmp_path: Path) -> None:
    graph = read_graph(planted.written(tmp_path, example_models.mobilenet_like()))
    last = graph.main.nodes[-1].index
    placement = Placement((Partition(XNNPACK, 0, tuple(range(last))),), ((0, last),))
    fit = fit_observed(graph, placement)
    assert (fit.observed, fit.taken, fit.total) == (True, last, last + 1)
    (row,) = fit.refusals
    assert row.why.code == "refused.observed"
    assert delegate_check(fit).status is Status.BETTER


def test_every_reason_has_a_phrase() -> None:
    samples: dict[str, dict[str, Any]] = {
        "refused.type": {"dtype": "int64", "allowed": ["int32"]},
        "refused.option": {"option": "beta", "value": 2.0, "allowed": [1.0]},
        "refused.rank": {"rank": 5, "allowed": [3, 4]},
        "refused.broadcast": {"first": [1], "second": [2, 3]},
        "refused.dynamic": {"shape": [1, -1]},
    }
    from hasten.core.remark import Remark

    for code, facts in samples.items():
        assert code not in BOOK.text(Remark(code, facts))
