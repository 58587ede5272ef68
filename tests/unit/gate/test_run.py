"""A whole gate on small models: what it says of limits that only an evaluation can decide."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from hasten.api import Data, Effort, check
from hasten.core.errors import DataError, UsageError
from hasten.core.failure import MEMORY_LIMIT, Failure
from hasten.evaluate.run import evaluate
from hasten.gate.request import CheckRequest
from hasten.gate.words import figures
from tests.model_builder import ModelBuilder
from tests.unit.gate.test_floor import shifted

if TYPE_CHECKING:
    from pathlib import Path

    from hasten.gate.facts import CheckFound

QUICK = Effort(0.1)


def values(folder: Path, samples: int = 40) -> str:
    """Vectors that are their own labels."""
    x = np.random.default_rng(0).random((samples, 4), np.float32)
    np.savez(folder / "data.npz", x=x, y=x)
    return str(folder / "data.npz")


def overflowing(folder: Path) -> tuple[str, str]:
    """A model that answers 30 % of the samples with infinity and the rest rightly; and the samples."""
    g = ModelBuilder()
    g.output(g.mul(g.input("x", (1, 4)), g.constant(np.full((1, 4), 1e38, np.float32))), "y")
    x = np.random.default_rng(0).random((200, 4), np.float32)
    np.savez(folder / "classes.npz", x=np.where(np.arange(200)[:, None] < 60, 9 * (x + 1), x), y=x.argmax(axis=1))
    return str(g.write(folder / "new.tflite")), str(folder / "classes.npz")


def verdicts(found: CheckFound) -> dict[str, str]:
    return {row.name: row.verdict.value for row in found.rows}


@pytest.mark.parametrize(
    ("limits", "undecided"),
    [({}, ["accuracy lost against old.tflite"]), ({"accuracy": 0.5}, ["accuracy", "accuracy lost against old.tflite"])],
    ids=["drop", "both"],
)
def test_a_model_too_large_to_be_evaluated_does_not_pass(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limits: dict[str, Any], undecided: list[str]
) -> None:
    def exhausted(target: Any, candidate: Any, *arguments: Any, **named: Any) -> Any:
        if candidate.path.name == "old.tflite":
            return evaluate(target, candidate, *arguments, **named)
        return Failure("evaluate", "out of memory", "The runner ran out of memory.", code=MEMORY_LIMIT)

    monkeypatch.setattr("hasten.gate.run.evaluate", exhausted)
    old, new = shifted(tmp_path / "old.tflite", 0.1), shifted(tmp_path / "new.tflite", 0.1)
    request = CheckRequest(data=Data(values(tmp_path)), baseline_model=str(old))
    found = check(new, request.with_limits({"memory": "9 GB", "max_slowdown": "900 %", **limits}), effort=QUICK)
    assert verdicts(found)["memory"] == "failed"
    assert [name for name, verdict in verdicts(found).items() if verdict == "undecided"] == undecided
    assert not found.is_open
    if limits:  # of the mean error of a vector
        assert figures(found.rows[-2]) == ("unknown", "", "at most 0.5")


@pytest.mark.parametrize("against", [True, False], ids=["baseline", "limit"])
def test_a_models_own_failures_are_not_skipped(tmp_path: Path, against: bool) -> None:
    model, data = overflowing(tmp_path)
    old = shifted(tmp_path / "old.tflite", 0.1)
    limits = {"max_slowdown": "900 %"} if against else {"accuracy": "95 %"}
    request = CheckRequest(data=Data(data, skip_bad=True), baseline_model=str(old) if against else "")
    with pytest.raises(DataError, match=r"The model answered .* with infinity in output 'y'") as caught:
        check(model, request.with_limits(limits), effort=QUICK)
    assert "--skip-bad" in caught.value.hint


def test_top_5_of_four_classes_keeps_no_limit(tmp_path: Path) -> None:
    _, data = overflowing(tmp_path)
    request = CheckRequest(data=Data(data, metric="top-5")).with_limits({"accuracy": "95 %"})
    with pytest.raises(UsageError, match="top-5 of 4 classes is always right"):
        check(shifted(tmp_path / "new.tflite", 0.1), request, effort=QUICK)


def test_samples_that_the_baseline_fails_on_too_are_left_out(tmp_path: Path) -> None:
    model, data = overflowing(tmp_path)
    request = CheckRequest(data=Data(data, skip_bad=True), baseline_model=model)
    found = check(model, request.with_limits({"max_slowdown": "900 %"}), effort=QUICK)
    assert found.rows[-1].verdict.value == "passed"
