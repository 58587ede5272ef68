"""What is learned from and what is tested with: by content, even over classes, the same again, copies together."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hasten.core.errors import DataError
from hasten.data.dataset import Dataset, Sample
from hasten.data.sources import open_dataset
from hasten.retraining.labels import labeled
from hasten.retraining.split import content_hashes, folds_of, held_out, rows_apart, split_samples

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from hasten.retraining.labels import LabeledSamples


def numbered(numbers: Sequence[int]) -> LabeledSamples:
    """Samples of these classes, each with a content of its own."""
    samples = [Sample(f"s{at}", (np.array([at]),), number) for at, number in enumerate(numbers)]
    return hashed(labeled(Dataset("numbers", samples, True)))


def hashed(known: LabeledSamples) -> LabeledSamples:
    return replace(known, hashes=content_hashes(known.samples))


def kept_codes(known: LabeledSamples, share: float = 0.2, seed: int = 0) -> set[str]:
    """The contents that are kept for the test."""
    return {known.hashes[row] for row in split_samples(known, share, seed).test}


@given(sizes=st.lists(st.integers(2, 40), min_size=2, max_size=5), share=st.floats(0.05, 0.6), seed=st.integers(0, 100))
def test_each_class_is_in_both_parts_and_no_sample_is(sizes: list[int], share: float, seed: int) -> None:
    known = numbered([number for number, size in enumerate(sizes) for _ in range(size)])
    split = split_samples(known, share, seed)
    assert sorted([*split.train, *split.test]) == list(range(sum(sizes)))
    for number, size in enumerate(sizes):
        kept = int((known.numbers[list(split.test)] == number).sum())
        assert kept == min(size - 1, max(1, round(share * size)))


def test_what_is_tested_with_is_not_learned_from() -> None:
    known = numbered([0, 1] * 5)
    tested = numbered([0, 1] * 2)
    assert rows_apart(known, tested.hashes) == tuple(range(4, 10))
    with pytest.raises(DataError, match="has all samples of the class"):
        rows_apart(known, known.hashes)


def test_another_seed_tests_with_others_and_the_same_with_the_same() -> None:
    known = numbered([0, 1] * 50)
    assert split_samples(known, 0.2, 1) == split_samples(known, 0.2, 1)
    assert split_samples(known, 0.2, 1) != split_samples(known, 0.2, 2)


def test_names_and_order_do_not_matter() -> None:
    known = numbered([0, 1] * 30)
    order = np.random.default_rng(0).permutation(60).tolist()
    shuffled = [replace(known.samples[row], name=f"other{row}") for row in order]
    assert kept_codes(known) == kept_codes(hashed(labeled(replace(known.dataset, samples=shuffled))))


def test_what_was_tested_with_is_hardly_ever_learned_from_when_samples_are_added() -> None:
    first, second = kept_codes(numbered([0, 1] * 100)), kept_codes(numbered([0, 1] * 120))
    assert len(first & second) > 0.8 * len(first)


def test_copies_are_on_one_side_whatever_they_are_called() -> None:
    samples = [Sample(f"s{at}", (np.array([at // 2]),), at // 2 % 2) for at in range(80)]
    known = hashed(labeled(Dataset("twins", samples, True)))
    codes = known.hashes
    assert len(set(codes)) == 40
    split = split_samples(known, 0.25, 0)
    assert not {codes[row] for row in split.train} & {codes[row] for row in split.test}
    folds = folds_of(known.numbers, codes, 0)
    assert all(len({int(folds[row]) for row in range(80) if codes[row] == code}) == 1 for code in set(codes))


def test_one_sample_of_a_class_is_too_few() -> None:
    known = numbered([0] * 9 + [1])
    with pytest.raises(DataError, match="only 1 different sample"):
        split_samples(known, 0.2, 0)


@given(sizes=st.lists(st.integers(1, 30), min_size=2, max_size=4), seed=st.integers(0, 50))
def test_folds_are_even_over_the_classes(sizes: list[int], seed: int) -> None:
    numbers = np.array([number for number, size in enumerate(sizes) for _ in range(size)], np.int64)
    folds = folds_of(numbers, [str(at) for at in range(len(numbers))], seed)
    for number, size in enumerate(sizes):
        counts = np.bincount(folds[numbers == number], minlength=5)
        assert counts.max() - counts.min() <= 1
        assert counts.sum() == size


def test_the_list_of_the_test_part_is_data_for_other_commands(tmp_path: Path) -> None:
    for name in ("ants", "bees"):
        (tmp_path / "photos" / name).mkdir(parents=True)
        for at in range(5):
            (tmp_path / "photos" / name / f"{at},.png").write_bytes(f"{name}{at}".encode())
    known = hashed(labeled(open_dataset(str(tmp_path / "photos"))))
    split = split_samples(known, 0.4, 0)
    kept = held_out(known, split.test, tmp_path)
    assert kept is not None
    assert kept.suffix == ".csv"
    (tmp_path / "new.test.csv").write_bytes(kept.content)
    again = open_dataset(str(tmp_path / "new.test.csv"))
    assert again.classes == ("ants", "bees")
    assert not callable(again.samples)
    listed = {(sample.inputs[0], sample.label) for sample in again.samples if isinstance(sample.inputs, tuple)}
    samples = [known.samples[row] for row in split.test]
    assert listed == {(sample.inputs[0], sample.label) for sample in samples if isinstance(sample.inputs, tuple)}


def test_names_that_are_numbers_are_kept_as_places_of_outputs(tmp_path: Path) -> None:
    """A class 12 that is the second of two: a reader of the list would look for a thirteenth output."""
    for name in ("3", "12"):
        (tmp_path / "photos" / name).mkdir(parents=True)
        for at in range(3):
            (tmp_path / "photos" / name / f"{at}.png").write_bytes(f"{name}{at}".encode())
    (tmp_path / "photos" / "classes.txt").write_text("3\n12\n")
    known = labeled(open_dataset(str(tmp_path / "photos")))
    kept = held_out(known, range(6), tmp_path)
    assert kept is not None
    labels = [line.rpartition(",")[2] for line in kept.content.decode().splitlines()[1:]]
    assert labels == [str(number) for number in known.numbers.tolist()]
    assert set(labels) == {"0", "1"}


def test_arrays_are_kept_as_arrays(tmp_path: Path) -> None:
    known = numbered([0, 1] * 10)
    kept = held_out(known, [3, 4, 7], tmp_path)
    assert kept is not None
    (tmp_path / f"new.test{kept.suffix}").write_bytes(kept.content)
    again = labeled(open_dataset(str(tmp_path / "new.test.npz")))
    assert again.classes == known.classes
    assert again.numbers.tolist() == [1, 0, 1]
    inputs = [sample.inputs for sample in again.samples]
    assert [int(np.asarray(one[0])[0]) for one in inputs if isinstance(one, tuple)] == [3, 4, 7]
