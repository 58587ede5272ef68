"""Which operators are offered a kernel, and what the rewritten file holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from hasten.core.errors import UsageError
from hasten.custom_kernels.offer import Offer, encoded
from hasten.custom_kernels.rewrite import own_rewrites, user_rewrite
from hasten.engine.numba_kernels import ArrayType
from hasten.model.edit.model import EditedModel
from hasten.model.reader import read_graph
from hasten.rewrites.rewrite import apply
from tests.model_builder import ModelBuilder
from tests.unit.custom_kernels import kernel_models as models

if TYPE_CHECKING:
    from pathlib import Path

X = np.zeros((1, 4, 6, 2), np.float32)


@pytest.fixture
def sliced(tmp_path: Path) -> Path:
    path = tmp_path / "model.tflite"
    path.write_bytes(models.strided_slice(X, (0, 0, 0, 0), (1, 4, 6, 2), (1, 1, 2, 1), (1, 4, 3, 2)))
    return path


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(
            models.strided_slice(X, (0, 1, 0, 0), (1, 4, 6, 2), (1, 1, 1, 1), (1, 3, 6, 2)),
            id="a slice without strides",
        ),
        pytest.param(models.cumsum(X, 3, exclusive=False, reverse=False), id="a sum along the last axis"),
        pytest.param(models.arg_max(X, -1, "int32"), id="the last axis"),
        pytest.param(models.gather(X, np.array([0, 1], np.int32), constant=True, axis=1), id="rows"),
    ],
)
def test_what_litert_does_well_is_left_to_it(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "model.tflite"
    path.write_bytes(content)
    assert models.own_offers(path) == []


def test_a_rewritten_file_holds_constants_in_the_operator(sliced: Path, tmp_path: Path) -> None:
    (offer,) = models.own_offers(sliced)
    out = models.with_kernels(sliced, [offer], tmp_path / "out.tflite")
    graph = read_graph(out)
    (node,) = graph.main.nodes
    assert node.op == "CUSTOM"
    assert node.custom_code == offer.custom_code
    assert node.custom_code.startswith("hasten.strided_slice#")
    assert [graph.main.tensors[index].name for index in node.inputs] == ["x"]
    assert not any(tensor.is_constant for tensor in graph.main.tensors)


def test_equal_options_share_a_name_and_others_do_not() -> None:
    constant = {1: np.array([1, 2], np.int32)}
    same = [Offer("k", "ADD", (node,), (0,), (1,), encoded(b"1234", constant)) for node in (0, 1)]
    other = Offer("k", "ADD", (2,), (0,), (1,), encoded(b"1235", constant))
    assert same[0].custom_code == same[1].custom_code != other.custom_code
    assert Offer("k", "ADD", (0,), (0,), (1,)).custom_code == "k"


def test_own_kernels_are_rewrites(sliced: Path) -> None:
    model = EditedModel.read(sliced)
    rewrites = [kernel.rewrite for kernel in own_rewrites()]
    changes = apply(model, rewrites)
    assert {name: [change.nodes for change in found] for name, found in changes.items()} == {
        "kernel-strided-slice": [(0,)]
    }
    assert apply(model, rewrites) == {}, "a kernel is not replaced again"


@pytest.fixture
def chain(tmp_path: Path) -> Path:
    """MUL by a constant, ADD of an input, RELU6; then another MUL."""
    g = ModelBuilder()
    x, z = g.input("x", (1, 4)), g.input("z", (1, 4))
    scale = g.constant(np.arange(4, dtype=np.float32))
    y = g.relu6(g.add(g.mul(x, scale), z))
    g.output(g.mul(y, y), "y")
    path = tmp_path / "chain.tflite"
    path.write_bytes(g.build())
    return path


def test_nodes_are_named_by_operator_chain_or_number(chain: Path) -> None:
    assert [offer.nodes for offer in models.user_offers(chain, "k", "MUL")] == [(0,), (3,)]
    (by_chain,) = models.user_offers(chain, "k", "mul, add, relu6")
    (by_number,) = models.user_offers(chain, "k", "0:2")
    assert by_chain == by_number
    assert by_chain.replaces == "MUL,ADD,RELU6"
    graph = EditedModel.read(chain).main
    assert [graph.name(index) for index in by_chain.inputs] == ["x", "z"]


@pytest.mark.parametrize("replaces", ["TANH", "MUL,TANH", "9", "2:1", "0:9"])
def test_nodes_that_are_not_there(chain: Path, replaces: str) -> None:
    assert models.user_offers(chain, "k", replaces) == []


@pytest.mark.parametrize("replaces", ["", "3-5", "MUL;ADD", "../x"])
def test_a_text_that_names_nothing(chain: Path, replaces: str) -> None:
    with pytest.raises(UsageError, match="names no nodes"):
        models.user_offers(chain, "k", replaces)


def test_a_users_kernel_is_put_in_once(chain: Path) -> None:
    model = EditedModel.read(chain)
    rewrite = user_rewrite("k", "1").rewrite
    assert [change.nodes for change in apply(model, [rewrite])["kernel-k"]] == [(1,)]


def test_a_kernel_goes_where_its_types_fit(chain: Path) -> None:
    matrices, images = ([ArrayType("float32", rank)] * 2 for rank in (2, 4))
    assert [offer.nodes for offer in models.user_offers(chain, "k", "RELU6", matrices)] == [(2,)]
    assert models.user_offers(chain, "k", "RELU6", images) == []
