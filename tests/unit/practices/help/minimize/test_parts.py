"""A part's inputs hold what they hold inside of the whole model, whichever order the engine has its inputs in."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hasten.explanation.inner_tensors import Subject
from hasten.measure.opening import open_model
from hasten.model.edit.model import EditedModel
from hasten.practices.help.minimize.parts import Cutter, InnerValues
from hasten.targets.local import LocalTarget
from tests.model_builder import ModelBuilder

if TYPE_CHECKING:
    from pathlib import Path


def test_a_part_is_fed_what_its_inputs_hold_in_the_whole(tmp_path: Path) -> None:
    g = ModelBuilder()
    z, a = g.input("z", (1, 4)), g.input("a", (1, 2))
    g.output(g.concatenation([g.tanh(a), g.relu(z)]), "y")
    model = EditedModel.read(g.write(tmp_path / "m.tflite"))
    (signature,) = model.graphs[0].signatures()
    signature.inputs = signature.inputs[::-1]
    model.write(tmp_path / "m.tflite")
    whole, graph = open_model(tmp_path / "m.tflite")
    part = Cutter(whole, whole, len(graph.main.nodes), tmp_path).part((1, 2))
    assert part is not None
    values = InnerValues(LocalTarget(), Subject(whole, graph)).for_part(part)
    own = np.frombuffer(values.pop("z"), np.float32)
    (inner,) = (np.frombuffer(data, np.float32) for data in values.values())
    assert (own.size, inner.size) == (4, 2)
    assert 0 <= own.min() < own.max() <= 1
    assert 0 <= inner.min() < inner.max() <= np.tanh(1)
