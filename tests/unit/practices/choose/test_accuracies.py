"""Accuracies are compared where they are of the same kind and samples, with what is sure of the difference."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from simulated import candidate

from hasten.core.accuracy import Accuracy
from hasten.core.errors import DataError
from hasten.core.failure import Failure
from hasten.core.session import Line
from hasten.data.metrics import TopK, metric_from_text
from hasten.data.request import Data
from hasten.evaluate.evaluation import Evaluation, Skipped
from hasten.evaluate.intervals import wilson_interval
from hasten.measure.effort import Effort
from hasten.measure.rounds import no_progress
from hasten.practices.choose.accuracies import Accuracies, Scores
from hasten.practices.choose.candidates import Contender
from hasten.practices.choose.facts import ModelRow, Source
from tests.unit.fake_target import FakeTarget

if TYPE_CHECKING:
    from pathlib import Path

SAMPLES = 400


class Target(FakeTarget):
    name = "none"

    def start(self, plan: object) -> Any:
        raise AssertionError("nothing runs here")


def scores(right: int, shift: int = 0) -> Scores:
    hits = np.roll(np.arange(SAMPLES) < right, shift).astype(np.float64)
    return Scores(tuple(range(SAMPLES)), hits[:, None])


def figure(right: int) -> Accuracy:
    found = wilson_interval(right, SAMPLES)
    return Accuracy("top-1", found.estimate, found.low, found.high, SAMPLES, "images")


def measured(**right: int) -> Accuracies:
    found = Accuracies()
    for name, count in right.items():
        found.add_measured(name, figure(count), scores(count), TopK(1))
    return found


def test_a_difference_on_the_same_samples_is_surer_than_two_intervals() -> None:
    """20 of 400 samples more, and none less: the intervals of both overlap, the difference is sure."""
    found = measured(a=300, b=280)
    gain = found.gain("a", "b")
    assert gain is not None
    assert gain.estimate == pytest.approx(0.05)
    assert gain.low > 0
    assert figure(300).low < figure(280).high
    back = found.gain("b", "a")
    assert back is not None
    assert (back.estimate, back.low, back.high) == (-gain.estimate, -gain.high, -gain.low)


def test_right_on_other_samples_is_not_sure() -> None:
    found = measured(a=300)
    found.add_measured("b", figure(296), scores(296, shift=200), TopK(1))
    gain = found.gain("a", "b")
    assert gain is not None
    assert gain.low < 0 < gain.high


def test_only_samples_of_both_count() -> None:
    found = measured(a=300)
    half = Scores(tuple(range(SAMPLES // 2)), np.ones((SAMPLES // 2, 1)))
    found.add_measured("b", figure(200), half, TopK(1))
    gain = found.gain("a", "b")
    assert gain is not None
    assert gain.estimate == 0


def published(name: str, value: float, metric: str = "top-1") -> ModelRow:
    accuracy = Accuracy(metric, value, -math.inf, math.inf, 0, "a paper")
    return ModelRow(name, name, "float32", 1, accuracy=accuracy, accuracy_source=Source.PUBLISHED)


def test_published_figures_are_taken_as_they_stand_and_never_mixed_with_measured_ones() -> None:
    found = measured(mine=300)
    found.add_published([published("a", 0.7), published("b", 0.6), published("c", 0.9, "top-5")])
    gain = found.gain("a", "b")
    assert gain is not None
    assert gain.low == gain.high == pytest.approx(0.1)
    assert found.gain("mine", "a") is None
    assert found.gain("a", "c") is None
    assert found.gain("a", "nobody") is None


def test_less_is_better_of_an_error() -> None:
    found = Accuracies()
    source = np.random.default_rng(0)
    for name, error in (("good", 0.1), ("bad", 0.4)):
        values = Scores(tuple(range(SAMPLES)), source.normal(error, 0.02, (SAMPLES, 1)))
        accuracy = Accuracy("mae", error, error, error, SAMPLES, "table", higher_is_better=False)
        found.add_measured(name, accuracy, values, metric_from_text("mae"))
    gain = found.gain("good", "bad")
    assert gain is not None
    assert gain.low > 0.2


@pytest.fixture
def data(tmp_path: Path) -> Data:
    path = tmp_path / "data.npz"
    np.savez(path, x=np.zeros((4, 2), np.float32), y=np.array([0, 1, 0, 1]))
    return Data(str(path))


def contender(data: Data, name: str = "m") -> Contender:
    return Contender(ModelRow(name, name, "float32", 1), candidate(name), data)


def evaluation(right: int) -> Evaluation:
    taken = scores(right)
    return Evaluation(
        figure(right), TopK(1), taken.positions, ("x",) * SAMPLES, taken.statistics, {}, (), 0, (), None, 1.0, 1, 0
    )


def test_what_was_measured_is_saved_and_found_again_for_the_same_model_and_data(
    monkeypatch: pytest.MonkeyPatch, data: Data
) -> None:
    monkeypatch.setattr("hasten.practices.choose.accuracies.evaluate", lambda *_, **__: evaluation(300))
    lines: list[Line] = []
    effort = Effort(on=Target(), keep=lambda kind, label, data: lines.append(Line(kind, label, "", data)))
    first = Accuracies()
    assert first.measure(contender(data), effort, no_progress) is None
    second = Accuracies()
    assert second.restore(contender(data), lines)
    assert second.known == first.known
    second.add_measured("other", figure(100), scores(100), TopK(1))
    gain = second.gain("m", "other")
    assert gain is not None
    assert gain.estimate == pytest.approx(0.5)
    assert not Accuracies().restore(contender(Data(data.source, label_offset=1)), lines)
    assert not Accuracies().restore(contender(data, "another"), lines)
    np.savez(data.source, x=np.ones((4, 2), np.float32), y=np.array([0, 1, 0, 1]))
    assert not Accuracies().restore(contender(data), lines)


def test_what_was_measured_by_older_rules_is_measured_anew(monkeypatch: pytest.MonkeyPatch, data: Data) -> None:
    monkeypatch.setattr("hasten.practices.choose.accuracies.evaluate", lambda *_, **__: evaluation(300))
    lines: list[Line] = []
    effort = Effort(on=Target(), keep=lambda kind, label, data: lines.append(Line(kind, label, "", data)))
    Accuracies().measure(contender(data), effort, no_progress)
    lines[0].data["compared"].pop("rules", None)  # the first rules had no number
    assert not Accuracies().restore(contender(data), lines)


def test_a_session_loads_no_code_that_was_not_asked_for(monkeypatch: pytest.MonkeyPatch, data: Data) -> None:
    monkeypatch.setattr("hasten.practices.choose.accuracies.evaluate", lambda *_, **__: evaluation(300))
    lines: list[Line] = []
    effort = Effort(on=Target(), keep=lambda kind, label, data: lines.append(Line(kind, label, "", data)))
    Accuracies().measure(contender(data), effort, no_progress)
    lines[0].data["metric"] = "os:getcwd"
    assert not Accuracies().restore(contender(data), lines)


@pytest.mark.parametrize(
    "damage",
    [
        {"positions": [0, 1, 2]},
        {"positions": list(range(2 * SAMPLES))},
        {"positions": list(range(SAMPLES))[::-1]},
        {"positions": ["x"] * SAMPLES},
        {"statistics": [1.0] * SAMPLES},
        {"statistics": "x"},
        {"statistics": []},
        {"value": "x"},
        {"ci95": ["x", 1]},
    ],
    ids=lambda damage: str(damage)[:30],
)
def test_damaged_scores_end_in_a_sentence(
    monkeypatch: pytest.MonkeyPatch, data: Data, damage: dict[str, object]
) -> None:
    monkeypatch.setattr("hasten.practices.choose.accuracies.evaluate", lambda *_, **__: evaluation(300))
    lines: list[Line] = []
    effort = Effort(on=Target(), keep=lambda kind, label, data: lines.append(Line(kind, label, "", data)))
    Accuracies().measure(contender(data), effort, no_progress)
    lines[0].data.update(damage)
    with pytest.raises(DataError, match="is damaged"):
        Accuracies().restore(contender(data), lines)


def test_scores_of_two_widths_are_not_compared() -> None:
    found = Accuracies()
    for name, width in (("one", 1), ("other", 2)):
        found.add_measured(name, figure(100), Scores(tuple(range(SAMPLES)), np.zeros((SAMPLES, width))), TopK(1))
    with pytest.raises(DataError, match="do not fit together"):
        found.gain("one", "other")


def test_a_model_is_not_judged_without_the_samples_that_it_fails_on(
    monkeypatch: pytest.MonkeyPatch, data: Data
) -> None:
    bad = Skipped("s", "The sample is damaged."), Skipped("t", "The model answered t with NaN.", by_model=True)
    found = replace(evaluation(300), skipped=bad)
    monkeypatch.setattr("hasten.practices.choose.accuracies.evaluate", lambda *_, **__: found)
    accuracies = Accuracies()
    with pytest.raises(DataError, match="answered t with NaN"):
        accuracies.measure(contender(data), Effort(on=Target()), no_progress)
    assert not accuracies.known


def test_a_failure_of_runners_is_a_value_and_data_without_labels_an_error(
    monkeypatch: pytest.MonkeyPatch, data: Data, tmp_path: Path
) -> None:
    failure = Failure("run", "crash", "it died")
    monkeypatch.setattr("hasten.practices.choose.accuracies.evaluate", lambda *_, **__: failure)
    assert Accuracies().measure(contender(data), Effort(on=Target()), no_progress) is failure
    bare = tmp_path / "bare.npz"
    np.savez(bare, x=np.zeros((4, 2), np.float32))
    with pytest.raises(DataError, match="no labels"):
        Accuracies().measure(contender(Data(str(bare))), Effort(on=Target()), no_progress)
