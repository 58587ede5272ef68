"""Classes of data as a head learns them; what has no classes is refused by a sentence that helps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from hasten.core.errors import DataError
from hasten.data.dataset import Dataset, Sample
from hasten.data.sources import open_dataset
from hasten.retraining.labels import labeled, open_parts, same_classes

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


def of_labels(labels: Sequence[Any], classes: tuple[str, ...] = ()) -> Dataset:
    samples = [Sample(f"s{at}", (np.array([at]),), label) for at, label in enumerate(labels)]
    return Dataset("data", samples, True, classes, "here")


def folder_of(place: Path, names: Sequence[str], count: int = 2) -> Path:
    for name in names:
        (place / name).mkdir(parents=True)
        for at in range(count):
            (place / name / f"{at}.png").write_bytes(f"{place.name}{name}{at}".encode())
    return place


def test_names_are_classes_in_their_order() -> None:
    found = labeled(of_labels(["bee", "ant", "bee"], ("ant", "bee")), offset=1)
    assert found.classes == ("ant", "bee")
    assert found.numbers.tolist() == [1, 0, 1]
    assert not found.multi_label


def test_numbers_are_classes_up_to_the_largest_and_an_offset_moves_them() -> None:
    assert labeled(of_labels([0, 2, 1])).classes == ("0", "1", "2")
    assert labeled(of_labels([1, 3, 2]), offset=-1).numbers.tolist() == [0, 2, 1]
    assert labeled(of_labels([np.array([0, 1]), np.array([1, 0])])).numbers.tolist() == [1, 0]


def test_rows_of_several_ones_are_several_classes() -> None:
    found = labeled(of_labels([np.array([1, 1, 0]), np.array([0, 0, 0]), np.array([0, 1, 1])]))
    assert found.multi_label
    assert found.targets.tolist() == [[1, 1, 0], [0, 0, 0], [0, 1, 1]]


@pytest.mark.parametrize(
    ("labels", "classes", "said"),
    [
        ([1, 2, 3], (), "has the class '0'"),
        (["ant", "ant"], ("ant", "bee"), "has the class 'bee'"),
        (["ant", "ant"], ("ant",), "only one class"),
        ([0.5, 0.7], (), "not a class"),
        ([0, None], (), "has no label"),
        ([np.array([1, 1]), np.array([1, 0])], (), "Every sample has the class '0'"),
        ([np.array([1, 1]), 3], (), "not a row of 2 zeros and ones"),
    ],
)
def test_labels_that_no_head_can_learn_are_refused(labels: list[Any], classes: tuple[str, ...], said: str) -> None:
    with pytest.raises(DataError, match=said) as caught:
        labeled(of_labels(labels, classes))
    assert caught.value.hint


def test_counting_from_one_is_recognized() -> None:
    with pytest.raises(DataError) as caught:
        labeled(of_labels([1, 2, 3]))
    assert "--label-offset -1" in caught.value.hint


def test_data_without_labels_is_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "d.npz", x=np.zeros((3, 2), np.float32))
    with pytest.raises(DataError, match="has no labels"):
        labeled(open_dataset(str(tmp_path / "d.npz")))


def test_a_limit_draws_the_same_samples_again() -> None:
    dataset = of_labels([0, 1] * 50)
    first, again, other = (labeled(dataset, 30, seed=seed).dataset.samples for seed in (0, 0, 1))
    assert not callable(first)
    assert len(first) == 30
    assert first == again != other


def test_folders_train_and_test_are_used_as_such(tmp_path: Path) -> None:
    folder_of(tmp_path / "plain", ("ants", "bees"))
    assert open_parts(str(tmp_path / "plain"))[1] is None
    for part in ("train", "val"):
        folder_of(tmp_path / "two" / part, ("ants", "bees"))
    learned, test = open_parts(str(tmp_path / "two"))
    assert (learned.count, test.count if test else None) == (4, 4)
    for part in ("train", "val", "test"):
        folder_of(tmp_path / "three" / part, ("ants", "bees"), 3)
    learned, test = open_parts(str(tmp_path / "three"))
    assert (learned.count, test.count if test else None) == (12, 6)
    assert test is not None
    assert test.source.endswith("test")


def test_a_test_set_has_the_classes_that_were_learned(tmp_path: Path) -> None:
    folder_of(tmp_path / "a", ("ants", "bees", "cats"))
    folder_of(tmp_path / "b", ("bees", "cats"))
    folder_of(tmp_path / "c", ("bees", "dogs"))
    known = labeled(open_dataset(str(tmp_path / "a")))
    tested = same_classes(known, open_dataset(str(tmp_path / "b")), 0)
    assert tested.classes == known.classes
    assert sorted(tested.numbers.tolist()) == [1, 1, 2, 2]
    with pytest.raises(DataError, match="dogs"):
        same_classes(known, open_dataset(str(tmp_path / "c")), 0)
