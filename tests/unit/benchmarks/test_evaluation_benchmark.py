"""The benchmark of evaluation: verdicts that came early are held against those of a plain loop over all samples."""

from __future__ import annotations

from dataclasses import replace

import pytest
from benchmarks.evaluation import by_all_samples, is_consistent

from hasten.core.floor import FloorState, FloorVerdict
from hasten.core.trial import CHOOSING, REPORTING, Trial

_NAMES = [f"{number}.jpg" for number in range(1000)]
_PARTS = {CHOOSING: [f"images/{name}" for name in _NAMES[:500]], REPORTING: _NAMES[500:]}


def _wrong(*positions: int) -> dict[str, bool]:
    return {name: place not in positions for place, name in enumerate(_NAMES)}


def _verdict(state: FloorState, samples: int = 500, drop: float = 0.0) -> FloorVerdict:
    return FloorVerdict(state, drop, (drop, drop), samples, smallest_detectable=0.0)


def _trial(judged: FloorVerdict, reported: FloorVerdict | None = None) -> Trial:
    return Trial("variant", judged=judged, reported=reported, floor=(reported or judged).state)


def test_the_loops_verdicts_are_of_its_own_predictions_on_each_part() -> None:
    same = by_all_samples(_wrong(), _wrong(), _PARTS)
    assert [verdict.state for verdict in same.values()] == [FloorState.KEPT, FloorState.KEPT]
    worse = by_all_samples(_wrong(), _wrong(*range(500, 600)), _PARTS)
    assert worse[CHOOSING].state is FloorState.KEPT
    assert worse[REPORTING].state is FloorState.BROKEN
    assert worse[REPORTING].drop == pytest.approx(0.2)
    gained_as_much = by_all_samples(_wrong(*range(100, 150)), _wrong(*range(50)), _PARTS)
    assert gained_as_much[CHOOSING].state is FloorState.UNDECIDED


_KEPT, _BROKEN, _OPEN = (_verdict(state) for state in (FloorState.KEPT, FloorState.BROKEN, FloorState.UNDECIDED))
_OPEN_BEYOND = _verdict(FloorState.UNDECIDED, drop=0.02)


@pytest.mark.parametrize(
    ("trial", "choosing", "reporting", "expected"),
    [
        (_trial(_KEPT, _KEPT), _KEPT, _KEPT, True),
        (_trial(_BROKEN), _BROKEN, _KEPT, True),
        (_trial(_BROKEN), _KEPT, _KEPT, False),
        (_trial(_KEPT, _KEPT), _BROKEN, _KEPT, False),
        (_trial(_KEPT, _KEPT), _KEPT, _BROKEN, False),
        # All samples leave open what fewer decided: that is a risk which hasten states, unless the choice differs.
        (_trial(replace(_KEPT, samples=300), _KEPT), _OPEN, _KEPT, True),
        (_trial(replace(_BROKEN, samples=300)), _OPEN_BEYOND, _KEPT, True),
        (_trial(replace(_KEPT, samples=300), _KEPT), _OPEN_BEYOND, _KEPT, False),
        # On the same samples there is one verdict.
        (_trial(_KEPT, _KEPT), _OPEN, _KEPT, False),
        (_trial(_OPEN, _KEPT), _KEPT, _KEPT, False),
    ],
)
def test_no_verdict_contradicts_that_of_all_samples(
    trial: Trial, choosing: FloorVerdict, reporting: FloorVerdict, expected: bool
) -> None:
    assert is_consistent(trial, {CHOOSING: choosing, REPORTING: reporting}) is expected
