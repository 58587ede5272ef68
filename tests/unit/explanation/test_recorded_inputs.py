"""A part that was cut out, with the inputs that were recorded for it: it gives what the whole model gives there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from litert_run import invoke, loaded

from hasten import api
from hasten.core.errors import HastenError
from hasten.core.plan import Plan
from hasten.model.build_graph import Spec
from hasten.model.reader import read_graph
from tests import example_models
from tests.model_builder import ModelBuilder

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_a_part_on_its_recorded_inputs_gives_what_the_whole_gives(dtype: str, tmp_path: Path) -> None:
    model = tmp_path / "m.tflite"
    model.write_bytes(example_models.mobilenet_like(dtype=dtype))
    (form,) = read_graph(model).inputs
    given = np.random.default_rng(1).normal(0, 40, (3, *form.shape)).astype(form.dtype)
    np.savez(tmp_path / "data.npz", x=given)
    last = len(read_graph(model).main.nodes) - 1
    found = api.cut(model, (4, last), tmp_path / "part.tflite", data=api.Data(str(tmp_path / "data.npz")))
    assert (found.samples, found.why) == (3, "")
    recorded = np.load(found.inputs)
    assert [values.shape[0] for values in recorded.values()] == [3] * len(recorded)
    whole, part = loaded(model.read_bytes()), loaded((tmp_path / "part.tflite").read_bytes())
    expected = {invoke(whole, [sample])[0].tobytes() for sample in given}
    assert {
        invoke(part, [recorded[name][row] for name in recorded])[0].tobytes() for row in range(3)
    } == expected  # samples are drawn at random


def test_inputs_of_the_model_are_recorded_in_the_order_of_the_part(tmp_path: Path) -> None:
    g = ModelBuilder()
    z, a = g.input("z", (1, 4)), g.input("a", (1, 2))
    g.output(g.concatenation([g.tanh(a), g.relu(z)]), "y")
    model = g.write(tmp_path / "m.tflite")
    np.savez(tmp_path / "data.npz", z=np.full((1, 1, 4), 4.0, np.float32), a=np.full((1, 1, 2), -9.0, np.float32))
    found = api.cut(model, (1, 2), tmp_path / "part.tflite", data=api.Data(str(tmp_path / "data.npz")))
    signature = read_graph(tmp_path / "part.tflite").signature()
    assert signature is not None
    values = dict(zip(signature.inputs, np.load(found.inputs).values(), strict=True))
    np.testing.assert_array_equal(values.pop("z"), np.full((1, 1, 4), 4.0, np.float32))
    (inner,) = values.values()
    np.testing.assert_allclose(inner, np.full((1, 1, 2), -1.0), atol=1e-3)


def test_inputs_are_recorded_with_the_plan_that_was_asked_for(tmp_path: Path) -> None:
    model = tmp_path / "m.tflite"
    model.write_bytes(example_models.mobilenet_like())
    found = api.cut(model, (2, 5), tmp_path / "part.tflite", Plan(delegate="/nowhere/lib.so"))
    assert (found.inputs, "/nowhere/lib.so" in found.why) == ("", True)


def test_without_data_seeded_inputs_are_recorded_and_a_private_part_has_none(tmp_path: Path) -> None:
    model = tmp_path / "m.tflite"
    model.write_bytes(example_models.mobilenet_like())
    found = api.cut(model, (2, 5), tmp_path / "part.tflite")
    assert (found.source, found.samples > 0) == ("seeded inputs", True)
    private = api.cut(model, (2, 5), tmp_path / "private.tflite", private=True)
    assert (private.inputs, private.samples) == ("", 0)
    assert not (tmp_path / "private.npz").exists()


def test_a_measurement_runs_on_the_data(tmp_path: Path) -> None:
    """An index that is out of range fails: it can only come from the data."""
    g = ModelBuilder()
    table, x = g.constant(np.ones((4, 8), np.float32)), g.input("x", (1, 2), "int32")
    (y,) = g.operator("GATHER", [table, x], [Spec((1, 2, 8))], options_type="GatherOptions", axis=0)
    g.output(y, "y")
    model = g.write(tmp_path / "m.tflite")
    short = api.Effort(0.3)
    for name, index in (("good", 3), ("bad", 400)):
        np.savez(tmp_path / f"{name}.npz", x=np.full((1, 1, 2), index, np.int32))
    found = api.bench(model, data=api.Data(str(tmp_path / "good.npz")), effort=short)
    assert found.inputs == str(tmp_path / "good.npz")
    with pytest.raises(HastenError):
        api.bench(model, data=api.Data(str(tmp_path / "bad.npz")), effort=short)
