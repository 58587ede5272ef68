"""Verdicts about accuracy against simulated truth: how often kept and broken are wrong, and what a choice may claim.

Pairs of models that differ by a known drop answer samples; the verdicts, the early end of an evaluation, the rule for
choosing and the split of the data are hasten's own.

Wanted: each wrong verdict in at most 5 % of the cases, also for the variant that is chosen among several. The figure of
a first choice, which is shown whether it stands or gives way, is unbiased (within a tenth of its standard error); of
those that stand, within a fifth.
"""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from benchmarks.common import record
from hasten.core.accuracy import PairedAccuracy
from hasten.core.floor import Floor, FloorState, FloorVerdict, most_looks
from hasten.core.paired import paired_difference_interval
from hasten.evaluate.sequential_test import FloorTest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Drops = NDArray[np.float64]

ALLOWED: Final = 0.01
FLOOR: Final = Floor(ALLOWED, metric="top-1", allowed=ALLOWED)
DROPS: Final = (0.0, 0.5, 1.0, 2.0, 5.0)
"""True drops, in parts of what is allowed."""
SAMPLES: Final = (50, 200, 1000, 5000)
WON: Final = (0.0, 0.005, 0.03)
"""The share of samples that only the second model answers rightly."""
RUNS: Final = 400
CHOICES: Final = 1500
VARIANTS: Final = 5
LARGEST_RISK: Final = 0.05
LARGEST_BIAS: Final = 0.1
LARGEST_BIAS_OF_STANDING: Final = 0.2
_BATCH: Final = 64
_PARTS: Final = (1 / 3, 2 / 3)


def main() -> int:
    """Simulate, and record the worst."""
    source = np.random.default_rng(0)
    cells = [_cell(source, drop * ALLOWED, won, samples) for drop in DROPS for won in WON for samples in SAMPLES]
    chosen = [
        _choices(source, drops, samples, strict=strict)
        for drops in _families()
        for samples in (300, 1500)
        for strict in (False, True)
    ]
    figures: dict[str, Any] = {
        "runs_a_cell": RUNS,
        "false_kept_at_most": max(cell["false_kept"] for cell in cells),
        "false_broken_at_most": max(cell["false_broken"] for cell in cells),
        "chosen_false_kept_at_most": max(one["false_kept"] for one in chosen),
        "bias_of_first_choices_in_standard_errors": max(
            abs(one["bias_of_first"]) for one in chosen if not one["strict"]
        ),
        "bias_of_standing_choices_in_standard_errors": max(abs(one["bias"]) for one in chosen),
        "bias_of_marked_choices_in_standard_errors": min(one["bias_when_marked"] for one in chosen),
        "cells": cells,
        "chosen": chosen,
    }
    # The largest of many cells is above its mean by chance: three standard errors of one cell are allowed.
    chance = 3 * (LARGEST_RISK * (1 - LARGEST_RISK) / RUNS) ** 0.5
    wrong = max(figures["false_kept_at_most"], figures["false_broken_at_most"], figures["chosen_false_kept_at_most"])
    unbiased = figures["bias_of_first_choices_in_standard_errors"] <= LARGEST_BIAS
    unbiased &= figures["bias_of_standing_choices_in_standard_errors"] <= LARGEST_BIAS_OF_STANDING
    return record("accuracy_verdicts", figures, passed=wrong <= LARGEST_RISK + chance and unbiased)


def _cell(source: np.random.Generator, drop: float, won: float, samples: int) -> dict[str, Any]:
    states = Counter(_early(_answers(source, drop, won, samples)).state for _ in range(RUNS))
    share = {state: states[state] / RUNS for state in FloorState}
    return {
        "true_drop": drop,
        "won": won,
        "samples": samples,
        "kept": share[FloorState.KEPT],
        "broken": share[FloorState.BROKEN],
        "undecided": share[FloorState.UNDECIDED],
        # At the floor itself either verdict is wrong: nothing is known there.
        "false_kept": share[FloorState.KEPT] if drop >= ALLOWED else 0.0,
        "false_broken": share[FloorState.BROKEN] if drop <= ALLOWED else 0.0,
    }


def _families() -> list[tuple[float, ...]]:
    """Variants by their true drops, the fastest first: all at the floor, and better ones behind worse ones."""
    return [(ALLOWED,) * VARIANTS, tuple(ALLOWED * drop for drop in (3.0, 2.0, 1.5, 1.0, 0.0))]


@dataclass(frozen=True, slots=True)
class Choice:
    """What was chosen, and what was reported on it."""

    drop: float
    reported: FloorVerdict
    optimistic: bool
    stands: bool


def _choices(source: np.random.Generator, drops: Sequence[float], samples: int, *, strict: bool) -> dict[str, Any]:
    """Choose the fastest that the rule allows, many times."""
    looks = [_looks(source, drops, samples, strict=strict) for _ in range(CHOICES)]
    found = [one for each in looks for one in each if one.stands]
    false_kept = sum(one.drop >= ALLOWED and one.reported.state is FloorState.KEPT for one in found)
    return {
        "true_drops": list(drops),
        "samples": samples,
        "strict": strict,
        "chosen": len(found) / CHOICES,
        "false_kept": false_kept / CHOICES,
        "bias_of_first": _bias([each[0] for each in looks if each]),
        "bias": _bias([one for one in found if not one.optimistic]),
        "bias_when_marked": _bias([one for one in found if one.optimistic]),
    }


def _looks(source: np.random.Generator, drops: Sequence[float], samples: int, *, strict: bool) -> list[Choice]:
    """Every choice that was evaluated on the part for reporting; the last one may stand."""
    choosing, reporting = (round(part * samples) for part in _PARTS)
    found: list[Choice] = []
    for drop in drops:
        if not _early(_answers(source, drop, 0.01, choosing)).may_be_chosen(FLOOR, strict=strict):
            continue
        verdict = _verdict(_answers(source, drop, 0.01, reporting))
        found.append(Choice(drop, verdict, strict or bool(found), stands=not verdict.gives_way(strict=strict)))
        if found[-1].stands or len(found) == most_looks(strict=strict):
            break
    return found


def _bias(choices: Sequence[Choice]) -> float:
    """By how many standard errors the reported drops are below the true ones, in the mean: flattery is negative."""
    if not choices:
        return 0.0
    errors = [(one.reported.drop - one.drop) / _standard_error(one) for one in choices]
    return round(float(np.mean(errors)), 3)


def _standard_error(choice: Choice) -> float:
    return float(np.sqrt((choice.drop + 0.02) / choice.reported.samples))


def _answers(source: np.random.Generator, drop: float, won: float, samples: int) -> Drops:
    return source.choice([1.0, -1.0, 0.0], p=[drop + won, won, 1 - drop - 2 * won], size=samples)


def _early(drops: Drops) -> FloorVerdict:
    """As an evaluation ends: a batch at a time, until test and interval agree."""
    test = FloorTest(ALLOWED)
    for end in range(_BATCH, len(drops), _BATCH):
        state = test.add(drops[end - _BATCH : end])
        if state is not FloorState.UNDECIDED and (verdict := _verdict(drops[:end])).state is state:
            return verdict
    return _verdict(drops)


def _verdict(drops: Drops) -> FloorVerdict:
    won, lost, count = int((drops < 0).sum()), int((drops > 0).sum()), len(drops)
    found = paired_difference_interval(won, lost, count)
    return FLOOR.judge(PairedAccuracy("top-1", count, found.estimate, found.low, found.high))


if __name__ == "__main__":
    sys.exit(main())
