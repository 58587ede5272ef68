"""Metrics against plain formulas; ties; masks; metrics of the user's own."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from hasten.core.accuracy_notes import NOTES
from hasten.core.errors import DataError, UsageError
from hasten.data.dataset import Dataset, Sample
from hasten.data.images import mask_from_file
from hasten.data.metric_choice import default_metric, telling_label
from hasten.data.metrics import (
    Cosine,
    FunctionMetric,
    MeanAbsoluteError,
    MeanIoU,
    TopK,
    class_map,
    metric_from_text,
    nearest_resized,
)

if TYPE_CHECKING:
    from pathlib import Path

few_values = st.lists(st.integers(0, 5), min_size=2, max_size=12)


@given(few_values, st.data(), st.sampled_from([1, 5]))
def test_top_k_is_a_stable_sort(values: list[int], data: st.DataObject, k: int) -> None:
    label = data.draw(st.integers(0, len(values) - 1))
    order = np.argsort(-np.array(values), kind="stable")
    found = TopK(k).score([np.array([values], np.float32)], label)
    assert bool(found.statistics[0]) == (label in order[:k])
    ranked = sorted(values, reverse=True)
    assert found.tied == (len(values) > k and ranked[k - 1] == ranked[k])
    assert TopK(k).reference([np.array([values])]) == order[0]


def test_one_output_is_the_probability_of_class_1() -> None:
    assert TopK(1).score([np.array([[0.7]])], 1).statistics[0] == 1
    assert TopK(1).score([np.array([[0.2]])], 0).statistics[0] == 1


def test_errors_and_cosines() -> None:
    assert MeanAbsoluteError().score([np.array([[1.0, 3.0]])], np.array([2.0, 5.0])).statistics[0] == 1.5
    assert Cosine().score([np.array([[1.0, 0.0]])], np.array([2.0, 0.0])).statistics[0] == 1
    assert Cosine().score([np.array([[1.0, 0.0]])], np.array([0.0, 3.0])).statistics[0] == 0
    assert Cosine().score([np.zeros(2)], np.zeros(2)).statistics[0] == 1
    assert Cosine().score([np.zeros(2)], np.ones(2)).statistics[0] == 0
    with pytest.raises(DataError, match="2 values, but the label has 3") as caught:
        Cosine().score([np.zeros(2)], np.zeros(3))
    assert "--metric top-1" in caught.value.hint
    assert MeanAbsoluteError().value(np.array([3.0]), 2) == 1.5


@given(st.integers(0, 1000))
def test_mean_iou_over_samples_is_that_of_one_confusion_matrix(seed: int) -> None:
    source = np.random.default_rng(seed)
    masks = source.choice([0, 1, 2, 255], (4, 6, 5))
    found = source.integers(0, 4, (4, 6, 5))
    metric = MeanIoU()
    sums = np.sum([metric.score([one[None]], mask).statistics for one, mask in zip(found, masks, strict=True)], axis=0)
    counted = masks != 255
    wanted = []
    for number in range(4):
        predicted, true = (found == number) & counted, (masks == number) & counted
        if true.any():
            wanted.append((predicted & true).sum() / (predicted | true).sum())
    assert metric.value(sums, 4) == pytest.approx(np.mean(wanted))


def test_maps_and_scores_of_classes_are_both_read() -> None:
    scores = np.random.default_rng(0).random((1, 5, 6, 3))
    np.testing.assert_array_equal(class_map(scores), scores[0].argmax(-1))
    assert class_map(np.ones((1, 5, 6))).shape == (5, 6)
    assert class_map(np.ones((1, 5, 6, 1))).shape == (5, 6)
    with pytest.raises(DataError, match="not a class map"):
        class_map(np.ones((1, 10)))
    with pytest.raises(DataError, match="beyond 0 to 254"):
        MeanIoU().score([np.zeros((2, 2))], np.full((2, 2), -1))
    np.testing.assert_array_equal(np.asarray(MeanIoU().reference([scores])), scores[0].argmax(-1))


@pytest.mark.parametrize(
    ("height", "width", "classes", "mask"),
    [
        (128, 192, 19, (256, 384)),
        (32, 48, 171, (480, 720)),  # more classes than pixels in a row
        (129, 257, 19, (1025, 2049)),  # rounded
        (33, 33, 171, (375, 500)),  # a square that the photo was pressed into
        (128, 192, 19, (480, 480)),
        (32, 48, 171, (32, 48)),
    ],
)
def test_classes_are_found_in_the_first_or_the_last_dimension(
    height: int, width: int, classes: int, mask: tuple[int, int]
) -> None:
    last = np.random.default_rng(0).random((1, height, width, classes), np.float32)
    for scores in (last, last.transpose(0, 3, 1, 2)):
        np.testing.assert_array_equal(class_map(scores, mask), last[0].argmax(-1))


def test_a_mask_that_does_not_show_where_the_classes_are_is_refused() -> None:
    with pytest.raises(DataError, match="which dimension") as caught:
        MeanIoU().score([np.zeros((1, 32, 48, 171))], np.zeros((480, 480), np.uint8))
    assert "--metric" in caught.value.hint


def test_masks_are_resized_to_the_nearest_pixel() -> None:
    mask = np.arange(12, dtype=np.uint8).reshape(3, 4)
    np.testing.assert_array_equal(nearest_resized(mask, (6, 8)), mask.repeat(2, 0).repeat(2, 1))
    np.testing.assert_array_equal(nearest_resized(mask[..., None], (3, 2)), mask[:, [1, 3]])
    large = np.random.default_rng(0).integers(0, 20, (31, 47), dtype=np.uint8)
    pillow = np.asarray(Image.fromarray(large).resize((20, 13), Image.Resampling.NEAREST))
    np.testing.assert_array_equal(nearest_resized(large, (13, 20)), pillow)
    with pytest.raises(DataError, match="height and width"):
        nearest_resized(np.zeros(3), (1, 1))


def test_masks_come_from_grey_or_palette_files(tmp_path: Path) -> None:
    values = np.array([[0, 15], [255, 3]], np.uint8)
    Image.fromarray(values).save(tmp_path / "gray.png")
    np.testing.assert_array_equal(mask_from_file(tmp_path / "gray.png"), values)
    palette = Image.fromarray(values)
    palette.putpalette([0] * 768)
    palette.save(tmp_path / "palette.png")
    np.testing.assert_array_equal(mask_from_file(tmp_path / "palette.png"), values)
    Image.new("RGB", (2, 2)).save(tmp_path / "rgb.png")
    with pytest.raises(DataError, match=r"rgb\.png is not a mask"):
        mask_from_file(tmp_path / "rgb.png")


@pytest.mark.parametrize(
    ("text", "name"), [("top-1", "top-1"), ("accuracy", "top-1"), ("TOP5", "top-5"), ("miou", "miou"), ("mae", "mae")]
)
def test_metrics_by_name(text: str, name: str) -> None:
    assert metric_from_text(text).name == name


def test_metrics_of_the_users_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_metrics.py").write_text(
        "from hasten.data.metrics import Cosine\n"
        "def largest(outputs, label): return outputs[0].max() - label\n"
        "def broken(outputs, label): return 1 / 0\n"
        "def endless(outputs, label): return float('nan')\n"
        "class Whole(Cosine): name = 'whole'\n"
        "nothing = 3\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "own_metrics", raising=False)
    metric = metric_from_text("own_metrics:largest")
    assert isinstance(metric, FunctionMetric)
    assert metric.score([np.array([1.0, 4.0])], 1).statistics[0] == 3
    assert metric_from_text("own_metrics:Whole").name == "whole"
    with pytest.raises(DataError, match="ZeroDivisionError"):
        metric_from_text("own_metrics:broken").score([np.ones(1)], 1)
    with pytest.raises(DataError, match="returned nan"):
        metric_from_text("own_metrics:endless").score([np.ones(1)], 1)
    for text in ("own_metrics:nothing", "own_metrics:missing", "best"):
        with pytest.raises(UsageError):
            metric_from_text(text)


def test_the_metric_follows_labels_then_outputs(tmp_path: Path) -> None:
    assert default_metric(3, (1, 10)).name == "top-1"
    assert default_metric("dog", (1, 10)).name == "top-1"
    assert default_metric(tmp_path, (1, 5, 5, 3)).name == "miou"
    assert default_metric(np.zeros((4, 4), int), (1, 5, 5, 3)).name == "miou"
    assert default_metric(0.5, (1, 1)).name == default_metric(1.0, (1, 1)).name == "mae"
    assert default_metric(1, (1, 1)).name == default_metric(51, (1,)).name == "mae"
    assert default_metric(1, (1, 1), is_probability=True).name == "top-1"
    assert default_metric(True, (1, 1)).name == default_metric("dog", (1, 1)).name == "top-1"
    assert default_metric(6.0, (1, 10)).name == "top-1"
    assert default_metric(6.5, (1, 10)).name == "mae"
    assert default_metric(np.zeros(3), (1, 3)).name == "mae"
    assert default_metric(None, (1, 1)).name == "mae"
    assert default_metric(None, (1, 1), is_probability=True).name == "top-1"
    assert default_metric(np.eye(10)[3], (1, 10)).name == "top-1"
    assert default_metric(np.eye(10)[3] / 2, (1, 10)).name == "mae"
    assert default_metric(np.eye(10)[3] + np.eye(10)[4], (1, 10)).name == "mae"
    assert default_metric(np.eye(5)[3], (1, 10)).name == "mae"
    assert default_metric(None, (1, 10)).name == "top-1"
    assert default_metric(None, (1, 8, 8, 3)).name == "cosine"


@pytest.mark.parametrize(
    ("labels", "wanted"),
    [([None, 2.5, None], 2.5), ([1.0, 2.0, 2.5], 2.5), ([None, 3, 4], 3), (["cat", None], "cat"), ([None, None], None)],
)
def test_the_label_that_tells_is_neither_missing_nor_whole_by_chance(labels: list[Any], wanted: Any) -> None:
    samples = [Sample(str(place), (), label) for place, label in enumerate(labels)]
    assert telling_label(Dataset("d", samples, labelled=True)) == wanted
    assert telling_label(Dataset("d", samples, labelled=False)) is None
    stream = Dataset("d", lambda: samples, labelled=True)
    assert telling_label(stream) == next((label for label in labels if label is not None), None)
    assert telling_label(stream, 7) == 7


def test_a_function_that_exits_is_an_error_like_others() -> None:
    def exits(outputs: Any, label: Any) -> float:
        sys.exit(0)

    with pytest.raises(DataError, match=r"The metric mine:exits failed: it called sys\.exit\(0\)"):
        FunctionMetric("mine:exits", exits).score([np.zeros(2)], 0)


def test_a_function_says_itself_whether_it_is_an_error() -> None:
    def error(outputs: Any, label: Any) -> float:
        return 0.0

    unsaid = FunctionMetric("mine:error", error)
    assert unsaid.higher_is_better
    assert "error.higher_is_better = False" in NOTES.text(unsaid.notes[0])
    error.higher_is_better = False  # type: ignore[attr-defined]
    said = FunctionMetric("mine:error", error)
    assert not said.higher_is_better
    assert said.notes == ()
