"""What data can decide: chance, few samples, floors that cannot be set."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from hasten.core.accuracy import Accuracy, Kind
from hasten.core.remark import Remark, remark
from hasten.data.dataset import Dataset, Sample
from hasten.data.metrics import Cosine, FunctionMetric, MeanAbsoluteError, MeanIoU, TopK
from hasten.evaluate import words
from hasten.evaluate.floor import baseline_of, floor_of_original
from hasten.evaluate.intervals import wilson_interval
from hasten.evaluate.sufficiency import Sufficiency, commonest_label, data_sufficiency, doubt_by_chance
from hasten.evaluate.words import floor_data, floor_text, loss_text


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
    found = data_sufficiency(baseline_of(original(TopK(1), right / samples, samples), 0.01), classes)
    classes = max(2, classes)
    above = right * classes > samples
    facts = {"right": right, "samples": samples, "k": 1, "classes": classes, "above_chance": above}
    assert found == Sufficiency(remark(words.BY_CHANCE), (Remark(words.GUESSING, facts),))
    assert "--label-offset" in words.told(found.doubts[0])


@pytest.mark.parametrize(("right", "classes"), [(10, 1001), (30, 10), (95, 2)])
def test_one_that_is_surely_better_than_chance_is_trusted(right: int, classes: int) -> None:
    found = data_sufficiency(baseline_of(original(TopK(1), right / 100, 100), 0.01), classes)
    assert found == Sufficiency()


def test_two_halves_are_weighed_together() -> None:
    lucky, unlucky, right = (original(TopK(1), share, 30) for share in (0.4, 0.03, 0.3))
    together = doubt_by_chance([lucky, unlucky], 5)
    assert together is not None
    assert (together.facts["right"], together.facts["samples"]) == (13, 60)
    assert doubt_by_chance([lucky, right], 5) is None


@pytest.mark.parametrize(
    ("metric", "outputs", "references", "why"),
    [
        (Cosine(), 1, {}, remark(words.COSINE_OF_ONE)),
        (TopK(1), 5, dict.fromkeys(range(20), 3), remark(words.ONE_ANSWER, output=3, samples=20)),
    ],
)
def test_agreement_that_any_variant_would_reach_tells_nothing(
    metric: Any, outputs: int, references: Any, why: Remark
) -> None:
    agrees = original(metric, 1.0, 20, kind=Kind.AGREEMENT, references=references)
    found = data_sufficiency(baseline_of(agrees, 0.01), outputs)
    assert found == Sufficiency(remark(words.BLIND, metric=metric.name), (why,))
    assert "--metric" in words.told(why)
    told = original(metric, 1.0, 20, kind=Kind.AGREEMENT, references={n: n % 2 for n in range(20)})
    assert not data_sufficiency(baseline_of(told, 0.01), 5).against


def test_agreement_with_itself_is_no_matter_of_chance() -> None:
    assert not data_sufficiency(baseline_of(original(TopK(1), 1.0, 100, kind=Kind.AGREEMENT), 0.01), 2).against
    assert not data_sufficiency(baseline_of(original(TopK(1), 1.0, 2, kind=Kind.UNKNOWN), 0.01), 10).doubts


def test_few_samples_are_a_doubt_and_fewer_decide_nothing() -> None:
    few = data_sufficiency(baseline_of(original(TopK(1), 1.0, 29), 0.01), 10)
    assert few == Sufficiency(doubts=(remark(words.COARSE, samples=29, miss=1 / 29, max_drop=0.01),))
    assert data_sufficiency(baseline_of(original(TopK(1), 1.0, 9), 0.01), 10).against == remark(
        words.TOO_FEW, samples=9
    )
    assert not data_sufficiency(baseline_of(original(TopK(1), 1.0, 40), 0.05), 10).doubts
    assert not data_sufficiency(baseline_of(original(TopK(1), 1.0, 100), 0.0), 10).doubts
    cosine = data_sufficiency(baseline_of(original(Cosine(), 1.0, 12), 0.01), 10)
    assert cosine.doubts == (remark(words.FEW, samples=12),)


@pytest.mark.parametrize("metric", [TopK(1), MeanIoU(), Cosine()])
def test_shares_lose_points(metric: Any) -> None:
    floor = floor_of_original(original(metric, 0.5, 100), 0.01)
    assert (floor.allowed, floor.kind) == (0.01, "points")
    assert loss_text(floor, 0.012) == ("0.012 of cosine" if metric.name == "cosine" else "1.2 %")


@pytest.mark.parametrize("metric", [MeanAbsoluteError(), FunctionMetric("my:metric", lambda outputs, label: 1.0)])
def test_what_is_no_share_loses_a_part_of_its_value(metric: Any) -> None:
    floor = floor_of_original(original(metric, 7.6e-5, 100), 0.01)
    assert floor.allowed == pytest.approx(7.6e-7)
    assert not floor.keeps(1e-6)
    assert floor.keeps(7.6e-7)
    assert floor_data(floor) | {"kind": "relative", "relative_to": 7.6e-5} == floor_data(floor)
    assert "1.0 % (7.6e-07) worse than the original's 7.6e-05" in floor_text(floor)
    assert loss_text(floor, 1.52e-6) == f"1.52e-06 of {metric.name} (2.0 % of the original's)"


def test_an_error_of_nothing_is_related_to_the_outputs_or_to_nothing() -> None:
    references = {0: np.array([1.0, -3.0]), 1: np.array([4.0, 0.0])}
    known = baseline_of(original(MeanAbsoluteError(), 0.0, 50, kind=Kind.AGREEMENT, references=references), 0.01)
    assert known.floor.allowed == pytest.approx(0.02)
    assert "mean magnitude of the outputs" in floor_text(known.floor)
    unknown = baseline_of(original(MeanAbsoluteError(), 0.0, 50), 0.01)
    assert unknown.floor.allowed is None
    assert not unknown.floor.keeps(0.0)
    assert data_sufficiency(unknown, 10).against == remark(words.NO_FLOOR, metric="mae")
    nothing_lost = baseline_of(original(MeanAbsoluteError(), 0.0, 50), 0.0)
    assert nothing_lost.floor.keeps(0.0)
    assert not data_sufficiency(nothing_lost, 10).against


@pytest.mark.parametrize(("value", "doubts"), [(0.97, 1), (0.9, 1), (1.0, 0)])
def test_one_label_for_nearly_all_is_a_doubt(value: float, doubts: int) -> None:
    found = data_sufficiency(baseline_of(original(TopK(1), value, 200), 0.01), 10, commonest=0.96)
    assert found.against is None
    assert found.doubts == (remark(words.ONE_LABEL, share=0.96, value=value),) * doubts


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
        found = data_sufficiency(baseline_of(evaluated, 0.01), 64)
        assert bool(found.against) == is_blind
        assert (remark(words.ONE_CLASS) in found.doubts) == is_blind
