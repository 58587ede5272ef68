"""The rewritten models of a tuning: made once, only if its outputs are the original's, and found again later."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from hasten.core.codec import to_data
from hasten.core.floor import FloorState
from hasten.core.plan import Plan
from hasten.core.remark import remark
from hasten.core.trial import ORIGINAL, REWRITTEN, Purpose, Status, Trial
from hasten.model.build_graph import Spec
from hasten.model.reader import read_graph
from hasten.practices.operators.kernels import Kernels
from hasten.practices.registry import phrasebook
from hasten.rewrites.dead_code import DUPLICATES
from hasten.rewrites.rewrite import ROUNDING, Change, Rewrite
from hasten.search import rewriting
from hasten.search.confirming import Confirmation
from hasten.search.rewriting import KERNELS, Rewriter
from hasten.search.variant_store import VariantRequest
from hasten.search.words import BOOK
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
    made = Rewriter(work).rewritten(work.original)
    assert made is not None
    assert (made.variant, made.status) == (REWRITTEN, Status.MADE)
    assert made.notes[0].facts["rewrites"] == ["duplicates"]
    assert [node.op for node in read_graph(Path(made.path)).main.nodes] == ["TANH", "ADD", "SUB"]
    work.build_on(made)
    assert work.source is made
    assert work._name_of(VariantRequest("static_int8")) == "static_int8_rewritten"
    work.close()
    later = store(model, tmp_path / "out")
    again = Rewriter(later).rewritten(later.original)
    later.close()
    assert again is not None
    assert again.sha256 == made.sha256


def test_one_whose_outputs_differ_has_failed_and_leaves_no_file(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rewriting, "REWRITES", (SPOIL,))
    work = store(model, tmp_path / "out")
    made = Rewriter(work).rewritten(work.original)
    assert made is not None
    assert (made.floor, made.why.code, made.path) == (FloorState.FAILED, "operators.not-equal", "")
    assert not work.folder.place_of(REWRITTEN).exists()
    assert Rewriter(work).rewritten(work.original) is made
    work.close()


def test_what_keeps_every_bit_is_the_second_try(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rewriting, "REWRITES", (SPOIL, DUPLICATES))
    work = store(model, tmp_path / "out")
    made = Rewriter(work).rewritten(work.original)
    work.close()
    assert made is not None
    assert made.floor is not FloorState.FAILED
    assert made.notes[0].facts["rewrites"] == ["duplicates"]


def test_other_nodes_of_the_rewritten_graph_make_another_variant(model: Path, tmp_path: Path) -> None:
    work = store(model, tmp_path / "out")
    made = Rewriter(work).rewritten(work.original)
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
    assert Rewriter(work).rewritten(work.original) is None
    work.close()


def mirrored(path: Path, *, size: int = 64) -> Path:
    """A model with an operator that hasten has a kernel for."""
    g = ModelBuilder()
    x = g.input("x", (1, size, size, 4))
    paddings = g.constant(np.array([[0, 0], [1, 1], [1, 1], [0, 0]], np.int32))
    spec = Spec((1, size + 2, size + 2, 4))
    (padded,) = g.operator("MIRROR_PAD", [g.tanh(x), paddings], [spec], options_type="MirrorPadOptions", mode=0)
    g.output(padded, "y")
    return g.write(path)


def test_a_variant_is_rewritten_too_and_names_its_source(model: Path, tmp_path: Path) -> None:
    work = store(model, tmp_path / "out")
    variant = replace(work.original, variant="static_int8", recipe="static_int8", float_nodes=(3,))
    made = Rewriter(work).rewritten(variant)
    work.close()
    assert made is not None
    assert (made.variant, made.source, made.recipe) == ("static_int8+rewritten", "static_int8", "static_int8")
    assert made.float_nodes == (3,)
    assert not made.computes_as_original


def test_a_model_with_kernels_runs_with_their_library_only(tmp_path: Path) -> None:
    work = store(mirrored(tmp_path / "m.tflite"), tmp_path / "out")
    rewriter = Rewriter(work)
    rewriter.build_kernels()
    (made,) = rewriter.with_kernels(work.original)
    assert (made.variant, made.rewrites, made.computes_as_original) == (KERNELS, ("kernel-mirror-pad",), True)
    (library,) = work.candidate_of(made, Plan()).plan.kernels
    assert Path(library).is_file()
    assert work.candidate_of(work.original, Plan()).plan.kernels == ()
    # A session may name anything: only what was built here is loaded.
    work.kernels = Kernels()
    assert work.candidate_of(made, Plan()).plan.kernels == ()
    work.close()


def test_a_wrong_kernel_is_refused_with_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        Kernels, "fault", lambda *_: remark("kernel.shape", kernel="k", output="y", expected=[1], got=[2])
    )
    work = store(mirrored(tmp_path / "m.tflite", size=8), tmp_path / "out")
    rewriter = Rewriter(work)
    rewriter.build_kernels()
    (made,) = rewriter.with_kernels(work.original)
    work.close()
    assert (made.floor, made.path) == (FloorState.FAILED, "")
    note = remark("search.rewriting-refused", variant=made.variant, why=to_data(made.why))
    assert "the shape 2, not 1" in BOOK.text(note)
    assert "the shape 2, not 1" in phrasebook().text(made.why)


def test_the_way_to_a_result_has_a_step_for_each_change(model: Path, tmp_path: Path) -> None:
    """Rewrites and kernels on top of them are one step."""
    work = store(model, tmp_path / "out")
    original = work.original
    rewritten = _changed(original, REWRITTEN, "", "layout")
    both = _changed(original, "rewritten+kernels", REWRITTEN, "kernel-gather")
    int8 = replace(original, variant="static_int8_rewritten", recipe="static_int8", source=REWRITTEN)
    all_three = _changed(int8, "static_int8_rewritten+kernels", int8.variant, "kernel-gather")
    for one in (rewritten, both, int8, all_three):
        work.folder.variants[one.variant] = one
    search = SimpleNamespace(store=work, candidates=SimpleNamespace(base=SimpleNamespace(trial=original)))
    confirmation = Confirmation(search, 0.0)  # type: ignore[arg-type]
    ways = {
        one.variant: confirmation._chain(SimpleNamespace(trial=one))[1:]  # type: ignore[arg-type]
        for one in (original, both, all_three)
    }
    work.close()
    assert {name: [link.practice for link in links] for name, links in ways.items()} == {
        ORIGINAL: [],
        both.variant: ["operators"],
        all_three.variant: ["operators", "quantize", "operators"],
    }
    assert ways[both.variant][0].what.facts["rewrites"] == ["layout", "kernel-gather"]


def _changed(source: Trial, name: str, of: str, rewrite: str) -> Trial:
    notes = (remark("search.rewritten", rewrites=[rewrite]),)
    return replace(source, variant=name, source=of, purpose=Purpose.REWRITE, notes=notes)
