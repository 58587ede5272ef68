"""The same drop is allowed by a gate as by a search for variants."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from hasten.api import Data, Effort, SearchSettings, check, quantize
from hasten.gate.request import CheckRequest
from hasten.gate.words import BOOK
from tests.model_builder import ModelBuilder

if TYPE_CHECKING:
    from pathlib import Path


def shifted(path: Path, by: float) -> Path:
    """A model that adds a constant to its input."""
    g = ModelBuilder()
    g.output(g.add(g.input("x", (1, 4)), g.constant(np.full((1, 4), by, np.float32))), "y")
    return g.write(path)


@pytest.mark.parametrize(("allowed", "verdict"), [("1 %", "failed"), ("10 %", "passed")])
def test_an_error_may_grow_by_a_part_of_the_older_models(tmp_path: Path, allowed: str, verdict: str) -> None:
    old, new = shifted(tmp_path / "old.tflite", 0.1), shifted(tmp_path / "new.tflite", 0.105)
    x = np.random.default_rng(0).random((40, 4), np.float32)
    np.savez(tmp_path / "data.npz", x=x, y=x)
    data = str(tmp_path / "data.npz")
    request = CheckRequest(data=Data(data), baseline_model=str(old))
    found = check(new, request.with_limits({"max_slowdown": "900 %", "max_drop": allowed}), effort=Effort(0.1))
    row = found.rows[-1]
    assert row.verdict.value == verdict
    floor = quantize(
        old,
        tmp_path / "out",
        data=Data(data),
        settings=SearchSettings(recipes=("float16",), mix=False, max_drop=found.limits.max_drop),
        effort=Effort(0.1),
    ).floor
    assert floor["kind"] == "relative"
    assert row.limit == pytest.approx(floor["allowed"], rel=1e-3)
    assert "worse than old.tflite's 0.1" in BOOK.text(row.why)


@pytest.mark.parametrize("samples", [2, 10])
def test_a_handful_of_right_answers_by_ones_own_metric_decides_nothing(
    tmp_path: Path, samples: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = shifted(tmp_path / "old.tflite", 0.1), shifted(tmp_path / "new.tflite", 0.105)
    (tmp_path / "my_scores.py").write_text("def right(outputs, label):\n    return 1.0\n")
    monkeypatch.syspath_prepend(tmp_path)
    x = np.random.default_rng(0).random((samples, 4), np.float32)
    np.savez(tmp_path / "data.npz", x=x, y=x)
    request = CheckRequest(data=Data(str(tmp_path / "data.npz"), metric="my_scores:right"), baseline_model=str(old))
    found = check(new, request.with_limits({"accuracy": "99 %", "max_slowdown": "900 %"}), effort=Effort(0.1))
    assert [row.verdict.value for row in found.rows[1:]] == ["undecided", "undecided"]
    assert found.rows[1].why.facts["needed"] > 100
