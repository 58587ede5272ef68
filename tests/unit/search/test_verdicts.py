"""The nine verdicts: each says what it stands on, and nothing that was not measured."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from hasten.core.finding import Finding, Standing
from hasten.core.measurement import Model
from hasten.core.plan import Plan
from hasten.core.profile import OperatorTime, Profile
from hasten.core.remark import remark, said
from hasten.core.statistics import Interval
from hasten.core.trial import ORIGINAL, FloorState, Status, Step, Trial
from hasten.evaluate.trial_words import why_words
from hasten.practices.practice import Evidence
from hasten.practices.registry import NAMES, phrasebook
from hasten.search.tuning import nine_findings

if TYPE_CHECKING:
    from collections.abc import Sequence

BOOK = phrasebook()
TWO = Plan(threads=2)
KEPT = FloorState.KEPT
NO_DRIVER = said("No driver.")
NPU = Plan(accelerator="npu", threads=2)


def trial(
    variant: str, ms: float | None, plan: Plan = TWO, floor: FloorState = FloorState.KEPT, **more: object
) -> Trial:
    latency = None if ms is None else Interval(ms, ms, ms)
    found = Trial(variant, plan, status=Status.KEPT, floor=floor, latency=latency, size_bytes=100)
    return replace(found, **more)  # type: ignore[arg-type]


BASE = trial(ORIGINAL, 4.0, Plan())
FASTER = trial(ORIGINAL, 2.0)


def verdicts(trials: Sequence[Trial], best: Trial = BASE, **more: object) -> dict[str, Finding]:
    known = Evidence(trials, best, BASE, **more)  # type: ignore[arg-type]
    found = nine_findings(known)
    assert [finding.practice for finding in found] == list(NAMES)
    return {finding.practice: finding for finding in found}


def test_without_measurements_nothing_is_examined() -> None:
    found = verdicts([BASE])
    assert {finding.standing for finding in found.values()} == {Standing.NOT_EXAMINED}
    assert all(BOOK.hint(finding.remark) for finding in found.values())


def test_a_confirmed_step_is_an_improvement_with_its_interval() -> None:
    step = Step("threads", 4.0, 2.0, 0.5, (0.48, 0.52), remark("step.threads", threads=2, before=1))
    found = verdicts([BASE, FASTER], FASTER, steps=(step,), confirmed=True)
    assert found["threads"].standing is Standing.IMPROVED
    assert found["threads"].remark.code == "tune.improved"
    assert found["threads"].remark.facts["ratio"] == {"ratio": 0.5, "ci95": [0.48, 0.52]}
    doubtful = replace(step, ci95=(0.4, 1.1))
    assert verdicts([BASE, FASTER], FASTER, steps=(doubtful,), confirmed=True)["threads"].standing is Standing.GOOD
    assert verdicts([BASE, FASTER], FASTER, steps=(step,))["threads"].standing is Standing.GOOD


def test_quantizing_that_breaks_the_floor_says_what_it_would_be_worth() -> None:
    broken = trial("static_int8", 1.0, floor=FloorState.BROKEN, drop=0.12, why=said("It loses 0.12 of mae."))
    found = verdicts([BASE, broken])["quantize"]
    assert found.standing is Standing.TO_DO
    assert found.remark.code == "quantize.breaks-floor"
    assert found.remark.facts["ratio"]["ratio"] == 0.25
    assert "It loses 0.12 of mae." in BOOK.text(found.remark)


def test_quantizing_without_data_asks_for_data() -> None:
    found = verdicts([BASE, trial("static_int8", 1.0, floor=FloorState.UNKNOWN)])["quantize"]
    assert found.standing is Standing.TO_DO
    assert found.remark.code == "quantize.no-data"


def test_quantizing_that_is_slower_here_is_fine_as_it_is() -> None:
    found = verdicts([BASE, trial("static_int8", 9.0)])["quantize"]
    assert found.standing is Standing.GOOD
    assert BOOK.text(verdicts([BASE], already=said("It is int8 already."))["quantize"].remark) == "It is int8 already."
    failed = trial(
        "static_int8", None, floor=FloorState.NOT_JUDGED, status=Status.FAILED, why=said("It cannot be made.")
    )
    assert verdicts([BASE, failed])["quantize"].standing is Standing.NOT_EXAMINED
    chosen = trial("float16", 2.0, size_bytes=50)
    assert verdicts([BASE, chosen], chosen)["quantize"].remark.facts["size"] == -0.5


@pytest.mark.parametrize(
    ("found", "standing", "code"),
    [
        (trial(ORIGINAL, 9.0, NPU, status=Status.DROPPED), Standing.GOOD, "accelerators.none-faster"),
        (
            trial(ORIGINAL, None, NPU, status=Status.FAILED, why=said("No driver.")),
            Standing.NOT_EXAMINED,
            "accelerators.none-runs",
        ),
        (trial(ORIGINAL, 1.0, NPU, floor=FloorState.UNKNOWN), Standing.TO_DO, "accelerators.no-data"),
    ],
)
def test_accelerators(found: Trial, standing: Standing, code: str) -> None:
    finding = verdicts([BASE, found])["accelerators"]
    assert (finding.standing, finding.remark.code) == (standing, code)
    assert why_words(found.why) in BOOK.text(finding.remark)


def test_a_faster_accelerator_that_breaks_the_floor_is_not_said_to_be_slower() -> None:
    why = said("It loses 3.0 percentage points of top-1.")
    broken = trial(ORIGINAL, 1.0, NPU, floor=FloorState.BROKEN, status=Status.BROKEN, why=why)
    finding = verdicts([BASE, broken])["accelerators"]
    assert (finding.standing, finding.remark.code) == (Standing.GOOD, "accelerators.none-accurate")
    told = BOOK.text(finding.remark)
    assert told.startswith("No accelerator beats the chosen plan and keeps the accuracy.")
    assert told.endswith("faster). It loses 3.0 percentage points of top-1.")


def test_an_operator_with_headroom_is_to_do_with_its_worth() -> None:
    operator = OperatorTime(0, "CONV_2D", (), "here", "", 2.0, 0.5, None, "exact", headroom_ms=1.0)
    model = Model("m", 1, "")
    profile = Profile(model, Plan(), 4.0, 4.0, 4.0, 4.0, 1.0, 9, (operator,), ())
    found = verdicts([BASE], profiles=(profile, profile))
    assert found["operators"].standing is Standing.TO_DO
    assert found["operators"].remark.facts["headroom_ms"] == 1.0
    assert found["operators"].remark.facts["run_ms"] == 4.0
    assert found["profile"].standing is Standing.GOOD
    little = replace(profile, operators=(replace(operator, headroom_ms=0.1),))
    assert verdicts([BASE], profiles=(little, little))["operators"].standing is Standing.GOOD
    opaque = replace(profile, operators=(replace(operator, headroom_ms=None),))
    assert verdicts([BASE], profiles=(opaque, opaque))["operators"].standing is Standing.NOT_EXAMINED


def test_a_run_too_short_for_the_profiler_is_said_to_be() -> None:
    """17 µs with the profiler, 2 µs without, and kernels that it reports as 0."""
    short = OperatorTime(0, "MUL", ("Multiply",), "here", "", 0.0, 0.0, 0, "exact")
    profile = Profile(Model("m", 1, ""), Plan(), 0.00219, 0.002, 0.02, 0.0169, 0.0, 9, (short,), ())
    found = verdicts([BASE], profiles=(profile, profile))
    assert found["profile"].remark.code == "profile.unseen"
    # The latencies are those of the trials: a page has one for each.
    assert found["profile"].remark.facts["latency_ms"] == BASE.median_ms
    assert "%" not in BOOK.text(found["profile"].remark)
    assert found["operators"].standing is Standing.NOT_EXAMINED
    assert found["operators"].remark.code == "operators.unseen"
