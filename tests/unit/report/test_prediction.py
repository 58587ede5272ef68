"""What `hasten run` shows: the most likely class first, or a row for each output."""

from __future__ import annotations

import numpy as np

from hasten.core.plan import Plan
from hasten.core.remark import said
from hasten.evaluate.prediction import Prediction, TopClass
from hasten.report.prediction import document, view
from hasten.show.terminal import terminal_text

_SCORES = np.array([[0.1, 0.9]], np.float32)


def _found(top: tuple[TopClass, ...], **parts: object) -> Prediction:
    outputs = parts.pop("outputs", {"scores": _SCORES})
    return Prediction("folder/model.tflite", Plan(threads=2), outputs, top, "raw", (said("A note."),), **parts)  # type: ignore[arg-type]


def test_the_most_likely_class_comes_first() -> None:
    top = (TopClass(1, "dog\x1b[31m", 0.9), TopClass(0, "", 0.1))
    text = terminal_text(view(_found(top)))
    assert text.splitlines()[0] == "Most likely: dog [31m (0.9)."
    assert "\x1b" not in text
    assert "! A note." in text
    unnamed = terminal_text(view(_found((TopClass(1, "", 0.9),))))
    assert unnamed.splitlines()[0] == "Most likely: class 1 (0.9)."
    assert "label" not in unnamed


def test_outputs_without_classes_have_a_row_each() -> None:
    outputs = {"boxes": np.arange(12, dtype=np.float32).reshape(3, 4), "count": np.array(3), "none": np.zeros((0, 4))}
    lines = terminal_text(view(_found((), outputs=outputs, saved="y.npz"))).splitlines()
    assert lines[0] == "The model computed 3 outputs."
    assert lines[3].split() == ["boxes", "float32", "3x4", "0", "5.5", "11", "0", "1", "2", "3"]
    assert any(line.split() == ["saved", "to", "y.npz"] for line in lines)


def test_the_document_keeps_its_keys() -> None:
    found = document(_found((TopClass(1, "dog", 0.9),)))
    assert set(found) == {"model", "plan", "outputs", "top", "preprocess", "notes", "output"}
    assert set(found["outputs"][0]) == {"name", "type", "shape", "min", "max", "mean", "non_finite", "values"}
    assert found["top"] == [{"index": 1, "label": "dog", "value": 0.9}]
    assert found["output"] is None


def test_values_that_are_no_numbers_come_first() -> None:
    found = _found((), outputs={"scores": np.array([[np.nan, 0.9], [np.inf, 1.0]], np.float32)})
    assert terminal_text(view(found)).splitlines()[0] == "2 of 4 output values are NaN or infinite."
    assert document(found)["outputs"][0]["non_finite"] == 2
