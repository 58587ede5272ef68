"""The nine verdicts: each says what it stands on, and nothing that was not measured."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from hasten.core.comparison import Comparison, Verdict
from hasten.core.finding import Finding, Standing
from hasten.core.floor import FloorState
from hasten.core.goal import Amount, Goal
from hasten.core.measurement import Model
from hasten.core.plan import Plan
from hasten.core.profile import OperatorTime, Profile
from hasten.core.remark import remark, said
from hasten.core.statistics import Interval
from hasten.core.trial import ORIGINAL, REWRITTEN, Purpose, Status, Step, Trial
from hasten.evaluate.trial_words import why_words
from hasten.practices.practice import Evidence
from hasten.practices.registry import NAMES, phrasebook
from hasten.search.tuning import nine_findings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hasten.core.remark import Remark

BOOK = phrasebook()
TWO = Plan(threads=2)
KEPT = FloorState.KEPT
NO_DRIVER = said("No driver.")
NPU = Plan(accelerator="npu", threads=2)


def trial(
    variant: str, ms: float | None, plan: Plan = TWO, floor: FloorState = FloorState.KEPT, **more: object
) -> Trial:
    latency = None if ms is None else Interval(ms, ms, ms)
    levels = {} if ms is None else {number: math.log(ms) + number % 2 / 500 for number in range(5)}
    found = Trial(variant, plan, status=Status.KEPT, floor=floor, latency=latency, size_bytes=100, levels=levels)
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
    what = remark("step.threads", threads=2, before=1)
    step = Step("threads", 4.0, 2.0, 0.5, (0.48, 0.52), what, Verdict.FASTER)
    found = verdicts([BASE, FASTER], FASTER, steps=(step,), confirmed=True)
    assert found["threads"].standing is Standing.IMPROVED
    assert found["threads"].remark.code == "tune.improved"
    assert found["threads"].remark.facts["ratio"] == {"ratio": 0.5, "ci95": [0.48, 0.52]}
    doubtful = replace(step, ci95=(0.4, 1.1), verdict=Verdict.UNDECIDED)
    assert verdicts([BASE, FASTER], FASTER, steps=(doubtful,), confirmed=True)["threads"].standing is Standing.GOOD
    assert verdicts([BASE, FASTER], FASTER, steps=(step,))["threads"].standing is Standing.GOOD


def test_a_rewritten_graph_is_an_improvement_or_nothing_to_do() -> None:
    for ms in (2.0, 2.5):
        known = verdicts([BASE, FASTER, trial(REWRITTEN, ms, purpose=Purpose.REWRITE)])
        found = known["operators"]
        assert (found.standing, found.remark.code) == (Standing.GOOD, "operators.rewriting-no-gain")
        assert known["quantize"].standing is Standing.NOT_EXAMINED
    won = trial(REWRITTEN, 1.0, purpose=Purpose.REWRITE)
    what = remark("step.rewritten", rewrites=["layout"])
    step = Step("operators", 2.0, 1.0, 0.5, (0.48, 0.52), what, Verdict.FASTER)
    found = verdicts([BASE, FASTER, won], won, steps=(step,), confirmed=True)["operators"]
    assert (found.standing, found.remark.code) == (Standing.IMPROVED, "tune.improved")


def test_of_two_steps_of_a_practice_the_larger_gain_is_told() -> None:
    steps = [
        Step("operators", 4.0, 4.0 * ratio, ratio, (ratio, ratio), remark("step.rewritten", rewrites=[name]), verdict)
        for name, ratio, verdict in (
            ("layout", 0.5, Verdict.FASTER),
            ("kernel-gather", 0.9, Verdict.FASTER),
            ("slices", 0.1, Verdict.UNDECIDED),
        )
    ]
    for order in (steps, steps[::-1]):
        found = verdicts([BASE, FASTER], FASTER, steps=tuple(order), confirmed=True)["operators"]
        assert found.remark.facts["what"]["facts"]["rewrites"] == ["layout"]


def test_quantizing_has_no_credit_for_kernels_in_the_variant() -> None:
    int8 = trial("static_int8", 1.8, recipe="static_int8")
    best = trial("static_int8+kernels", 0.9, recipe="static_int8", purpose=Purpose.REWRITE, source="static_int8")
    found = verdicts([BASE, FASTER, int8, best], best)["quantize"]
    assert found.remark.facts["variant"] == "static_int8"
    assert found.remark.facts["ratio"]["ratio"] == pytest.approx(0.9, rel=0.01)


def test_quantizing_that_breaks_the_floor_says_what_it_would_be_worth() -> None:
    broken = trial("static_int8", 1.0, floor=FloorState.BROKEN, drop=0.12, why=said("It loses 0.12 of mae."))
    found = verdicts([BASE, FASTER, broken])["quantize"]
    assert found.standing is Standing.TO_DO
    assert found.remark.code == "quantize.breaks-floor"
    assert found.remark.facts["ratio"]["ratio"] == 0.5  # of what the original takes with two threads
    assert "It loses 0.12 of mae." in BOOK.text(found.remark)


def test_quantizing_is_worth_what_it_wins_over_the_best_and_not_over_a_plan_that_nobody_would_use() -> None:
    gpu = Plan(accelerator="gpu", threads=2)
    slow, broken = trial(ORIGINAL, 70.0, gpu), trial("static_int8", 1.0, gpu, floor=FloorState.BROKEN)
    found = verdicts([BASE, FASTER, slow, broken], FASTER)["quantize"]
    assert found.remark.facts["ratio"]["ratio"] == 0.5


def test_quantizing_without_data_asks_for_data() -> None:
    found = verdicts([BASE, FASTER, trial("static_int8", 1.0, floor=FloorState.UNKNOWN)])["quantize"]
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


GPU = Plan(accelerator="gpu", threads=2)


def test_an_accelerator_that_had_no_turn_is_not_said_to_fail() -> None:
    """Interrupted, a tuning said that no accelerator runs the model, of which none had been tried."""
    waiting = trial(ORIGINAL, None, NPU, floor=FloorState.NOT_JUDGED)
    finding = verdicts([BASE, waiting])["accelerators"]
    assert (finding.standing, finding.remark.code) == (Standing.NOT_EXAMINED, "accelerators.none-timed")
    assert BOOK.text(finding.remark) == "No accelerator was timed yet. NPU: It was not tried yet."
    assert "--resume" in BOOK.hint(finding.remark)


@pytest.mark.parametrize(
    "gpu",
    [
        trial(ORIGINAL, 90.0, GPU, status=Status.DROPPED),
        trial(ORIGINAL, 1.0, GPU, floor=FloorState.BROKEN, status=Status.BROKEN, why=said("It loses 3 %.")),
    ],
)
def test_an_accelerator_that_had_no_turn_may_still_be_the_best(gpu: Trial) -> None:
    """It said that no accelerator beats the plan, while the NPU had not been timed."""
    waiting = trial(ORIGINAL, None, NPU, floor=FloorState.NOT_JUDGED)
    finding = verdicts([BASE, waiting, gpu])["accelerators"]
    assert finding.standing is Standing.UNDECIDED
    assert BOOK.text(finding.remark).startswith("Whether the NPU beats the chosen plan is undecided.")


@pytest.mark.parametrize("rounds", [1, 5])
def test_an_accelerator_has_no_credit_for_threads_that_were_not_chosen(rounds: int) -> None:
    """Beside other work, two threads were undecided and the NPU, measured by one thread, "2.8 times faster"."""
    two = trial(ORIGINAL, 2.0)
    npu = trial(ORIGINAL, 1.5, NPU, floor=FloorState.UNKNOWN)
    finding = verdicts([BASE, two if rounds > 1 else one_round(two, 2.0), npu])["accelerators"]
    (row,) = finding.remark.facts["rows"]
    assert row["ratio"] == pytest.approx(0.75)
    assert finding.standing is (Standing.TO_DO if rounds > 1 else Standing.UNDECIDED)
    assert "than 2 threads" in BOOK.text(finding.remark)


def test_a_faster_accelerator_that_breaks_the_floor_is_not_said_to_be_slower() -> None:
    why = said("It loses 3.0 percentage points of top-1.")
    broken = trial(ORIGINAL, 1.0, NPU, floor=FloorState.BROKEN, status=Status.BROKEN, why=why)
    finding = verdicts([BASE, broken])["accelerators"]
    assert (finding.standing, finding.remark.code) == (Standing.GOOD, "accelerators.none-accurate")
    told = BOOK.text(finding.remark)
    assert told.startswith("No accelerator beats the chosen plan and keeps the accuracy.")
    assert told.endswith("faster). It loses 3.0 percentage points of top-1.")


def test_a_faster_accelerator_that_another_goal_left_out_is_said_to_be_faster() -> None:
    npu = trial(ORIGINAL, 1.0, NPU, why=said("It needs more energy."), status=Status.DROPPED)
    finding = verdicts([BASE, npu], goal=Goal.ENERGY)["accelerators"]
    assert (finding.standing, finding.remark.code) == (Standing.GOOD, "accelerators.left-out")
    told = BOOK.text(finding.remark)
    assert told.startswith("The NPU is faster than the chosen plan, but the goal is energy, not latency.")
    assert "No accelerator beats" not in told


def test_a_faster_accelerator_beyond_a_limit_is_said_to_be_faster() -> None:
    start = Amount(900.0, (890.0, 910.0))
    why = remark("trial.beyond-limit", limit="start", value=900.0, asked=50.0)
    npu = trial(ORIGINAL, 1.0, NPU, amounts={"start": start}, status=Status.DROPPED, why=why)
    finding = verdicts([BASE, npu], limits={Goal.START: 50.0})["accelerators"]
    assert finding.standing is Standing.GOOD
    told = "The NPU is faster than the chosen plan, but its start of 900 ms is beyond the limit of 50.0 ms."
    assert BOOK.text(finding.remark).startswith(told)
    assert BOOK.text(finding.remark).count("beyond the limit") == 1


def test_a_faster_accelerator_without_a_reason_against_it_is_undecided() -> None:
    finding = verdicts([BASE, trial(ORIGINAL, 1.0, NPU)])["accelerators"]
    assert finding.standing is Standing.UNDECIDED
    assert BOOK.text(finding.remark).startswith("The NPU is faster than the chosen plan, but it was not chosen.")


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


def one_round(found: Trial, ms: float) -> Trial:
    return replace(found, levels={0: math.log(ms)}, latency=Interval(ms, -math.inf, math.inf))


def test_one_round_decides_nothing() -> None:
    """A single disturbed round said that one thread is best; in truth two took 0.56 of its time."""
    two = one_round(trial(ORIGINAL, 4.7), 4.7)
    assert verdicts([BASE, two])["threads"].standing is Standing.UNDECIDED
    npu = one_round(trial(ORIGINAL, 5.0, NPU), 5.0)
    assert verdicts([BASE, npu])["accelerators"].standing is Standing.UNDECIDED
    int8 = one_round(trial("static_int8", 3.9, Plan()), 3.9)
    assert verdicts([BASE, int8])["quantize"].standing is Standing.UNDECIDED


def test_what_is_far_slower_is_not_said_to_be_undecided() -> None:
    gpu = one_round(trial(ORIGINAL, 1364.0, Plan(accelerator="gpu")), 1364.0)
    contended = Comparison(Verdict.UNDECIDED, 341.0, (300.0, 380.0), 0.05, 5, contention=1.0)
    alone = verdicts([BASE, replace(gpu, against=contended)])["accelerators"]
    assert (alone.standing, alone.remark.code) == (Standing.GOOD, "accelerators.none-faster")
    beside = verdicts([BASE, gpu, one_round(trial(ORIGINAL, 5.0, NPU), 5.0)])["accelerators"]
    assert beside.standing is Standing.UNDECIDED
    assert beside.remark.facts["undecided"] == ["npu"]
    assert BOOK.text(beside.remark).startswith("Whether the NPU beats the chosen plan is undecided.")
    assert "NPU: 5.00 ms (so far 25 % slower)." in BOOK.text(beside.remark), "a factor is no fact beside undecided"


def lost_to(than: Trial) -> Remark:
    return remark("trial.slower", ratio=1.5, than=than.id)


@pytest.mark.parametrize(("load", "decided"), [(0.0, True), (1.0, False)])
def test_what_dropped_out_against_a_slower_plan_is_not_undecided(load: float, decided: bool) -> None:
    """The NPU dropped out against a plan that had itself dropped out against the choice."""
    found = Comparison(Verdict.UNDECIDED, 1.2, (1.1, 1.3), 0.05, 2, contention=load)
    builtin = one_round(trial(ORIGINAL, 5.0, Plan(kernel="builtin")), 5.0)
    builtin = replace(builtin, against=found, status=Status.DROPPED, why=lost_to(BASE))
    npu = replace(one_round(trial(ORIGINAL, 7.5, NPU), 7.5), status=Status.DROPPED, why=lost_to(builtin))
    finding = verdicts([BASE, builtin, npu])["accelerators"]
    assert finding.standing is (Standing.GOOD if decided else Standing.UNDECIDED)


def test_a_choice_on_the_npu_that_the_cpu_dropped_out_against_is_decided() -> None:
    npu = trial(ORIGINAL, 2.0, NPU)
    on_cpu = replace(one_round(BASE, 4.0), status=Status.DROPPED, why=lost_to(npu))
    found = nine_findings(Evidence([on_cpu, npu], npu, BASE))
    accelerators = next(one for one in found if one.practice == "accelerators")
    assert accelerators.remark.code == "accelerators.choice"


def test_enough_rounds_decide() -> None:
    assert verdicts([BASE, trial(ORIGINAL, 4.7)])["threads"].standing is Standing.GOOD
    assert verdicts([BASE, trial(ORIGINAL, 5.0, NPU)])["accelerators"].standing is Standing.GOOD


def test_load_that_took_the_cores_leaves_threads_undecided() -> None:
    contended = Comparison(Verdict.UNDECIDED, 1.2, (1.1, 1.3), 0.05, 5, contention=1.0)
    assert verdicts([BASE, trial(ORIGINAL, 4.7, against=contended)])["threads"].standing is Standing.UNDECIDED


def test_a_variant_gets_no_credit_for_the_plan_that_it_ran_on() -> None:
    """The NPU was 1.6 times as fast, and the variant on it brought nothing more."""
    npu = trial(ORIGINAL, 2.5, NPU, floor=FloorState.KEPT)
    same = trial("dynamic_int8", 2.5, NPU, floor=FloorState.BROKEN)
    found = verdicts([BASE, npu, same], npu)["quantize"]
    assert found.standing is Standing.GOOD
    assert found.remark.code == "quantize.none-faster"


def test_a_variant_that_a_proof_left_undecided_is_not_called_slower() -> None:
    """The race has it faster with two threads, on which the original itself is undecided: *good* would claim that it
    brings nothing."""
    contended = Comparison(Verdict.UNDECIDED, 1.2, (1.1, 1.3), 0.05, 5, contention=1.0)
    slow_here = trial(ORIGINAL, 4.8, TWO, against=contended)
    mixed = trial("int8+float3", 2.0, TWO, floor=FloorState.UNDECIDED, status=Status.DROPPED)
    found = verdicts([BASE, slow_here, mixed])["quantize"]
    assert (found.standing, found.remark.code) == (Standing.UNDECIDED, "quantize.undecided")
    broken = verdicts([BASE, slow_here, replace(mixed, floor=FloorState.BROKEN)])["quantize"]
    assert broken.remark.code == "quantize.none-faster"


@pytest.mark.parametrize(("ms", "standing"), [(1.0, Standing.IMPROVED), (2.5, Standing.GOOD), (2.8, Standing.GOOD)])
def test_a_chosen_variant_has_the_credit_of_what_it_changed(ms: float, standing: Standing) -> None:
    """The original breaks the floor on the NPU, and the variant does not: what both gain there is the NPU's."""
    npu = trial(ORIGINAL, 2.5, NPU, floor=FloorState.BROKEN)
    chosen = trial("static_int8", ms, NPU)
    assert verdicts([BASE, npu, chosen], chosen)["quantize"].standing is standing


