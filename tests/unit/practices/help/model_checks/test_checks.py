"""Every check of a model: a planted problem is found and named by one check, and clean models pass them all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from hasten.core.failure import Failure
from hasten.core.measurement import Model
from hasten.core.plan import Plan
from hasten.core.profile import OperatorTime, Profile
from hasten.model.build_graph import Spec
from hasten.model.reader import read_graph
from hasten.practices.help.facts import Status
from hasten.practices.help.model_checks.findings import Subject
from hasten.practices.help.model_checks.rules import output_check, run_check, static_checks
from hasten.practices.help.words import BOOK
from tests import example_models
from tests.model_builder import ModelBuilder
from tests.unit.practices.help import planted

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from hasten.practices.help.facts import Check


def checks_of(folder: Path, data: bytes, profile: Profile | None = None) -> dict[str, Check]:
    graph = read_graph(planted.written(folder, data))
    return {check.name: check for check in static_checks(Subject(graph, profile))}


def base() -> bytes:
    return planted.described(example_models.mobilenet_like())


def int8() -> bytes:
    return planted.described(example_models.mobilenet_like(dtype="int8"))


def tensor_of(model: Any, op: str, place: int) -> Any:
    """The input at a place of the first operator of a kind; a place below 0 counts outputs."""
    from ai_edge_litert import schema_py_generated as schema

    number = getattr(schema.BuiltinOperator, op)
    main = model.subgraphs[0]
    for operator in main.operators:
        if model.operatorCodes[operator.opcodeIndex].builtinCode == number:
            index = operator.inputs[place] if place >= 0 else operator.outputs[-1 - place]
            return main.tensors[index]
    raise AssertionError(f"no {op} in the model")


@pytest.mark.parametrize("name", sorted(planted.clean()))
def test_clean_models_pass_every_check(name: str, tmp_path: Path) -> None:
    found = checks_of(tmp_path, planted.clean()[name])
    assert {check.status for check in found.values()} == {Status.GOOD}, found
    assert not [check.name for check in found.values() if BOOK.hint(check.finding)]


def test_a_sound_int8_network_has_sound_parameters_and_ranges(tmp_path: Path) -> None:
    found = checks_of(tmp_path, int8())
    assert found["quantization parameters"].status is Status.GOOD
    assert found["quantization ranges"].status is Status.GOOD


# -- planted problems: what plants it, the check that finds it, its status and code


def _drop(field: str) -> Callable[[], bytes]:
    return lambda: planted.changed(base(), lambda model: setattr(model, field, None))


def _weights(change: Callable[[Any], None], source: Callable[[], bytes] = base) -> Callable[[], bytes]:
    """The model with the weights of its first convolution changed in place."""

    def make() -> bytes:
        def edit(model: Any) -> None:
            buffer = model.buffers[tensor_of(model, "CONV_2D", 1).buffer]
            buffer.data = np.array(buffer.data, np.uint8)
            change(buffer)

        return planted.changed(source(), edit)

    return make


def _not_a_number(buffer: Any) -> None:
    values = buffer.data.view(np.float32)
    values[3] = np.nan


def _clip(buffer: Any) -> None:
    values = buffer.data.view(np.int8)
    values[::4] = 127


def _unused() -> bytes:
    def edit(model: Any) -> None:
        from ai_edge_litert import schema_py_generated as schema

        raw = np.frombuffer(np.random.default_rng(0).random(10_000, np.float32).tobytes(), np.uint8)
        model.buffers.append(schema.BufferT(data=raw))
        tensor = schema.TensorT(name="orphan", shape=[10_000], type=0, buffer=len(model.buffers) - 1, hasRank=True)
        model.subgraphs[0].tensors.append(tensor)

    return planted.changed(base(), edit)


def _twice() -> bytes:
    g = ModelBuilder()
    x = g.input("x", (1, 64))
    weights = np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32)
    y = x
    for _ in range(2):
        bias = g.constant(np.zeros(64, np.float32))
        (y,) = g.operator(
            "FULLY_CONNECTED", [y, g.constant(weights), bias], [Spec((1, 64))], options_type="FullyConnectedOptions"
        )
    g.output(y, "y")
    return planted.described(g.build())


def _half() -> bytes:
    g = ModelBuilder(weights="float16")
    g.output(g.conv2d(g.input("x", (1, 8, 8, 3)), 8, 3), "y")
    return planted.described(g.build())


def _dead() -> bytes:
    g = ModelBuilder()
    x = g.input("x", (1, 8, 8, 3))
    g.conv2d(x, 4, 3)
    g.output(g.tanh(x), "y")
    return planted.described(g.build())


def _odd_type() -> bytes:
    g = ModelBuilder()
    g.output(g.cast(g.cast(g.input("x", (1, 4)), "float64"), "float32"), "y")
    return planted.described(g.build())


def _parameters(op: str, place: int, **changes: Any) -> Callable[[], bytes]:
    def make() -> bytes:
        def edit(model: Any) -> None:
            parameters = tensor_of(model, op, place).quantization
            for name, value in changes.items():
                setattr(parameters, name, value)

        return planted.changed(int8(), edit)

    return make


def _few_levels() -> bytes:
    """Weights of one scale for all channels, of which one is a hundred times larger than the others."""
    from hasten.model.build_bytes import Quantization

    g = ModelBuilder()
    x = g.input("x", (1, 8), "int8", scale=0.05)
    values = np.random.default_rng(0).integers(-1, 2, (16, 8)).astype(np.int8)
    values[0] = 127
    weights = g.constant(values, Quantization((0.01,), (0,)))
    bias = g.constant(np.zeros(16, np.int32), Quantization((0.0005,), (0,)))
    spec = Spec((1, 16), "int8", Quantization((0.1,), (0,)))
    options = "FullyConnectedOptions"
    (y,) = g.operator("FULLY_CONNECTED", [x, weights, bias], [spec], version=4, options_type=options)
    g.output(y, "y")
    return planted.described(g.build())


def _zero_channel() -> bytes:
    def edit(model: Any) -> None:
        for place in (1, 2):
            parameters = tensor_of(model, "CONV_2D", place).quantization
            parameters.scale = [0.0, *parameters.scale[1:]]

    return planted.changed(int8(), edit)


def _half_range() -> bytes:
    def edit(model: Any) -> None:
        parameters = tensor_of(model, "CONV_2D", -1).quantization
        parameters.scale, parameters.zeroPoint = [6 / 127], [0]

    return planted.changed(int8(), edit)


PLANTED: dict[str, tuple[Callable[[], bytes], str, Status, str]] = {
    "custom operator": (example_models.custom_operator, "operators", Status.BETTER, "model.custom-operators"),
    "TensorFlow operator": (example_models.flex_operator, "operators", Status.BROKEN, "model.flex"),
    "open image": (example_models.open_image, "shapes", Status.BETTER, "model.open-inputs"),
    "no size": (lambda: example_models.open_sound(unset=True), "shapes", Status.BETTER, "model.no-size"),
    "unscaled integers": (example_models.aborting, "types", Status.BROKEN, "model.unscaled"),
    "double precision": (_odd_type, "types", Status.BETTER, "model.odd-types"),
    "no signature": (_drop("signatureDefs"), "signatures", Status.BETTER, "model.no-signature"),
    "no metadata": (_drop("metadata"), "metadata", Status.BETTER, "model.no-metadata"),
    "old schema": (example_models.old_schema, "file format", Status.BETTER, "model.schema-old"),
    "dead code": (_dead, "unused operators", Status.BETTER, "model.dead-code"),
    "unused weights": (_unused, "unused weights", Status.BETTER, "model.unused-weights"),
    "duplicated weights": (_twice, "duplicated weights", Status.BETTER, "model.duplicates"),
    "float16 weights": (_half, "float16 weights", Status.BETTER, "model.float16"),
    "weights without numbers": (_weights(_not_a_number), "weights", Status.BROKEN, "model.not-finite"),
    "scale of zero": (
        _parameters("CONV_2D", -1, scale=[0.0]),
        "quantization parameters",
        Status.BROKEN,
        "model.bad-parameters",
    ),
    "zero point out of range": (
        _parameters("CONV_2D", -1, zeroPoint=[400]),
        "quantization parameters",
        Status.BROKEN,
        "model.bad-parameters",
    ),
    "scales of another dimension": (
        _parameters("CONV_2D", 2, quantizedDimension=3),
        "quantization parameters",
        Status.BROKEN,
        "model.scale-count",
    ),
    "softmax of another scale": (
        _parameters("SOFTMAX", -1, scale=[0.5]),
        "quantization parameters",
        Status.BROKEN,
        "model.fixed-parameters",
    ),
    "bias of another scale": (
        _parameters("FULLY_CONNECTED", 2, scale=[0.5]),
        "quantization parameters",
        Status.BROKEN,
        "model.bias-scale",
    ),
    "channel without a scale": (_zero_channel, "quantization ranges", Status.BETTER, "model.zero-scales"),
    "levels for negatives": (_half_range, "quantization ranges", Status.BETTER, "model.half-range"),
    "clipped weights": (_weights(_clip, int8), "quantization ranges", Status.BETTER, "model.clipped-weights"),
    "few levels": (_few_levels, "quantization ranges", Status.BETTER, "model.few-levels"),
}


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_problem_is_found_and_named(name: str, tmp_path: Path) -> None:
    make, check, status, code = PLANTED[name]
    found = checks_of(tmp_path, make())
    assert (found[check].status, found[check].finding.code) == (status, code)
    text, hint = BOOK.text(found[check].finding), BOOK.hint(found[check].finding)
    assert text
    assert hint
    assert code not in text


@pytest.mark.parametrize("name", ["no signature", "no metadata", "unused weights", "weights without numbers"])
def test_only_the_planted_problem_is_found(name: str, tmp_path: Path) -> None:
    make, check, _, _ = PLANTED[name]
    found = checks_of(tmp_path, make())
    assert [one.name for one in found.values() if one.status is not Status.GOOD] == [check]


def test_a_cost_is_told_where_it_was_measured(tmp_path: Path) -> None:
    """The DEQUANTIZE of a profile with two operators takes a quarter of the run."""
    rows = tuple(
        OperatorTime(index, op, (op,), "", "", ms, ms / 4, None, "engine")
        for index, op, ms in ((0, "DEQUANTIZE", 1.0), (1, "CONV_2D", 3.0))
    )
    model, plan = Model("m.tflite", 1, ""), Plan()
    profile = Profile(model, plan, 4.0, 4.0, 4.0, 4.0, 1.0, 10, rows, ())
    check = checks_of(tmp_path, _half(), profile)["float16 weights"]
    assert check.finding.facts["share"] == pytest.approx(0.25)
    assert "25 %" in BOOK.text(check.finding)
    assert "costs" not in BOOK.text(checks_of(tmp_path, _half())["float16 weights"].finding)


def test_damaged_metadata_is_broken(tmp_path: Path) -> None:
    def edit(model: Any) -> None:
        model.buffers[model.metadata[0].buffer].data = np.frombuffer(b"nonsense" * 4, np.uint8)

    check = checks_of(tmp_path, planted.changed(base(), edit))["metadata"]
    assert (check.status, check.finding.code) == (Status.BROKEN, "model.metadata-damaged")


def test_a_model_that_does_not_run_is_broken_with_its_cause() -> None:
    check = run_check(Failure("load", "crash", "The runner crashed.", "Try another plan."), "cpu, 1 thread")
    assert check.status is Status.BROKEN
    assert "The runner crashed." in BOOK.text(check.finding)
    assert BOOK.hint(check.finding) == "Try another plan."


def test_outputs_that_are_no_numbers_are_broken() -> None:
    assert output_check(None) == []
    assert [check.status for check in (*output_check(0), *output_check(2))] == [Status.GOOD, Status.BROKEN]
