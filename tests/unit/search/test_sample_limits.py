"""A tuning judges by no more samples than its budget allows, says so, and goes on with the same ones."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from hasten.core.errors import DataError
from hasten.core.floor import FloorState
from hasten.core.statistics import Interval
from hasten.core.trial import CHOOSING, REPORTING, Trial
from hasten.data.request import Data
from hasten.evaluate.evaluation import Evaluation
from hasten.evaluate.run import evaluate
from hasten.practices.quantize.words import BOOK
from hasten.search import accuracy
from hasten.search.accuracy import LIMITED, AccuracyJudge, affordable
from hasten.search.floor_guard import Guard
from hasten.search.words import BOOK as TUNE_BOOK
from tests.example_models import mobilenet_like
from tests.unit.search.searching import PLAIN, store

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from hasten.search.variant_store import VariantStore

COUNT = 1500
"""500 to choose by, 1000 to report on."""


@pytest.mark.parametrize(
    ("count", "seconds", "sample_s", "most"),
    [
        (3334, 45.0, 0.015, 1600),  # 30 ms on two cores
        (3334, 50.1, 0.015, None),
        (333, 45.0, 0.5, 100),  # a second a run
        (334, 4.5, 0.5, 100),
        (100, 0.1, 10.0, None),  # never below the fewest
        (334, 45.0, 0.0, None),
    ],
)
def test_samples_that_a_time_is_enough_for(count: int, seconds: float, sample_s: float, most: int | None) -> None:
    assert affordable(100, count, seconds, sample_s) == most


def test_times_that_differ_by_chance_mostly_lead_to_the_same_samples() -> None:
    assert {affordable(200, 10**6, 30.0, 0.015 * noise) for noise in (0.8, 0.9, 1.0, 1.1, 1.2)} == {1600}


@pytest.fixture
def opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], VariantStore]:
    """A search's store in one folder, whose models take 10 ms a sample, whatever this machine is."""
    (tmp_path / "m.tflite").write_bytes(mobilenet_like(8, 1, 16))
    random = np.random.default_rng(0)
    np.savez(tmp_path / "data.npz", x=random.random((COUNT, 16, 16, 3), np.float32), y=random.integers(0, 10, COUNT))
    real = evaluate

    def slow(*given: Any, **options: Any) -> Any:
        found = real(*given, **options)
        return replace(found, seconds=1.0 + 0.01 * len(found.positions)) if isinstance(found, Evaluation) else found

    monkeypatch.setattr(accuracy, "evaluate", slow)
    return lambda: store(tmp_path / "m.tflite", tmp_path / "out", Data(str(tmp_path / "data.npz")), PLAIN)


def run_s(judge: AccuracyJudge) -> float:
    """So long a run that a sample takes 10 ms on all cores."""
    return 0.01 * judge._target.machine().cores


def test_both_parts_follow_the_budget_and_every_model_has_the_same_samples(opened: Callable[[], VariantStore]) -> None:
    work = opened()
    judge = work.judge
    judge.fit_budget(15.0, run_s(judge))
    limited = {"choosing": 200, "reporting": 200, "samples": 400, "total": COUNT, "budget_s": 15.0}
    assert judge.limits_data == {LIMITED: limited}
    assert judge.reporting_s == pytest.approx(2 * 200 * 0.01)
    originals = [judge.original(part) for part in (CHOOSING, REPORTING)]
    assert [len(one.positions) for one in originals] == [200, 200]
    again = judge.reported(Trial("again"), work.candidate)
    assert again.change is not None
    assert (again.change.samples, again.reported.samples if again.reported else 0) == (200, 200)
    (note,) = [note for note in work.folder.notes if note.code == "search.samples-limited"]
    for book in (BOOK, TUNE_BOOK):
        assert "400 of 1,500 samples (200 to choose by, 200 to report on)" in book.text(note)
        assert "--budget" in book.hint(note)
    work.close()


def test_a_budget_that_allows_all_changes_nothing(opened: Callable[[], VariantStore]) -> None:
    work = opened()
    work.judge.fit_budget(1000.0, run_s(work.judge))
    assert work.judge.limits_data == {}
    assert [len(work.judge.original(part).positions) for part in (CHOOSING, REPORTING)] == [500, 1000]
    assert not [note for note in work.folder.notes if note.code == "search.samples-limited"]
    work.close()


class _Candidates:
    """The original alone, as a race knows it."""

    def __init__(self, trial: Trial) -> None:
        self.base: Any = type("Base", (), {"trial": trial})()

    def update(self, entrant: Any, **known: Any) -> None:
        entrant.trial = replace(entrant.trial, **known)


def test_a_tuning_that_goes_on_keeps_its_samples_whatever_the_budget_is(opened: Callable[[], VariantStore]) -> None:
    work = opened()
    ms = 1000 * run_s(work.judge)
    candidates: Any = _Candidates(replace(work.original, latency=Interval(ms, ms, ms), floor=FloorState.NOT_JUDGED))
    Guard(work, candidates, has_data=True, budget_s=15.0).open()
    assert work.folder.floor[LIMITED]["samples"] == 400
    assert candidates.base.trial.choosing.samples == 200
    work.close()
    later = opened()
    Guard(later, candidates, has_data=True, budget_s=1000.0).open()
    assert later.judge.evaluations == 0, "the original is known"
    assert [len(later.judge.original(part).positions) for part in (CHOOSING, REPORTING)] == [200, 200]
    (note,) = [note for note in later.folder.notes if note.code == "search.samples-limited"]
    assert note.facts["budget_s"] == 15.0
    later.close()


def test_where_only_a_proof_counts_as_many_samples_are_used_as_can_prove_the_floor(
    opened: Callable[[], VariantStore],
) -> None:
    work = opened()
    judge = work.judge
    assert (judge._fewest(CHOOSING), judge._fewest(REPORTING)) == (100, 200)
    judge._strict = True
    assert judge._fewest(CHOOSING) == judge._fewest(REPORTING) == 381, "no loss in so many is below 1 % for sure"
    work.close()


@pytest.mark.parametrize("limited", [[1], "all", {CHOOSING: "many"}, {CHOOSING: 0}])
def test_samples_of_an_earlier_run_that_are_no_numbers_are_damage(
    limited: object, opened: Callable[[], VariantStore]
) -> None:
    work = opened()
    with pytest.raises(DataError, match="in place of numbers of samples"):
        work.judge.fit_budget(15.0, 0.01, {LIMITED: limited})
    work.close()
