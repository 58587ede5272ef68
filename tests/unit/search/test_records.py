"""The records of a tuning: limits and budgets as people write them, trials in a file, the front, the sentence."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hasten.core.accuracy import Accuracy, Kind, PairedAccuracy
from hasten.core.codec import to_data
from hasten.core.comparison import Comparison, Verdict
from hasten.core.errors import UsageError
from hasten.core.floor import FloorState
from hasten.core.goal import Amount, Goal
from hasten.core.limits import Limit, budget_from_text, keeps_limit, limit_from_texts
from hasten.core.plan import Plan
from hasten.core.remark import remark, said
from hasten.core.statistics import Interval
from hasten.core.trial import NOTHING, ORIGINAL, Purpose, Status, Step, Trial, trial_data, trial_from_data
from hasten.search.facts import TuneFound, front_of
from hasten.search.tuning import limit_remarks, over_budget, stand_in_notes
from hasten.search.view import document, view
from hasten.search.words import BOOK, verdict_words
from hasten.show.terminal import terminal_text
from tests.unit.search import examples

if TYPE_CHECKING:
    from collections.abc import Sequence

FASTER = Comparison(Verdict.FASTER, 1 / 2.4, (1 / 2.5, 1 / 2.3), 0.02, 6)
BEFORE = Accuracy("top-1", 0.921, 0.90, 0.94, 500, "data", notes=(said("A note."),))
START = Trial(
    ORIGINAL,
    status=Status.KEPT,
    floor=FloorState.KEPT,
    latency=Interval(2.4, 2.3, 2.5),
    reporting=BEFORE,
    size_bytes=1000,
)
BEST = Trial(
    "int8+float2",
    Plan(threads=2),
    recipe="static_int8",
    purpose=Purpose.SLOW_NODES,
    parent="static_int8",
    float_nodes=(1, 2),
    status=Status.KEPT,
    floor=FloorState.KEPT,
    latency=Interval(1.0, 0.9, 1.1),
    against=FASTER,
    choosing=BEFORE,
    reporting=replace(BEFORE, value=0.918),
    change=PairedAccuracy("top-1", 100, -0.003, -math.inf, 0.2),
    drop=0.001,
    size_bytes=260,
    why=remark("trial.slower", ratio=2.0, than="x"),
    notes=(said("Another note."),),
    levels={1: 0.0, 3: 0.1},
)


def found(best: Trial = BEST, final: Comparison | None = FASTER, **more: object) -> TuneFound:
    made = TuneFound("m.tflite", START, best, "out/model.tflite", (), (), (), final, 9, 60.0)
    return replace(made, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("5m", 300), ("1h", 3600), ("1.5m", 90), ("45", 45), ("2 min", 120)]
)
def test_budgets(text: str, seconds: float) -> None:
    assert budget_from_text(text) == seconds


@pytest.mark.parametrize("text", ["", "5 parsecs", "-3s", "0s", "s"])
def test_budgets_that_are_none(text: str) -> None:
    with pytest.raises(UsageError, match="budget"):
        budget_from_text(text)


def test_limits_as_people_write_them() -> None:
    assert limit_from_texts(["latency=5ms", "size=1MB"]) == Limit(5.0, 1_000_000)
    assert limit_from_texts(["latency=250us,size=2 MiB"]) == Limit(0.25, 2 * 2**20)
    assert limit_from_texts([]) == Limit()
    others = limit_from_texts(["energy=3mJ", "throughput=200/s", "start=0.05s"])
    assert others == Limit(energy_mj=3.0, throughput=200.0, start_ms=50.0)
    assert others.asked == {Goal.ENERGY: 3.0, Goal.THROUGHPUT: 200.0, Goal.START: 50.0}
    assert limit_from_texts(["latency=5ms,throughput=30"]).describe() == "latency 5.00 ms, throughput 30.0/s"
    for wrong in ("speed=5ms", "latency=5kg", "size", "latency=-1ms", "throughput=5ms", "energy=1MB", "size=0.4B"):
        with pytest.raises(UsageError):
            limit_from_texts([wrong])


def timed(ms: float, low: float, high: float, size: int) -> Trial:
    return Trial("v", latency=Interval(ms, low, high), size_bytes=size)


def test_a_limit_names_the_nearest() -> None:
    asked = Limit(5.0, 1000).asked
    assert limit_remarks(timed(4.0, 3.9, 4.1, 1000), asked, ended=True) == []
    (missed,) = limit_remarks(timed(6.0, 5.9, 6.1, 900), asked, ended=True)
    assert missed == remark("tune.unreachable", limit="latency", asked=5.0, nearest=6.0)
    assert len(limit_remarks(timed(6.0, 5.9, 6.1, 2000), asked, ended=True)) == 2


def test_a_limit_is_not_out_of_reach_before_everything_was_tried() -> None:
    """No recipe had run, and one of them would have kept it."""
    (missed,) = limit_remarks(timed(1.0, 0.9, 1.1, 103_000), Limit(size_bytes=60_000).asked, ended=False)
    told = "The size limit of 60.0 kB is not reached yet; the best result so far is 103 kB."
    assert BOOK.text(missed) == told
    assert "--resume" in BOOK.hint(missed)
    assert verdict_words(found(unreachable=(missed,))).endswith(told)


def test_an_npu_that_is_no_npu_is_told_once_where_it_was_timed() -> None:
    stand_ins = {"npu": "OpenVINO's CPU back end, because this machine has no NPU", "gpu": "a software GPU"}
    npu = replace(timed(1.0, 0.9, 1.1, 9), plan=Plan(accelerator="npu"))
    (told,) = stand_in_notes([npu, replace(npu, variant="w"), Trial("v", Plan(accelerator="gpu"))], stand_ins)
    assert BOOK.text(told) == "The NPU here is OpenVINO's CPU back end, because this machine has no NPU."


def test_a_budget_below_the_least_answer_is_told_with_what_that_took() -> None:
    (told,) = over_budget(1.0, 8.0)
    assert BOOK.text(told).startswith("The tuning took 8.0 s instead of 1.0 s: ")
    assert over_budget(10.0, 11.0) == over_budget(60.0, 100.0) == []


def test_a_limit_inside_the_interval_is_undecided_and_said_so() -> None:
    (told,) = limit_remarks(timed(5.1, 4.9, 5.3, 900), Limit(5.0).asked, ended=True)
    assert told.code == "tune.limit-undecided"
    assert BOOK.text(told) == (
        "Whether the result keeps the latency limit of 5.00 ms is undecided: 5.10 ms (95 % CI 4.90–5.30 ms)."
    )
    (unknown,) = limit_remarks(timed(5.1, 4.9, 5.3, 900), Limit(energy_mj=3.0).asked, ended=True)
    assert unknown.code == "tune.limit-undecided"
    assert "was not measured" in BOOK.text(unknown)


@given(st.sampled_from(list(Goal)), st.floats(0.1, 100), st.floats(0.01, 1000), st.floats(0, 0.4), st.floats(0, 0.4))
def test_a_limit_is_kept_or_broken_only_if_the_whole_interval_agrees(
    goal: Goal, asked: float, value: float, below: float, above: float
) -> None:
    ends = (value * (1 - below), value * (1 + above))
    kept = keeps_limit(goal, asked, Amount(value, ends))
    inside = [end >= asked if goal.more_is_better else end <= asked for end in ends]
    assert kept is (inside[0] if inside[0] == inside[1] else None)


def test_after_one_process_only_what_nobody_could_overlook_is_decided() -> None:
    assert keeps_limit(Goal.LATENCY, 5.0, Amount(9.0)) is False
    assert keeps_limit(Goal.LATENCY, 5.0, Amount(2.0)) is True
    assert keeps_limit(Goal.LATENCY, 5.0, Amount(6.0)) is None
    assert keeps_limit(Goal.THROUGHPUT, 100.0, Amount(400.0)) is True
    assert keeps_limit(Goal.THROUGHPUT, 100.0, Amount(50.0)) is False
    assert keeps_limit(Goal.ENERGY, 5.0, None) is None


def test_a_trial_comes_back_from_the_session_as_it_was() -> None:
    for trial in (START, BEST, Trial("x", Plan(accelerator="npu"), latency=Interval(1, -math.inf, 2))):
        written = json.loads(json.dumps(trial_data(trial), allow_nan=False))
        assert trial_from_data(written) == trial


@pytest.mark.parametrize(
    ("name", "recipe", "purpose", "parent"),
    [
        ("static_int8_but_12", "static_int8", Purpose.FLOOR, "static_int8"),
        ("static_int8_size_but_12", "static_int8", Purpose.FLOOR_AND_SIZE, "static_int8"),
        ("static_int8_but_slow_19", "static_int8", Purpose.SLOW_NODES, "static_int8"),
        ("static_int8_but_slow_19_but_24", "static_int8", Purpose.FLOOR, "static_int8_but_slow_19"),
        ("float16", "float16", Purpose.RECIPE, ""),
        ("pruned_50_sparse", "", Purpose.RECIPE, ""),
        (ORIGINAL, "", Purpose.RECIPE, ""),
    ],
)
def test_a_variant_of_an_older_session_is_told_by_its_name(
    name: str, recipe: str, purpose: Purpose, parent: str
) -> None:
    """Only there: what a variant is made of is part of its record now."""
    older = {"recipe": name, "accuracy": None, "accuracy_on": "", "floor": "", "why": "", "notes": ["as it was said"]}
    trial = trial_from_data(older)
    assert (trial.variant, trial.recipe, trial.purpose, trial.parent) == (name, recipe, purpose, parent)
    assert trial.notes == (said("as it was said"),)
    assert trial.why == NOTHING


def test_the_accuracy_of_an_older_session_is_that_of_its_half() -> None:
    accuracy = {**BEFORE.as_data(), "notes": ["a sentence"]}
    del accuracy["remarks"]
    older = {"variant": "v", "accuracy": accuracy, "accuracy_on": "choosing", "floor": "kept", "why": "it is slow"}
    trial = trial_from_data({**older, "against_original": to_data(FASTER), "status": "dropped"})
    assert trial.choosing is not None
    assert trial.choosing.notes == (said("a sentence"),)
    assert trial.reporting is None
    assert trial.accuracy_on == "choosing"
    assert (trial.against, trial.status, trial.why) == (FASTER, Status.DROPPED, said("it is slow"))


TRIALS = st.builds(
    lambda ms, drop, size, floor: Trial("v", floor=floor, latency=Interval(ms, ms, ms), drop=drop, size_bytes=size),
    st.floats(0.1, 10),
    st.floats(-0.1, 0.1),
    st.integers(1, 100),
    st.sampled_from([FloorState.KEPT, FloorState.BROKEN, FloorState.NOT_JUDGED]),
)


@given(st.lists(TRIALS, max_size=12))
def test_nothing_beats_what_is_on_the_front_and_something_beats_the_rest(trials: list[Trial]) -> None:
    def beats(one: Trial, other: Trial) -> bool:
        a, b = ((t.median_ms, t.drop or 0.0, t.size_bytes) for t in (one, other))
        return all(x <= y for x, y in zip(a, b, strict=True)) and a != b

    front = front_of(trials)
    kept = [trial for trial in trials if trial.floor is FloorState.KEPT]
    assert all(trial.floor is FloorState.KEPT for trial in front)
    assert not any(beats(one, other) for one in kept for other in front)
    assert all(any(beats(one, trial) for one in front) for trial in kept if trial not in front)
    assert [trial.median_ms for trial in front] == sorted(trial.median_ms for trial in front)


@given(st.lists(st.tuples(TRIALS, st.floats(0.1, 10), st.floats(1, 1000)), min_size=1, max_size=10))
def test_the_front_has_the_best_of_every_goal(drawn: list[tuple[Trial, float, float]]) -> None:
    trials = [
        replace(trial, amounts={"energy": Amount(energy), "throughput": Amount(rate)}) for trial, energy, rate in drawn
    ]
    kept = [trial for trial in trials if trial.floor is FloorState.KEPT]
    front = front_of(trials, [Goal.ENERGY, Goal.THROUGHPUT])

    def costs(some: Sequence[Trial], goal: Goal) -> list[float]:
        known = [amount.value for trial in some if (amount := trial.amount(goal))]
        return [-value for value in known] if goal.more_is_better else known

    for goal in (Goal.ENERGY, Goal.THROUGHPUT, Goal.LATENCY, Goal.SIZE):
        assert min(costs(kept, goal), default=None) == min(costs(front, goal), default=None)
    assert costs(front, Goal.ENERGY) == sorted(costs(front, Goal.ENERGY)), "the best of the goal first"


def test_the_document_has_the_goal_and_the_front_as_data() -> None:
    data = json.loads(json.dumps(document(examples.for_energy()), allow_nan=False))
    assert {"name": "energy", "unit": "mJ", "verdict": "faster", "confirmed": True}.items() <= data["goal"].items()
    assert data["goal"]["original"] == {"value": 22.0, "ci95": [21.5, 22.6]}
    assert data["best"]["speedup"] == pytest.approx(1 / 0.525), "the speedup is that of the latency"
    assert [entry["energy_mj"] for entry in data["front"]] == [8.9, 22.0], "the original loses no accuracy"
    assert [entry["code"] for entry in data["untried"]][:2] == ["untried.plans", "untried.recipes"]
    assert document(found())["goal"]["name"] == "latency"


@pytest.mark.parametrize("goal", [goal for goal in Goal if goal is not Goal.LATENCY])
def test_the_sentence_names_what_was_gained(goal: Goal) -> None:
    best = replace(BEST, amounts={goal.value: Amount(1.0)})
    told = verdict_words(found(best, goal=goal))
    assert told.startswith("58 % smaller" if goal is Goal.SIZE else f"{goal.gain(FASTER.ratio, FASTER.ci95)}, ")
    assert "latency 2.40 ms → 1.00 ms" in told
    assert verdict_words(found(START, goal=goal)).startswith("Keep the original")


def test_the_sentence_that_a_manager_understands() -> None:
    assert verdict_words(found()) == "2.4× faster (95 % CI 2.3–2.5), top-1 92.1 % → 91.8 %, 74 % smaller."


def test_the_sentence_does_not_claim_what_was_not_confirmed() -> None:
    assert "not confirmed" in verdict_words(found(final=None))
    assert verdict_words(found(best=START)).startswith("Keep the original")
    same = Comparison(Verdict.SAME, 1.0, (0.99, 1.01), 0.02, 6)
    assert "As fast as" in verdict_words(found(final=same))
    assert "As fast as" in verdict_words(found(final=replace(same, ratio=1.004)))
    slower = Comparison(Verdict.SLOWER, 1.2, (1.15, 1.25), 0.02, 6)
    assert verdict_words(found(final=slower)).startswith("1.20× slower (95 % CI 1.15–1.25), ")
    agreeing = replace(BEST, reporting=replace(BEFORE, kind=Kind.AGREEMENT))
    assert "agreement with the original" in verdict_words(found(best=agreeing))
    plain = replace(BEST, variant=ORIGINAL, choosing=None, reporting=None)
    assert "same outputs" in verdict_words(found(best=plain))
    missed = remark("tune.unreachable", limit="latency", asked=0.1, nearest=1.0)
    assert "The latency limit of 0.100 ms is out of reach" in verdict_words(found(unreachable=(missed,)))


@pytest.mark.parametrize("ratio", [0.70, 1.20])
@pytest.mark.parametrize("goal", [goal for goal in Goal if goal is not Goal.SIZE])
def test_an_undecided_confirmation_is_called_so_with_what_is_known(goal: Goal, ratio: float) -> None:
    """A limit that the original breaks lets the best be chosen without proof."""
    busy = Comparison(Verdict.UNDECIDED, ratio, (ratio - 0.1, ratio + 0.1), math.inf, 6, contention=1.2)
    step = Step("threads", 2.4, 2.4 * ratio, ratio, busy.ci95, remark("step.threads", threads=2, before=1))
    tuned = found(final=busy, timed=busy, goal=goal, steps=(replace(step, goal=goal),))
    told = verdict_words(tuned)
    assert told.startswith("Undecided whether it is ")
    shown = 1 / ratio if goal is Goal.THROUGHPUT else ratio
    assert f"ratio {shown:.3f}, 95 % CI" in told
    page = terminal_text(view(tuned))
    assert "undecided (" in page, "the step says it, too"
    assert not any(word in page for word in ("× faster", "× slower", "As fast", "original's time"))
    data = document(tuned)
    assert (data["goal"]["verdict"], data["best"]["verdict"], data["best"]["confirmed"]) == (
        "undecided",
        "undecided",
        False,
    )


def test_a_race_that_is_undecided_so_far_claims_nothing() -> None:
    busy = replace(FASTER, verdict=Verdict.UNDECIDED)
    told = verdict_words(found(replace(BEST, against=busy), final=None))
    assert told.startswith("Undecided so far whether it is faster than the original (time ratio 0.417, ")


def test_the_document_has_the_contract() -> None:
    data = json.loads(json.dumps(document(found()), allow_nan=False))
    assert data.keys() >= {"model", "verdict", "verdicts", "best", "front", "trials", "seconds", "interrupted"}
    assert data["best"].keys() >= {"model", "variant", "plan", "speedup", "ci95", "accuracy", "size", "size_ratio"}
    assert data["best"]["speedup"] == pytest.approx(2.4)
    assert data["best"]["ci95"] == pytest.approx([2.3, 2.5])


def test_a_command_that_cannot_be_shown_as_it_is_is_left_out() -> None:
    found = examples.typical()
    odd = replace(found, command="hasten tune model.tflite -o 'a\nb'")
    assert "again" in terminal_text(view(found))
    assert "again" not in terminal_text(view(odd))
