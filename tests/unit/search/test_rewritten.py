"""The rewritten model of a tuning: made once, only if its outputs are the original's, and found again later."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hasten.core.floor import FloorState
from hasten.core.trial import REWRITTEN, Status
from hasten.model.reader import read_graph
from hasten.rewrites.dead_code import DUPLICATES
from hasten.rewrites.rewrite import ROUNDING, Change, Rewrite
from hasten.search import variant_store
from hasten.search.variant_store import VariantRequest
from tests.model_builder import ModelBuilder
from tests.unit.search.searching import store

if TYPE_CHECKING:
    from hasten.model.edit.graph import EditedGraph


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """The same twice, of two inputs whose names are not in the order of the file."""
    g = ModelBuilder()
    z, a = g.input("z", (-1, 8)), g.input("a", (-1, 8))
    g.output(g.sub(g.add(g.tanh(z), g.tanh(z)), a), "y")
    return g.write(tmp_path / "m.tflite")


def spoil(graph: EditedGraph) -> list[Change]:
    """A wrong rewrite: another function."""
    wrong = [operator for operator in graph.operators if graph.is_op(operator, "TANH")]
    for operator in wrong:
        graph.turn_into(operator, "LOGISTIC", operator.inputs)
    return [Change(operator.nodes) for operator in wrong]


SPOIL = Rewrite("spoil", spoil, ROUNDING)


def test_it_is_made_once_and_found_again(model: Path, tmp_path: Path) -> None:
    work = store(model, tmp_path / "out")
    made = work.rewritten()
    assert made is not None
    assert (made.variant, made.status) == (REWRITTEN, Status.MADE)
    assert made.notes[0].facts["rewrites"] == ["duplicates"]
    assert [node.op for node in read_graph(Path(made.path)).main.nodes] == ["TANH", "ADD", "SUB"]
    work.build_on(made)
    assert work.source is made
    assert work._name_of(VariantRequest("static_int8")) == "static_int8_rewritten"
    work.close()
    later = store(model, tmp_path / "out")
    again = later.rewritten()
    later.close()
    assert again is not None
    assert again.sha256 == made.sha256


def test_one_whose_outputs_differ_has_failed_and_leaves_no_file(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(variant_store, "REWRITES", (SPOIL,))
    work = store(model, tmp_path / "out")
    made = work.rewritten()
    assert made is not None
    assert (made.floor, made.why.code, made.path) == (FloorState.FAILED, "operators.not-equal", "")
    assert not work.folder.place_of(REWRITTEN).exists()
    assert work.rewritten() is made
    work.close()


def test_what_keeps_every_bit_is_the_second_try(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(variant_store, "REWRITES", (SPOIL, DUPLICATES))
    work = store(model, tmp_path / "out")
    made = work.rewritten()
    work.close()
    assert made is not None
    assert made.floor is not FloorState.FAILED
    assert made.notes[0].facts["rewrites"] == ["duplicates"]


def test_other_nodes_of_the_rewritten_graph_make_another_variant(model: Path, tmp_path: Path) -> None:
    work = store(model, tmp_path / "out")
    made = work.rewritten()
    assert made is not None
    work.build_on(made)
    names = []
    for nodes in ((0,), (1,), (0,)):
        names.append(work._name_of(VariantRequest("static_int8", nodes)))
        work.folder.variants[names[-1]] = replace(made, variant=names[-1], source=REWRITTEN, float_nodes=nodes)
    work.close()
    assert names == ["int8+float1_rewritten", "int8+float1-2_rewritten", "int8+float1_rewritten"]


def test_a_graph_with_nothing_to_rewrite_has_none(tmp_path: Path) -> None:
    g = ModelBuilder()
    g.output(g.tanh(g.input("x", (1, 8))), "y")
    work = store(g.write(tmp_path / "m.tflite"), tmp_path / "out")
    assert work.rewritten() is None
    work.close()
