"""LiteRT's partitioning, worked out again: every node once, in an order that can run, as few turns as possible."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.model_builder import ModelBuilder

from hasten.measure.profile_mapping import partition_graph
from hasten.model.graph import Node, Subgraph
from hasten.model.reader import read_graph

if TYPE_CHECKING:
    from pathlib import Path

Edges = list[set[int]]


def subgraph_of(before: Edges) -> Subgraph:
    """A graph whose node i reads the outputs of the nodes in `before[i]`; tensor 100 + i is its output."""
    nodes = tuple(
        Node(index, "ADD", None, 1, (0, -1, *(100 + other for other in sorted(others))), (100 + index,), {})
        for index, others in enumerate(before)
    )
    return Subgraph(0, "main", (), nodes, (0,), ())


@st.composite
def graphs(draw: st.DrawFn) -> tuple[Edges, set[int]]:
    """A random graph in execution order, and the nodes that the delegate left."""
    size = draw(st.integers(1, 9))
    before = [set(draw(st.sets(st.integers(0, index - 1), max_size=3))) if index else set() for index in range(size)]
    return before, draw(st.sets(st.integers(0, size - 1)))


@settings(deadline=None)
@given(graphs())
def test_every_node_once_in_an_order_that_can_run(case: tuple[Edges, set[int]]) -> None:
    before, left = case
    partitions = partition_graph(subgraph_of(before), left)
    order = [node for _, nodes in partitions for node in nodes]
    assert sorted(order) == list(range(len(before)))
    done: set[int] = set()
    for node in order:
        assert before[node] <= done
        done.add(node)


@settings(deadline=None)
@given(graphs())
def test_kinds_alternate_and_fit_their_nodes(case: tuple[Edges, set[int]]) -> None:
    before, left = case
    partitions = partition_graph(subgraph_of(before), left)
    assert all(one[0] != other[0] for one, other in itertools.pairwise(partitions))
    for delegated, nodes in partitions:
        assert all((node not in left) == delegated for node in nodes)


@settings(deadline=None)
@given(graphs())
def test_each_partition_takes_all_that_is_ready(case: tuple[Edges, set[int]]) -> None:
    """The rule itself, by reasoning: a node waits only for a turn of the other kind."""
    before, left = case
    depth: dict[int, int] = {}
    partitions = partition_graph(subgraph_of(before), left)
    for turn, (_, nodes) in enumerate(partitions):
        depth.update(dict.fromkeys(nodes, turn))
    first_kind = partitions[0][0]
    for node, others in enumerate(before):
        kind = node not in left
        earliest = 0 if kind == first_kind else 1
        for other in others:
            earliest = max(earliest, depth[other] + (0 if (other not in left) == kind else 1))
        assert depth[node] == earliest


def test_operator_in_the_middle_makes_two_delegated_parts() -> None:
    found = partition_graph(subgraph_of([set(), {0}, {1}, {2}]), {2})
    assert found == [(True, (0, 1)), (False, (2,)), (True, (3,))]


def test_branch_beside_the_operator_runs_with_the_first_part() -> None:
    found = partition_graph(subgraph_of([set(), {0}, {0}, {1, 2}]), {1})
    assert found == [(True, (0, 2)), (False, (1,)), (True, (3,))]


def test_all_or_nothing() -> None:
    before: Edges = [set(), {0}, {1}]
    assert partition_graph(subgraph_of(before), set()) == [(True, (0, 1, 2))]
    assert partition_graph(subgraph_of(before), {0, 1, 2}) == [(False, (0, 1, 2))]
    assert partition_graph(subgraph_of([]), set()) == []


def test_nodes_that_wait_for_each_other_are_left_out_and_nothing_hangs() -> None:
    assert partition_graph(subgraph_of([{1}, {0}]), set()) == []


def test_optional_outputs_left_out_block_nobody() -> None:
    first = Node(0, "ADD", None, 1, (0,), (100, -1), {})
    second = Node(1, "ADD", None, 1, (100, -1), (101,), {})
    found = partition_graph(Subgraph(0, "main", (), (first, second), (0,), ()), set())
    assert found == [(True, (0, 1))]


def test_long_chain_is_quick() -> None:
    size = 3000
    found = partition_graph(subgraph_of([{i - 1} if i else set() for i in range(size)]), set(range(0, size, 500)))
    assert sum(len(nodes) for _, nodes in found) == size


def test_nodes_that_touch_variables_keep_their_order(tmp_path: Path) -> None:
    """As seen on a wake-word model: a second read waits for the write before it, and what computes with it as well."""
    g = ModelBuilder()
    x, first, second = g.input("x", (1, 4)), g.variable("a"), g.variable("b")
    total = g.add(x, g.read_variable(first, (1, 4)))
    g.assign_variable(first, total)
    g.output(g.mul(total, g.read_variable(second, (1, 4))), "y")
    graph = read_graph(g.write(tmp_path / "m.tflite")).main
    left = {node.index for node in graph.nodes if node.op not in ("ADD", "MUL")}
    taken = [
        [graph.nodes[index].op for index in nodes] for delegated, nodes in partition_graph(graph, left) if delegated
    ]
    assert taken == [["ADD"], ["MUL"]]