def test_a_chosen_variant_that_never_met_the_rest_is_undecided() -> None:
    apart = trial(ORIGINAL, 2.5, NPU, floor=FloorState.BROKEN, levels={9: math.log(2.5)})
    chosen = trial("static_int8", 1.0, NPU)
    assert verdicts([BASE, apart, chosen], chosen)["quantize"].standing is Standing.UNDECIDED


def test_a_variant_that_alone_runs_on_a_plan_is_measured_by_the_best_of_the_rest() -> None:
    """Only int8 runs on the NPU: without it, the original with two threads would be the choice."""
    for ms, standing in ((1.0, Standing.IMPROVED), (2.0, Standing.GOOD)):
        chosen = trial("static_int8", ms, NPU)
        found = verdicts([BASE, FASTER, chosen], chosen)["quantize"]
        assert found.standing is standing
        assert found.remark.facts["ratio"]["ratio"] == pytest.approx(ms / 2.0)


def test_what_a_chosen_variant_brings_is_told_against_the_original_on_its_plan() -> None:
    chosen = trial("static_int8", 1.0)
    found = verdicts([BASE, FASTER, chosen], chosen)["quantize"]
    assert found.standing is Standing.IMPROVED
    assert found.remark.facts["ratio"]["ratio"] == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("others", "standing", "code"),
    [
        ([trial(ORIGINAL, 3.0)], Standing.GOOD, "accelerators.choice"),
        ([one_round(trial(ORIGINAL, 3.0), 3.0)], Standing.UNDECIDED, "accelerators.choice-undecided"),
        ([], Standing.UNDECIDED, "accelerators.choice-alone"),
    ],
)
def test_a_choice_on_an_accelerator_is_measured_by_the_cpu_and_not_by_itself(
    others: list[Trial], standing: Standing, code: str
) -> None:
    """It said of a choice on the NPU that it is undecided whether the NPU beats the chosen plan."""
    variant = "static_int8"
    npu, on_cpu = trial(variant, 2.0, NPU), [replace(one, variant=variant) for one in others]
    found = verdicts([BASE, npu, *on_cpu, trial("float16", 1.99, NPU)], npu)["accelerators"]
    assert (found.standing, found.remark.code) == (standing, code)
    assert "beats the chosen plan" not in BOOK.text(found.remark)
    assert BOOK.text(found.remark).startswith("The choice runs on the NPU: 2.00 ms")
    gpu = trial(ORIGINAL, 80.0, Plan(accelerator="gpu", threads=2), status=Status.DROPPED)
    beside = verdicts([BASE, npu, *on_cpu, gpu], npu)["accelerators"]
    assert BOOK.text(beside.remark).endswith("GPU: 80.0 ms (40× slower).")
