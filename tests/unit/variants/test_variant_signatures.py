"""A file with several signatures: one is judged, and no other changes without a word."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.model_builder import ModelBuilder
from variant_models import answers, inputs_of, worst_error

from hasten.core.remark import remark
from hasten.model.build_graph import Spec
from hasten.model.edit.file import read_object, write_object
from hasten.model.reader import read_graph
from hasten.variants import words
from hasten.variants.make import make_variant

if TYPE_CHECKING:
    from pathlib import Path

WITHOUT_CALIBRATION = ("float16", "dynamic_int8", "weight_only_int8", "weight_only_int4")
ONLY_DECODE = remark(words.OTHER_GRAPHS, signature="decode", graphs=1, total=2)


def dense(graph: Any, x: Any) -> Any:
    weights = graph.constant(np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32))
    options = {"options_type": "FullyConnectedOptions", "keepNumDims": True}
    (y,) = graph.operator("FULLY_CONNECTED", [x, weights], [Spec((1, 64))], **options)
    return y


def encoder_and_decoder(path: Path) -> Path:
    g = ModelBuilder()
    g.output(dense(g, g.input("x", (1, 64))), "code")
    decoder = g.subgraph("decode", signature="decode")
    decoder.output(dense(decoder, decoder.input("code", (1, 64))), "y")
    path.write_bytes(g.build("encode"))
    return path


def with_one_buffer(path: Path) -> Path:
    """Let the weights of both graphs, which are equal, be one buffer: converters write them so."""
    model = read_object(path)
    first, second = (
        next(tensor for tensor in subgraph.tensors if model.buffers[tensor.buffer].data is not None)
        for subgraph in model.subgraphs
    )
    model.buffers[second.buffer].data = None
    second.buffer = first.buffer
    shared = path.with_name("shared.tflite")
    write_object(model, shared, path)
    return shared


def loop(graph: ModelBuilder | Any, x: Any, condition: Any, body: Any) -> Any:
    _, y = graph.while_loop([graph.constant(np.array([0], np.int32)), x], condition, body)
    return y


def loops(path: Path) -> Path:
    """Two signatures that run one loop, and one that runs nothing of it."""
    g = ModelBuilder()
    condition, body = g.subgraph("condition"), g.subgraph("body")
    count, _ = condition.input("count", (1,), "int32"), condition.input("x", (1, 64))
    condition.output(condition.less(count, condition.constant(np.array([2], np.int32))))
    count, x = body.input("count", (1,), "int32"), body.input("x", (1, 64))
    body.output(body.add(count, body.constant(np.array([1], np.int32))))
    body.output(dense(body, x))
    g.output(loop(g, g.input("x", (1, 64)), condition, body), "y")
    twin = g.subgraph("twin", signature="twin")
    twin.output(loop(twin, twin.input("x", (1, 64)), condition, body), "y")
    alone = g.subgraph("alone", signature="alone")
    alone.output(dense(alone, alone.input("x", (1, 64))), "y")
    path.write_bytes(g.build("main"))
    return path


def error(model: Path, variant: Path, signature: str) -> float:
    data = inputs_of(model, 3, signature=signature)
    return worst_error(answers(model, data, signature), answers(variant, data, signature))


@pytest.mark.parametrize("recipe", WITHOUT_CALIBRATION)
@pytest.mark.parametrize("shared", [False, True])
def test_only_the_signature_that_is_judged_changes(recipe: str, shared: bool, tmp_path: Path) -> None:
    model, out = encoder_and_decoder(tmp_path / "m.tflite"), tmp_path / "v.tflite"
    model = with_one_buffer(model) if shared else model
    variant = make_variant(model, recipe, out, signature="decode")
    assert variant.nodes == (0,)
    assert ONLY_DECODE in variant.notes
    assert (remark(words.WEIGHTS_TWICE) in variant.notes) == shared
    assert error(model, out, "encode") == 0
    assert 0 < error(model, out, "decode") < 0.1


def test_shared_weights_are_told_of_for_static_recipes_too(tmp_path: Path) -> None:
    model, out = with_one_buffer(encoder_and_decoder(tmp_path / "m.tflite")), tmp_path / "v.tflite"
    samples = inputs_of(model, 30, signature="decode")
    notes = make_variant(model, "static_int8_min_max", out, samples, signature="decode").notes
    assert ONLY_DECODE in notes
    assert remark(words.WEIGHTS_TWICE) in notes
    assert error(model, out, "encode") == 0


@pytest.mark.parametrize("recipe", WITHOUT_CALIBRATION)
def test_what_a_loop_runs_belongs_to_its_signature(recipe: str, tmp_path: Path) -> None:
    model, out = loops(tmp_path / "m.tflite"), tmp_path / "v.tflite"
    notes = make_variant(model, recipe, out, signature="main").notes
    assert remark(words.OTHER_GRAPHS, signature="main", graphs=3, total=5) in notes
    assert remark(words.OTHER_SIGNATURES, signatures=["twin"]) in notes
    assert error(model, out, "alone") == 0
    assert 0 < error(model, out, "main") == error(model, out, "twin") < 0.2


def recurrent(path: Path) -> Path:
    """As Keras writes recurrent layers: the loop also hands on what it only reads, and nothing takes that."""
    g = ModelBuilder()
    condition, body = g.subgraph("condition"), g.subgraph("body")
    count = condition.input("count", (1,), "int32")
    for name in ("state", "sequence"):
        condition.input(name, (1, 64))
    condition.output(condition.less(count, condition.constant(np.array([2], np.int32))))
    count, state, sequence = body.input("count", (1,), "int32"), body.input("state", (1, 64)), body.input("s", (1, 64))
    body.output(body.add(count, body.constant(np.array([1], np.int32))))
    body.output(body.add(dense(body, state), sequence))
    body.output(sequence)
    x = g.input("x", (1, 64))
    _, y, _ = g.while_loop([g.constant(np.array([0], np.int32)), x, g.tanh(x)], condition, body)
    g.output(dense(g, y), "y")
    return g.write(path)


def test_static_recipes_quantize_what_is_around_a_recurrent_loop(tmp_path: Path) -> None:
    model, out = recurrent(tmp_path / "m.tflite"), tmp_path / "v.tflite"
    variant = make_variant(model, "static_int8_min_max", out, inputs_of(model, 30))
    assert variant.weight_shares["int8"] == pytest.approx(0.2, abs=0.01)  # one layer of two, in a quarter of the bytes
    assert 0 < worst_error(answers(model, inputs_of(model, 3)), answers(out, inputs_of(model, 3))) < 0.1
    (said,) = (note for note in variant.notes if note.code == words.CALLED_IN_FLOAT)
    assert said.facts["callers"] == ["WHILE"]
    for recipe in WITHOUT_CALIBRATION:
        assert recipe in said.facts["recipes"]
        made = make_variant(model, recipe, tmp_path / "other.tflite")
        assert not any(note.code == words.CALLED_IN_FLOAT for note in made.notes)
        assert made.weight_shares.get("float32", 0.0) < 0.1


def test_a_loop_is_no_reason_for_a_note(tmp_path: Path) -> None:
    g = ModelBuilder()
    condition, body = g.subgraph("condition"), g.subgraph("body")
    condition.input("x", (1, 64))
    condition.output(condition.constant(np.array([False])))
    body.output(dense(body, body.input("x", (1, 64))))
    (y,) = g.while_loop([g.input("x", (1, 64))], condition, body)
    g.output(y, "y")
    g.write(tmp_path / "m.tflite")
    assert make_variant(tmp_path / "m.tflite", "dynamic_int8", tmp_path / "v.tflite").notes == ()
    assert read_graph(tmp_path / "m.tflite").run_by(0) == {0, 1, 2}
