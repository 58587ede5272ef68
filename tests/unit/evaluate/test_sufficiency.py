"""What data can decide: chance, few samples, floors that cannot be set."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from hasten.core.accuracy import Accuracy, Kind
from hasten.data.dataset import Dataset, Sample
from hasten.data.metrics import Cosine, FunctionMetric, MeanAbsoluteError, MeanIoU, TopK
from hasten.evaluate.floor import Floor
from hasten.evaluate.intervals import wilson_interval
from hasten.evaluate.sufficiency import commonest_label, doubt_by_chance, trust_in


def original(metric: Any, value: float, samples: int, *, kind: Kind = Kind.ACCURACY, references: Any = None) -> Any:
    """An evaluation, as far as it is asked for."""
    low, high = (0.0, 1.0)
    if metric.proportion:
        found = wilson_interval(round(value * samples), samples)
        low, high = found.low, found.high
    accuracy = Accuracy(metric.name, value, low, high, samples, "data.npz", kind)
    return SimpleNamespace(
        accuracy=accuracy, metric=metric, positions=tuple(range(samples)), references=references or {}
    )


@pytest.mark.parametrize(
    ("right", "samples", "classes"), [(0, 50, 1001), (6, 50, 10), (12, 100, 10), (26, 50, 1), (27, 50, 2)]
)
def test_an_original_that_may_be_guessing_decides_nothing(right: int, samples: int, classes: int) -> None:
    found = trust_in(Floor(original(TopK(1), right / samples, samples), 0.01), classes)
    assert "not surely better than chance" in found.against
    said = "no better than chance" if right * max(2, classes) <= samples else "not surely better than chance"
    assert said in found.doubts[0]
    assert f"right in {right} of {samples} samples" in found.doubts[0]
    assert f"1 in {max(2, classes)} classes" in found.doubts[0]
    assert "--label-offset" in found.doubts[0]


@pytest.mark.parametrize(("right", "classes"), [(10, 1001), (30, 10), (95, 2)])
def test_one_that_is_surely_better_than_chance_is_trusted(right: int, classes: int) -> None:
    found = trust_in(Floor(original(TopK(1), right / 100, 100), 0.01), classes)
    assert (found.against, found.doubts) == ("", ())


def test_two_halves_are_weighed_together() -> None:
    lucky, unlucky, right = (original(TopK(1), share, 30) for share in (0.4, 0.03, 0.3))
    assert "right in 13 of 60 samples" in doubt_by_chance([lucky, unlucky], 5)
    assert doubt_by_chance([lucky, right], 5) == ""


@pytest.mark.parametrize(
    ("metric", "outputs", "references", "why"),
    [
        (Cosine(), 1, {}, "cosine of one value is 1"),
        (TopK(1), 5, dict.fromkeys(range(20), 3), "number 3 for all of 20 samples"),
    ],
)
def test_agreement_that_any_variant_would_reach_tells_nothing(
    metric: Any, outputs: int, references: Any, why: str
) -> None:
    agrees = original(metric, 1.0, 20, kind=Kind.AGREEMENT, references=references)
    found = trust_in(Floor(agrees, 0.01), outputs)
    assert found.against
    assert why in found.doubts[0]
    assert "--metric" in found.doubts[0]
    told = original(metric, 1.0, 20, kind=Kind.AGREEMENT, references={n: n % 2 for n in range(20)})
    assert not trust_in(Floor(told, 0.01), 5).against


def test_top_5_of_4_classes_tells_nothing() -> None:
    found = trust_in(Floor(original(TopK(5), 1.0, 100), 0.01), 4)
    assert found.against
    assert "always right" in found.doubts[0]


def test_agreement_with_itself_is_no_matter_of_chance() -> None:
    assert not trust_in(Floor(original(TopK(1), 1.0, 100, kind=Kind.AGREEMENT), 0.01), 2).against
    assert not trust_in(Floor(original(TopK(1), 1.0, 2, kind=Kind.UNKNOWN), 0.01), 10).doubts


def test_few_samples_are_a_doubt_and_fewer_decide_nothing() -> None:
    few = trust_in(Floor(original(TopK(1), 1.0, 29), 0.01), 10)
    assert not few.against
    assert "with 29 samples to choose by, one miss is 3.4 %" in few.doubts[0]
    assert "a kept floor says little" in few.doubts[0]
    assert trust_in(Floor(original(TopK(1), 1.0, 9), 0.01), 10).against == "there are only 9 samples to choose by"
    assert not trust_in(Floor(original(TopK(1), 1.0, 40), 0.05), 10).doubts
    assert not trust_in(Floor(original(TopK(1), 1.0, 100), 0.0), 10).doubts
    assert "only 12 samples" in trust_in(Floor(original(Cosine(), 1.0, 12), 0.01), 10).doubts[0]


@pytest.mark.parametrize("metric", [TopK(1), MeanIoU(), Cosine()])
def test_shares_lose_points(metric: Any) -> None:
    floor = Floor(original(metric, 0.5, 100), 0.01)
    assert (floor.allowed, floor.as_data()["kind"]) == (0.01, "points")
    assert floor.lost(0.012) == ("0.012 of cosine" if metric.name == "cosine" else "1.2 %")


@pytest.mark.parametrize("metric", [MeanAbsoluteError(), FunctionMetric("my:metric", lambda outputs, label: 1.0)])
def test_what_is_no_share_loses_a_part_of_its_value(metric: Any) -> None:
    floor = Floor(original(metric, 7.6e-5, 100), 0.01)
    assert floor.allowed == pytest.approx(7.6e-7)
    assert not floor.keeps(1e-6)
    assert floor.keeps(7.6e-7)
    assert floor.as_data() | {"kind": "relative", "relative_to": 7.6e-5} == floor.as_data()
    assert "1.0 % (7.6e-07) worse than the original's 7.6e-05" in floor.describe()
    assert floor.lost(1.52e-6) == f"1.52e-06 of {metric.name} (2.0 % of the original's)"


def test_an_error_of_nothing_is_related_to_the_outputs_or_to_nothing() -> None:
    references = {0: np.array([1.0, -3.0]), 1: np.array([4.0, 0.0])}
    known = Floor(original(MeanAbsoluteError(), 0.0, 50, kind=Kind.AGREEMENT, references=references), 0.01)
    assert known.allowed == pytest.approx(0.02)
    assert "mean size of the outputs" in known.describe()
    unknown = Floor(original(MeanAbsoluteError(), 0.0, 50), 0.01)
    assert unknown.allowed is None
    assert not unknown.keeps(0.0)
    assert "mae is 0" in trust_in(unknown, 10).against
    nothing_lost = Floor(original(MeanAbsoluteError(), 0.0, 50), 0.0)
    assert nothing_lost.keeps(0.0)
    assert not trust_in(nothing_lost, 10).against


@pytest.mark.parametrize(("value", "doubts"), [(0.97, 1), (0.9, 1), (1.0, 0)])
def test_one_label_for_nearly_all_is_a_doubt(value: float, doubts: int) -> None:
    found = trust_in(Floor(original(TopK(1), value, 200), 0.01), 10, commonest=0.96)
    assert found.against == ""
    assert len(found.doubts) == doubts
    assert all("96 % of the samples have the same label" in doubt for doubt in found.doubts)


def test_the_commonest_label_is_counted_whatever_its_form() -> None:
    def share(labels: list[Any]) -> float:
        return commonest_label(Dataset("d", [Sample("s", (), label) for label in labels], labelled=True))

    assert share([1, 1, 1, 0]) == share(["a", "a", "a", "b"]) == share([1.0, 1.0, 1.0, 2.0]) == 0.75
    assert share(list(np.eye(3)[[1, 1, 1, 2]])) == 0.75
    assert share([0.5, 0.5, 0.7]) == share([np.zeros(4)] * 3) == 0


def test_masks_with_one_class_tell_nothing() -> None:
    """Binary masks often hold 0 and 255, of which 255 is what does not count."""
    mask = np.where(np.arange(64).reshape(8, 8) % 3 == 0, 255, 0).astype(np.uint8)
    for label, is_blind in ((mask, True), (mask // 255, False)):
        metric = MeanIoU()
        scored = [metric.score([np.zeros((1, 8, 8))], label).statistics for _ in range(20)]
        evaluated = original(metric, 1.0, 20)
        evaluated.statistics = np.stack(scored)
        found = trust_in(Floor(evaluated, 0.01), 64)
        assert bool(found.against) == is_blind
        assert any("single class beside 255" in doubt for doubt in found.doubts) == is_blind
