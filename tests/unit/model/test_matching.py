"""Nodes of two graphs that do the same work, whatever a quantizer did to names and order."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.example_models import mobilenet_like
from tests.model_builder import ModelBuilder

from hasten.model.graph import Node, Subgraph, Tensor
from hasten.model.matching import Certainty, Feeder, Feeders, match_nodes
from hasten.model.reader import read_graph

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


def chain(ops: Sequence[str], names: Sequence[str] | None = None) -> Subgraph:
    """Operators in a row; `names` are those of their outputs."""
    names = names or [f"layer_{position}" for position in range(len(ops))]
    tensors = [tensor(0, "input"), *(tensor(at + 1, name) for at, name in enumerate(names))]
    nodes = [Node(at, op, None, 1, (at,), (at + 1,), {}) for at, op in enumerate(ops)]
    return Subgraph(0, "main", tuple(tensors), tuple(nodes), (0,), (len(ops),))


def tensor(index: int, name: str) -> Tensor:
    return Tensor(
        index,
        name,
        (1, 4),
        (1, 4),
        "float32",
        None,
        is_constant=False,
        is_variable=False,
        is_sparse=False,
        is_unranked=False,
        buffer_bytes=0,
        buffer_offset=None,
    )


def pairs(before: Subgraph, after: Subgraph) -> list[tuple[int | None, int | None, str]]:
    return [(match.before, match.after, match.certainty.value) for match in match_nodes(before, after)]


def main_graph(data: bytes, path: Path) -> Subgraph:
    path.write_bytes(data)
    return read_graph(path).main


def test_the_same_names_are_exact() -> None:
    graph = chain(["CONV_2D", "RELU", "CONV_2D"])
    assert pairs(graph, graph) == [(0, 0, "exact"), (1, 1, "exact"), (2, 2, "exact")]


def test_conversions_that_were_put_in_have_no_counterpart() -> None:
    before = chain(["CONV_2D", "TANH"], ["a", "b"])
    after = chain(["QUANTIZE", "CONV_2D", "DEQUANTIZE", "TANH"], ["input_q", "a", "a_float", "b"])
    assert pairs(before, after) == [(None, 0, "none"), (0, 1, "exact"), (None, 2, "none"), (1, 3, "exact")]


def test_an_output_name_that_went_to_a_conversion_is_not_taken_for_the_node() -> None:
    before = chain(["CONV_2D", "SOFTMAX"], ["a", "y"])
    after = chain(["CONV_2D", "SOFTMAX", "DEQUANTIZE"], ["a", "y1", "y"])
    assert pairs(before, after) == [(0, 0, "exact"), (1, 1, "likely"), (None, 2, "none")]


def test_without_names_the_order_decides_and_says_so() -> None:
    before = chain(["CONV_2D", "ADD", "CONV_2D", "SOFTMAX"], ["a", "b", "c", "d"])
    after = chain(["CONV_2D", "QUANTIZE", "CONV_2D", "SOFTMAX"], ["1", "2", "3", "4"])
    assert pairs(before, after) == [
        (0, 0, "likely"),
        (None, 1, "none"),
        (1, None, "none"),
        (2, 2, "likely"),
        (3, 3, "likely"),
    ]


def test_numbered_names_that_moved_on_are_not_believed(tmp_path: Path) -> None:
    """With half-precision weights a DEQUANTIZE stands before each layer, and `conv_2d_3` is the second layer."""

    def drawn(weights: str) -> Subgraph:
        g = ModelBuilder(weights=weights)
        y = g.input("x", (1, 8, 8, 4))
        for _ in range(6):
            y = g.conv2d(y, 4, 3)
        g.output(y, "y")
        return main_graph(g.build(), tmp_path / f"{weights}.tflite")

    matches = match_nodes(drawn("float32"), drawn("float16"))
    layers = [(match.before, match.after) for match in matches if match.op == "CONV_2D"]
    assert layers == [(layer, 2 * layer + 1) for layer in range(6)]
    assert {match.certainty for match in matches if match.op == "DEQUANTIZE"} == {Certainty.NONE}


def test_a_quantized_network_matches_its_float_original(tmp_path: Path) -> None:
    before = main_graph(mobilenet_like(), tmp_path / "float.tflite")
    after = main_graph(mobilenet_like(dtype="int8"), tmp_path / "int8.tflite")
    matches = match_nodes(before, after)
    assert {match.certainty for match in matches} == {Certainty.EXACT}
    assert [match.before for match in matches] == [match.after for match in matches]


def test_feeders_look_through_conversions() -> None:
    feeders = Feeders(chain(["CONV_2D", "QUANTIZE", "DEQUANTIZE", "TANH"]))
    assert feeders.of(0) == [Feeder(None, 0)]
    assert feeders.of(3) == [Feeder(0)]


OPERATORS = st.lists(st.sampled_from(["CONV_2D", "ADD", "RELU", "QUANTIZE", "DEQUANTIZE"]), max_size=12)


@given(OPERATORS, OPERATORS, st.randoms(use_true_random=False))
def test_every_node_of_both_graphs_appears_once(first: list[str], second: list[str], random: object) -> None:
    names = [f"n{number % 5}" for number in range(12)]
    random.shuffle(names)  # type: ignore[attr-defined]
    before, after = chain(first, names[: len(first)]), chain(second, names[: len(second)])
    matches = match_nodes(before, after)
    assert sorted(m.before for m in matches if m.before is not None) == list(range(len(first)))
    assert [m.after for m in matches if m.after is not None] == list(range(len(second)))
    for match in matches:
        if match.before is not None and match.after is not None:
            assert before.nodes[match.before].op == after.nodes[match.after].op


@pytest.mark.parametrize("ops", [[], ["ADD"]])
def test_a_graph_against_nothing(ops: list[str]) -> None:
    assert pairs(chain(ops), chain([])) == [(index, None, "none") for index in range(len(ops))]
