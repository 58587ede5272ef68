"""Variants with integers at inputs and outputs: which recipes can have them, what is said, and how they are judged."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from hasten.api import Data, Effort, SearchSettings, document, quantize
from hasten.core.errors import UsageError
from hasten.core.floor import FloorState
from hasten.core.goal import Goal
from hasten.core.plan import Plan
from hasten.core.remark import remark
from hasten.core.trial import ORIGINAL, Trial
from hasten.demo import CALIBRATION, DATA, MODEL
from hasten.model.reader import read_graph
from hasten.search import variant_store
from hasten.search.quantizing import io_type_notes, types_still
from hasten.search.sensitivity import sensitivities
from hasten.variants.io_types import IoTypes
from hasten.variants.recipes import RECIPE_NAMES
from tests.example_models import mobilenet_like
from tests.model_builder import ModelBuilder
from tests.unit.search.searching import begun, store

if TYPE_CHECKING:
    from pathlib import Path

    from hasten.practices.quantize.facts import QuantizeFound


INT8 = IoTypes("int8", "int8")
ABLE = (
    *("static_int8", "static_int8_min_max", "static_int8_corrected", "static_int8_sequential"),
    *("static_int8_octav", "static_int8_mse"),
)
STATIC = SearchSettings(recipes=("static_int8_min_max",), mix=False, max_drop=0.5)
QUICK = Effort(0.1)


def types_of(path: str | Path) -> list[str]:
    graph = read_graph(path)
    return [tensor.dtype for tensor in (*graph.inputs, *graph.outputs)]


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.tflite"
    path.write_bytes(mobilenet_like(8, 1, 16))
    return path


# -- which recipes


@pytest.mark.parametrize("io_types", [INT8, IoTypes("uint8"), IoTypes(output_type="int8"), IoTypes("int8", "uint8")])
def test_recipes_that_cannot_have_the_types_are_left_out(io_types: IoTypes) -> None:
    settings = SearchSettings(io_types=io_types)
    assert settings.fitting == ABLE
    assert set(settings.left_out) == set(RECIPE_NAMES) - set(ABLE)


def test_int16_is_for_the_recipe_that_computes_in_it_and_float_for_all() -> None:
    assert SearchSettings(io_types=IoTypes("int16")).fitting == ("static_int16",)
    assert SearchSettings().fitting == RECIPE_NAMES


def test_a_recipe_chosen_by_name_that_cannot_have_them_is_refused_with_those_that_can() -> None:
    with pytest.raises(UsageError, match="float16 cannot have int8 inputs and outputs") as raised:
        SearchSettings(recipes=("static_int8", "float16"), io_types=INT8)
    assert ", ".join(ABLE) in raised.value.hint


def test_what_no_recipe_can_have_is_refused() -> None:
    for io_types in (IoTypes("int8", "int16"), IoTypes("int9")):
        with pytest.raises(UsageError, match="No recipe can have"):
            SearchSettings(io_types=io_types)
    with pytest.raises(UsageError, match="Pruned variants cannot have int8 inputs"):
        SearchSettings(io_types=IoTypes("int8"), prune=(0.5,))


# -- what is said


def test_the_notes_name_the_types_what_was_left_out_and_what_stays(tmp_path: Path) -> None:
    g = ModelBuilder()
    g.output(g.fully_connected(g.input("x", (1, 8)), 4), "y")
    g.output(g.input("ids", (1, 4), "int32"), "same")
    (tmp_path / "m.tflite").write_bytes(g.build())
    work = store(tmp_path / "m.tflite", tmp_path / "out", settings=SearchSettings(io_types=INT8))
    work.close()
    first, *others = io_type_notes(work)
    assert first.facts["types"] == "int8 inputs and outputs"
    assert first.facts["left_out"][:2] == ["float16", "dynamic_int8"]
    assert remark("search.io-type-kept", end="input", name="ids", dtype="int32", wanted="int8") in others
    work.settings = SearchSettings(io_types=IoTypes("int8"))
    assert types_still(work) == [
        remark("search.types-still", ends="inputs", dtypes=["float32", "int32"], wanted="int8")
    ]
    work.settings = SearchSettings()
    assert io_type_notes(work) == types_still(work) == []


def test_where_the_original_stays_its_types_are_said(tiny: Path, tmp_path: Path) -> None:
    """Without data nothing shows that a variant is accurate."""
    settings = replace(STATIC, io_types=IoTypes("int8"))
    found = quantize(tiny, tmp_path / "out", settings=settings, effort=QUICK)
    assert found.chosen == ORIGINAL
    assert types_of(found.trials[1].path) == ["int8", "float32"]
    data = document(found)
    assert data["why"].endswith("are still float32, not int8.")
    assert data["finding"]["evidence"] == data["why"]
    assert (data["input_type"], data["output_type"]) == ("int8", "float32")


# -- how they are judged


@pytest.mark.parametrize("dtype", ["float32", pytest.param("uint8", marks=pytest.mark.slow)])
@pytest.mark.parametrize("io_types", [INT8, pytest.param(IoTypes("uint8", "uint8"), marks=pytest.mark.slow)])
@pytest.mark.slow
def test_inputs_are_fed_and_outputs_read_by_scale(dtype: str, io_types: IoTypes, tiny: Path, tmp_path: Path) -> None:
    """Of a range of 0 to 4, raw values would be nonsense: an input has a scale of 4/255."""
    values = np.random.default_rng(0).integers(0, 5, (24, 16, 16, 3)).astype(dtype)
    np.savez(tmp_path / "data.npz", x=values)

    def cosine(settings: SearchSettings, name: str) -> float:
        data = Data(str(tmp_path / "data.npz"), metric="cosine")
        found = quantize(tiny, tmp_path / name, data=data, settings=settings, effort=QUICK)
        accuracy = found.trials[1].reporting
        assert accuracy is not None
        return accuracy.value

    usual, integer_io = cosine(STATIC, "usual"), cosine(replace(STATIC, io_types=io_types), "integer_io")
    assert usual > 0.99
    assert integer_io == pytest.approx(usual, abs=0.005)


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> dict[str, QuantizeFound]:
    folder, data = tmp_path_factory.mktemp("demo"), Data(str(DATA), str(CALIBRATION), samples=200)
    return {
        name: quantize(MODEL, folder / name, data=data, settings=replace(STATIC, io_types=io_types), effort=QUICK)
        for name, io_types in (("float", IoTypes()), ("int8", INT8))
    }


@pytest.mark.slow
def test_the_demo_is_as_accurate_with_integers_at_its_border(demo: dict[str, QuantizeFound]) -> None:
    usual, integer_io = demo["float"].trials[1], demo["int8"].trials[1]
    assert types_of(integer_io.path) == ["int8", "int8"]
    assert types_of(usual.path) == ["float32", "float32"]
    assert usual.reporting is not None
    assert integer_io.reporting is not None
    assert integer_io.floor is FloorState.KEPT
    assert integer_io.reporting.value == pytest.approx(usual.reporting.value, abs=0.011)
    assert integer_io.against is not None


# -- mixes


def test_the_error_of_a_node_has_nothing_of_the_border(tiny: Path, tmp_path: Path) -> None:
    np.savez(tmp_path / "data.npz", x=np.random.default_rng(0).random((16, 16, 16, 3), np.float32))
    errors = []
    for name, io_types in (("usual", IoTypes()), ("integer_io", INT8)):
        settings = replace(STATIC, goal=Goal.SIZE, io_types=io_types)
        work = begun(tiny, tmp_path / name, Data(str(tmp_path / "data.npz")), settings).store
        recipe = "static_int8_min_max"
        found = list(sensitivities(work, Trial(recipe, recipe=recipe, nodes=(0, 1, 2)), Plan()))
        work.close()
        errors.append([entry.error for entry in found])
    assert errors[0] == errors[1]
    assert all(0 < error < 1 for error in errors[0])


@pytest.mark.slow
def test_gains_are_measured_on_a_variant_whose_border_has_conversions(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    def look(target: Any, original: Any, variant: Any, progress: Any, seconds: float) -> None:
        seen.append((types_of(variant.candidate.path), len(variant.graph.main.nodes)))

    monkeypatch.setattr(variant_store, "measure_gains", look)
    np.savez(tmp_path / "data.npz", x=np.random.default_rng(0).random((16, 16, 16, 3), np.float32))
    settings = replace(STATIC, mix=True, io_types=INT8)
    found = quantize(tiny, tmp_path / "out", data=Data(str(tmp_path / "data.npz")), settings=settings, effort=QUICK)
    nodes = len(read_graph(found.trials[1].path).main.nodes)
    assert seen
    assert all(one == (["float32", "float32"], nodes + 2) for one in seen)


def test_a_search_does_not_go_on_with_other_types(tiny: Path, tmp_path: Path) -> None:
    for first, second, words in (
        (IoTypes(), INT8, "another input type: float32, not int8"),
        (INT8, IoTypes(), "another input type: int8, not float32"),
        (IoTypes("int8"), INT8, "another output type: float32, not int8"),
    ):
        folder = tmp_path / f"{first.describe()} {second.describe()}"
        begun(tiny, folder, settings=replace(STATIC, io_types=first)).store.close()
        with pytest.raises(UsageError, match=words):
            begun(tiny, folder, settings=replace(STATIC, io_types=second))
        begun(tiny, folder, settings=replace(STATIC, io_types=first)).store.close()
