"""Outputs are equal, nearly equal or different: what a changed model may do to them and what not."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from hasten.core.plan import Plan
from hasten.explanation.inner_tensors import Subject
from hasten.measure.opening import open_model
from hasten.model.build_graph import Spec
from hasten.practices.operators.equality import MOST_ROUNDING, Answers, answers_of, largest_error, own_rounding
from hasten.targets.local import LocalTarget
from tests.example_models import mobilenet_like
from tests.model_builder import ModelBuilder

if TYPE_CHECKING:
    from pathlib import Path

FLOATS = arrays(np.float32, 6, elements=st.floats(-100, 100, width=32))


def answers(*outputs: Any) -> Answers:
    return Answers((tuple(np.asarray(output) for output in outputs),))


@given(FLOATS)
def test_equal_outputs_have_no_error(values: np.ndarray[Any, Any]) -> None:
    assert largest_error(answers(values), answers(values.copy())) == 0.0
    assert largest_error(answers(0 * values), answers(-0.0 * values)) == 0.0


@given(FLOATS, st.floats(1e-7, 1.0), st.integers(0, 5))
def test_the_error_is_a_share_of_the_largest_output(values: np.ndarray[Any, Any], share: float, place: int) -> None:
    largest = float(np.abs(values).max())
    changed = values.astype(np.float64)
    changed[place] += share * largest
    found = largest_error(answers(values.astype(np.float64)), answers(changed))
    assert found == pytest.approx(share if largest else 0.0, rel=1e-6, abs=1e-12)


@pytest.mark.parametrize(
    ("before", "after", "error"),
    [
        (np.array([1, np.nan], np.float32), np.array([1, np.nan], np.float32), 0.0),
        (np.array([1, np.nan], np.float32), np.array([1, 2], np.float32), math.inf),
        (np.array([1, 2], np.float32), np.array([1, np.inf], np.float32), math.inf),
        (np.array([1, 2], np.float32), np.array([1, 2], np.float64), math.inf),
        (np.array([1, 2], np.float32), np.array([1, 2, 3], np.float32), math.inf),
        (np.array([0, 0], np.float32), np.array([0, 1e-9], np.float32), math.inf),
        (np.array([7, 3], np.int32), np.array([7, 3], np.int32), 0.0),
        (np.array([7, 3], np.int32), np.array([7, 4], np.int32), math.inf),
        (np.array([-128, 3], np.int8), np.array([-127, 3], np.int8), 1 / 255),
        (np.array([0], np.uint8), np.array([255], np.uint8), 1.0),
    ],
)
def test_odd_outputs(before: Any, after: Any, error: float) -> None:
    assert largest_error(answers(before), answers(after)) == pytest.approx(error)


def test_a_missing_output_or_sample_is_no_match() -> None:
    one = np.array([1], np.float32)
    assert math.isinf(largest_error(answers(one, one), answers(one)))
    assert math.isinf(largest_error(Answers(((one,), (one,))), answers(one)))


def divided(folder: Path) -> Path:
    """A model that divides by one of its inputs, and indexes the only row of a table with the other."""
    g = ModelBuilder()
    numbers = g.constant(np.full((1, 8), 12, np.int32))
    by = g.input("by", (1, 8), "int32")
    (quotient,) = g.operator("FLOOR_DIV", [numbers, by], [Spec((1, 8), "int32")], options_type="FloorDivOptions")
    g.output(quotient, "quotient")
    return g.write(folder / "divided.tflite")


def indexed(folder: Path) -> Path:
    g = ModelBuilder()
    row, places = g.constant(np.ones((1, 4), np.float32)), g.input("places", (3,), "int32")
    (found,) = g.operator("GATHER", [row, places], [Spec((3, 4))], options_type="GatherOptions", axis=0)
    g.output(found, "found")
    return g.write(folder / "indexed.tflite")


@pytest.mark.parametrize(("draw", "answer"), [(divided, 12), (indexed, 1)])
def test_whole_numbers_are_made_up_until_the_model_runs(draw: Any, answer: int, tmp_path: Path) -> None:
    subject = Subject(*open_model(draw(tmp_path)))
    found = answers_of(LocalTarget(), subject, ())
    assert isinstance(found, Answers)
    assert all((outputs[0] == answer).all() for outputs in found.samples)


def test_rounding_is_what_other_kernels_differ_by(tmp_path: Path) -> None:
    path = tmp_path / "m.tflite"
    path.write_bytes(mobilenet_like())
    candidate, graph = open_model(path)
    assert 0 < own_rounding(LocalTarget(), Subject(candidate, graph), ()) < MOST_ROUNDING
    gpu, _ = open_model(path, Plan(accelerator="gpu"))
    assert own_rounding(LocalTarget(), Subject(gpu, graph), ()) == 0
