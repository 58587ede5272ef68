"""Planted faults, run for real: the node is named; and nothing is said of models that are equal."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from hasten import api
from hasten.core.plan import Plan
from hasten.explanation.diff.facts import DiffFound, Status
from hasten.explanation.diff.run import run
from hasten.explanation.diff.view import document
from hasten.explanation.inner_tensors import Subject
from hasten.measure.effort import Effort
from hasten.measure.opening import open_model
from hasten.model.edit.model import EditedModel
from tests.model_builder import ModelBuilder
from tests.unit.explanation.diff import faults
from tests.unit.explanation.diff.faults import FAULTS, NETWORKS, LyingTarget, planted_together

if TYPE_CHECKING:
    from pathlib import Path

    from hasten.model.edit.graph import EditedGraph

BUILTIN, REFERENCE = Plan(kernel="builtin"), Plan(kernel="reference")


def written(data: bytes, folder: Path, name: str) -> Path:
    path = folder / f"{name}.tflite"
    path.write_bytes(data)
    return path


def diffed(first: bytes, second: bytes, folder: Path, plans: tuple[Plan, Plan] = (Plan(), Plan())) -> DiffFound:
    paths = written(first, folder, "first"), written(second, folder, "second")
    return api.diff((paths[0], plans[0]), (paths[1], plans[1]))


def told(found: DiffFound) -> str:
    """For the message of a failed test."""
    rows = [(row.index, row.op, row.status.value, row.added_db, row.expected_db, row.why) for row in found.rows]
    return f"{found.verdict}\n" + "\n".join(map(str, rows))


# -- faults (all of them, one by one: benchmarks/diff.py)

TOGETHER = {
    "float": ("channel with the wrong sign", "one wrong weight", "weights in half precision", "activation left out"),
    "moves": ("axes of a transpose", "subtraction the other way round", "division by zero", "steeper softmax"),
    "integers": ("depthwise integers", "clipped range", "shifted range"),
}


@pytest.mark.parametrize("names", TOGETHER.values(), ids=TOGETHER)
def test_nodes_with_planted_faults_are_named(names: tuple[str, ...], tmp_path: Path) -> None:
    """Several in one model: each is found, whatever it inherits from those before it, and no other node is blamed."""
    first, second, nodes = planted_together(names)
    found = diffed(first, second, tmp_path)
    assert [row.index for row in found.rows if row.status.is_fault] == nodes, told(found)
    assert {row.index for row in found.ranked[: len(nodes)]} == set(nodes), told(found)
    assert found.first == nodes[0]
    assert found.verdict.facts["output"] is not None
    others = [row for row in found.rows if row.index not in nodes]
    assert any(row.snr_db is not None and row.snr_db < 40 for row in others)
    assert all(found.row_of(node).causes for node in nodes), told(found)
    if names is TOGETHER["moves"]:
        wrong = next(row for row in found.rows if row.status is Status.NOT_FINITE)
        assert found.verdict.code == "diff.not-finite"
        assert (found.verdict.facts["node"]["index"], found.verdict.facts["earlier"]["index"]) == (
            wrong.index,
            nodes[0],
        )
    if names is TOGETHER["integers"]:
        clipped = next(row for row in found.rows if row.status is Status.CLIPPED)
        assert clipped.index == found.clipped[0].node


@pytest.mark.slow
@pytest.mark.parametrize("name", ["channel with the wrong sign", "weights in half precision", "clipped range"])
def test_a_fault_is_named_across_different_kernels(name: str, tmp_path: Path) -> None:
    """Other kernels round otherwise everywhere; the fault still stands out."""
    first, second, node = FAULTS[name].models()
    found = diffed(first, second, tmp_path, (REFERENCE, Plan()))
    assert (found.first, found.has_fault) == (node, True), told(found)


def test_a_missing_node_is_told(tmp_path: Path) -> None:
    def drawn(with_tanh: bool) -> bytes:
        g = ModelBuilder()
        y = g.fully_connected(g.input("x", (1, 16)), 16)
        g.output(g.fully_connected(g.tanh(y) if with_tanh else y, 4), "y")
        return g.build()

    found = diffed(drawn(True), drawn(False), tmp_path)
    assert found.first == 1, told(found)
    assert found.row_of(1).only_before == ("#1 TANH",)


@pytest.mark.slow
def test_an_activation_that_was_fused_is_no_difference(tmp_path: Path) -> None:
    g = ModelBuilder()
    y = g.relu(g.conv2d(g.input("x", (1, 16, 16, 4)), 8, 3))
    g.output(g.conv2d(y, 8, 3), "y")
    apart = g.build()
    model = EditedModel.from_bytes(apart)
    layer, relu, _ = model.main.operators
    layer.builtinOptions.fusedActivationFunction = 1
    assert model.main.take_out(relu, relu.inputs[0])
    model.clean()
    fused = model.to_bytes()
    for first, second in ((apart, fused), (fused, apart)):
        found = diffed(first, second, tmp_path)
        assert (found.first, found.has_fault) == (None, False), told(found)


# -- one model on two plans


def without_tanh(graph: EditedGraph) -> None:
    for operator in graph.operators:
        if graph.is_op(operator, "TANH"):
            operator.opcodeIndex = graph.parts.operator_code("LOGISTIC")


def test_a_wrong_kernel_of_one_plan_is_named(tmp_path: Path) -> None:
    path = written(faults.moves(), tmp_path, "model")
    subjects = [Subject(*open_model(path, plan)) for plan in (Plan(), BUILTIN)]
    effort = Effort(on=LyingTarget(BUILTIN, without_tanh, tmp_path))
    found = run(subjects[0], subjects[1], effort)
    assert isinstance(found, DiffFound)
    tanh = next(row for row in found.rows if row.op == "TANH")
    assert found.first == tanh.index, told(found)


def fused_wrongly(graph: EditedGraph) -> None:
    """A multiplication goes wrong if the addition before it is in the same graph, and nobody reads between them."""
    for operator in graph.operators:
        before = graph.producer(operator.inputs[0])
        if graph.is_op(operator, "MUL") and graph.is_op(before, "ADD") and operator.inputs[0] not in graph.outputs:
            values = faults.constant(graph, operator.inputs[1])
            faults.set_constant(graph, operator.inputs[1], values * np.float32(1.5))


@pytest.mark.slow
def test_trouble_that_reading_inner_tensors_hides_is_found_as_a_range(tmp_path: Path) -> None:
    path = written(faults.moves(), tmp_path, "model")
    subjects = [Subject(*open_model(path, plan)) for plan in (Plan(), BUILTIN)]
    found = run(subjects[0], subjects[1], Effort(on=LyingTarget(BUILTIN, fused_wrongly, tmp_path)))
    assert isinstance(found, DiffFound)
    nodes = {row.op: row.index for row in found.rows}
    assert (found.verdict.code, found.span) == ("diff.fusion", (nodes["ADD"], nodes["MUL"])), told(found)
    assert found.has_fault
    assert document(found)["range"] == [nodes["ADD"], nodes["MUL"]]


# -- equal pairs

PLANS = {"delegate": Plan(), "builtin": BUILTIN, "reference": REFERENCE}


@pytest.mark.parametrize("name", ["mobilenet-int8/reference", "moves/builtin"])
def test_nothing_is_said_of_equal_models(name: str, tmp_path: Path) -> None:
    """The same model twice, and on kernels that round otherwise."""
    network, _, kernel = name.partition("/")
    data = NETWORKS[network]()
    found = diffed(data, data, tmp_path, (PLANS[kernel], Plan()))
    assert (found.first, found.has_fault, found.span) == (None, False, None), told(found)
    assert found.verdict.code in ("diff.equal", "diff.equal-outputs", "diff.rounding"), told(found)


@pytest.mark.slow
def test_cancellation_is_rounding(tmp_path: Path) -> None:
    """Large terms that cancel leave little but rounding, which no fixed number of decibels would forgive."""
    g = ModelBuilder()
    x = g.input("x", (1, 256))
    y = g.fully_connected(x, 64)
    g.output(y, "y")
    model = EditedModel.from_bytes(g.build())
    operator = model.main.operators[0]
    weights = faults.constant(model.main, operator.inputs[1])
    weights[:, 1::2] = -weights[:, ::2]
    faults.set_constant(model.main, operator.inputs[1], weights * np.float32(1e4))
    faults.set_constant(model.main, operator.inputs[2], faults.constant(model.main, operator.inputs[2]) * 0)
    data = model.to_bytes()
    source = tmp_path / "alike.npz"
    half = np.random.default_rng(0).random((8, 128), dtype=np.float32)
    np.savez(source, x=np.repeat(half, 2, axis=1) + np.tile(np.array([0, 1e-6], np.float32), 128))
    path = written(data, tmp_path, "model")
    inputs = api.explain_inputs(path, api.Data(str(source)))
    found = api.diff((path, REFERENCE), (path, Plan()), inputs=inputs)
    assert (found.first, found.has_fault) == (None, False), told(found)


# -- number formats


@pytest.mark.slow
def test_integers_are_explained_by_their_format(tmp_path: Path) -> None:
    """A quantized model is not its original; it has no fault either, but it names what its format changes first."""
    quantizer = pytest.importorskip("ai_edge_quantizer.quantizer")
    recipe = pytest.importorskip("ai_edge_quantizer.recipe")
    from hasten.demo import DATA, MODEL

    changed = tmp_path / "dynamic.tflite"
    quantizer.Quantizer(str(MODEL), recipe.dynamic_wi8_afp32()).quantize().export_model(str(changed))
    inputs = api.explain_inputs(MODEL, api.Data(str(DATA)))
    found = api.diff((MODEL, Plan()), (changed, Plan()), inputs=inputs)
    assert found.verdict.code == "diff.precision", told(found)
    assert found.first == 2, told(found)  # the first layer with weights
    assert not found.has_fault


@pytest.mark.slow
def test_half_precision_weights_are_explained_by_their_format(tmp_path: Path) -> None:
    def drawn(weights: str) -> bytes:
        g = ModelBuilder(weights=weights)
        y = g.conv2d(g.input("x", (1, 16, 16, 4)), 8, 3, activation="relu6")
        g.output(g.conv2d(y, 8), "y")
        return g.build()

    found = diffed(drawn("float32"), drawn("float16"), tmp_path)
    assert found.verdict.code == "diff.precision", told(found)
    first = found.row_of(found.first or 0)
    assert (first.op, first.status) == ("CONV_2D", Status.PRECISION)
