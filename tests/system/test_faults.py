"""Planted problems and damaged files, as the benchmarks `faults` and `damaged_files` try them: a few of each here."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from benchmarks.damaged_files import TRIES, tried
from benchmarks.faults import CASES, lacking, problem
from benchmarks.robust import run_number

if TYPE_CHECKING:
    from benchmarks.faults import Case

# Quick, and sure on a machine that others use, too.
QUICK = {
    "full disk, output",
    "too few open files",
    "model with NaN weights",
    "input cut in half",
    "session with a flipped bit",
    "session without its beginning",
    "bundle with another model",
}
# Whether others use the machine is what these ask: their clean set-up is an idle machine.
IDLE = {"CPU hog", "CPU hog that has just begun"}


@pytest.mark.parametrize(
    "case", [pytest.param(case, marks=() if case.name in QUICK else pytest.mark.slow, id=case.name) for case in CASES]
)
def test_a_planted_problem_is_named_or_survived(case: Case) -> None:
    if lacking(case):
        pytest.skip(f"this machine lacks: {lacking(case)}")
    if case.name in IDLE:
        pytest.skip("needs an idle machine: make bench-faults")
    assert problem(case) == ""


@pytest.mark.parametrize("kind", TRIES)
@pytest.mark.parametrize("first", [0, pytest.param(10, marks=pytest.mark.slow)], ids=["a few", "more"])
def test_damaged_files_are_read_up_to_the_damage_or_refused(kind: str, first: int) -> None:
    wrong = [f"{number}: {problem}" for number in range(first, 10 * first or 10) if (problem := tried(kind, number)[1])]
    assert wrong == []


@pytest.mark.parametrize(
    "number", [pytest.param(number, marks=() if number < 3 else pytest.mark.slow) for number in range(40)]
)
def test_a_damaged_model_runs_or_is_refused(number: int) -> None:
    assert run_number(number).problem() == ""
