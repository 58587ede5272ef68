"""The choice among variants, and what is worth a mix."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from hasten.core.accuracy import Accuracy, Kind
from hasten.core.comparison import Comparison, Verdict
from hasten.core.finding import Standing
from hasten.core.floor import FloorState, FloorVerdict
from hasten.core.goal import Goal
from hasten.core.remark import said
from hasten.core.trial import ORIGINAL, Purpose, Trial
from hasten.practices.quantize.facts import QuantizeFound
from hasten.practices.quantize.rules import choice, choose, finding_of, worth_mixing
from hasten.practices.quantize.words import BOOK

START = Trial(ORIGINAL, path="m.tflite", size_bytes=1000, floor=FloorState.KEPT)
KEPT, BROKEN, UNKNOWN, FAILED = FloorState.KEPT, FloorState.BROKEN, FloorState.UNKNOWN, FloorState.FAILED


def variant(name: str, floor: FloorState = KEPT, *, size: int = 500, ratio: float = 1.0) -> Trial:
    verdict = Verdict.FASTER if ratio < 0.99 else Verdict.SLOWER if ratio > 1.01 else Verdict.SAME
    against = Comparison(verdict, ratio, (ratio - 0.01, ratio + 0.01), 0.02, 5)
    return Trial(name, path=f"{name}.tflite", size_bytes=size, floor=floor, against=against, nodes=(0, 1, 2))


def found(*trials: Trial) -> QuantizeFound:
    return QuantizeFound("m.tflite", trials, choose(trials, Goal.LATENCY).variant, "out/chosen.tflite")


def test_the_original_stays_unless_a_variant_is_proven_faster() -> None:
    trials = [START, variant("same"), variant("slower", ratio=2.0), variant("fast but wrong", BROKEN, ratio=0.5)]
    assert choose(trials, Goal.LATENCY) is START
    assert choice(trials, Goal.LATENCY).code == "quantize.none-proven-faster"
    assert choice(trials, Goal.LATENCY).facts["smallest"] == {"variant": "same", "size": 500}
    fast = variant("fast", ratio=0.8)
    assert choose([*trials, fast, variant("less so", ratio=0.9)], Goal.LATENCY) is fast
    assert choose([*trials, fast, variant("no news", ratio=0.799)], Goal.LATENCY) is fast


def test_for_size_the_smallest_that_keeps_the_floor_is_chosen_however_slow() -> None:
    small = variant("small", size=250, ratio=3.0)
    trials = [START, variant("half"), small, variant("tiny", BROKEN, size=100)]
    assert choose(trials, Goal.SIZE) is small
    assert BOOK.text(choice(trials, Goal.SIZE)).startswith("small: 3.00× slower (95 % CI 2.99–3.01), 75 % smaller")


def test_a_choice_is_explained_by_what_was_measured() -> None:
    fast = variant("fast", size=1100, ratio=0.8)
    assert choice([START, fast], Goal.LATENCY).facts["size"] == pytest.approx(0.1)
    assert choice([START, fast], Goal.LATENCY).facts["ratio"] == {"ratio": 0.8, "ci95": pytest.approx([0.79, 0.81])}
    unsure = Comparison(Verdict.UNDECIDED, 3.03, (0.1, 90.0), math.inf, 2)
    small = replace(variant("small", size=380), against=unsure)
    assert "speed undecided" in BOOK.text(choice([START, small], Goal.SIZE))
    assert choice([START, replace(small, against=None)], Goal.SIZE).facts["ratio"] is None
    mixed = replace(fast, recipe="static_int8", float_nodes=tuple(range(9)))
    assert BOOK.text(choice([START, mixed], Goal.LATENCY)).startswith(
        "Quantized to int8, with 9 operators kept in float"
    )


def test_a_variant_without_a_file_is_never_chosen() -> None:
    assert choose([START, replace(variant("gone", size=10), path="")], Goal.SIZE) is START


def test_without_data_nothing_is_chosen_and_the_finding_asks_for_some() -> None:
    trials = (START, variant("any", UNKNOWN, ratio=0.5))
    assert choose(trials, Goal.LATENCY) is START
    finding = finding_of(found(*trials))
    assert finding.standing is Standing.NOT_EXAMINED
    assert "--data" in BOOK.hint(finding.remark)


def test_a_larger_variant_is_not_advised_for_its_size() -> None:
    assert choice([START, variant("larger", size=1900)], Goal.LATENCY).facts["smallest"] is None


def test_where_none_could_be_made_that_is_said_with_a_reason() -> None:
    failed = Trial("float16", floor=FAILED, why=said("float16 changes nothing."))
    assert "float16: float16 changes nothing." in BOOK.text(choice([START, failed], Goal.LATENCY))
    assert finding_of(found(START, failed)).standing is Standing.NOT_EXAMINED
    assert choice([START, failed, variant("wrong", BROKEN)], Goal.LATENCY).code == "quantize.none-keeps-floor"
    assert choice([START], Goal.LATENCY).code == "quantize.none-judged"


def test_an_original_that_data_cannot_judge_is_the_reason_for_no_choice() -> None:
    trials = (replace(START, why=said("It is no better than chance.")), variant("any", UNKNOWN, ratio=0.5))
    assert choose(trials, Goal.LATENCY) is trials[0]
    assert "It is no better than chance." in BOOK.text(choice(trials, Goal.LATENCY))
    assert finding_of(found(*trials)).standing is Standing.NOT_EXAMINED


def test_already_quantized_is_a_good_answer() -> None:
    assert finding_of(replace(found(START), already=said("It is quantized already."))).standing is Standing.GOOD


def test_an_undecided_variant_is_chosen_unless_the_rule_refuses_it() -> None:
    verdict = FloorVerdict(FloorState.UNDECIDED, 0.006, (-0.015, 0.028), 156, 0.021, 4200, 0.031)
    accuracy = Accuracy("top-1", 0.9, 0.85, 0.94, 156, "data.npz")
    open_one = replace(
        variant("open", FloorState.UNDECIDED, ratio=0.5), judged=verdict, reported=verdict, reporting=accuracy
    )
    trials = [START, open_one]
    assert choose(trials, Goal.LATENCY) is open_one
    assert BOOK.text(choice(trials, Goal.LATENCY)).endswith(
        "accuracy undecided, −0.6 pp (95 % CI −2.8 to +1.5). About 4,200 samples would decide; the 156 here can only"
        " show that a drop of 3.1 pp or more breaks the floor."
    )
    agreed = replace(open_one, reporting=replace(accuracy, kind=Kind.AGREEMENT))
    assert ", agreement undecided, −0.6 pp" in BOOK.text(choice([START, agreed], Goal.LATENCY))
    flattered = BOOK.text(choice([START, replace(open_one, optimistic=True)], Goal.LATENCY))
    assert flattered.endswith("slightly optimistic, as the reporting part of the data had a say in the choice.")
    refused = replace(open_one, refused=True)
    assert choose([START, refused], Goal.LATENCY) is START
    assert choice([START, refused], Goal.LATENCY).code == "quantize.all-undecided"
    assert worth_mixing([START, replace(refused, nodes=(1, 2))], Goal.LATENCY) == [replace(refused, nodes=(1, 2))]


def test_among_equally_fast_ones_the_one_nearest_to_the_floor_is_mixed_first() -> None:
    far, near = (replace(variant(name, BROKEN, ratio=0.5), drop=drop) for name, drop in (("far", 0.3), ("near", 0.02)))
    assert [trial.variant for trial in worth_mixing([START, far, near], Goal.LATENCY)] == ["near", "far"]


def test_only_what_would_be_better_is_worth_mixing() -> None:
    kept = variant("kept", ratio=0.8)
    best, second = variant("best", BROKEN, ratio=0.5), variant("second", BROKEN, ratio=0.7)
    trials = [START, kept, second, best, variant("no better", BROKEN, ratio=0.9), variant("slow", BROKEN, ratio=2.0)]
    assert [trial.variant for trial in worth_mixing(trials, Goal.LATENCY)] == ["best", "second"]
    mix = replace(best, variant="best+float1", float_nodes=(1,), purpose=Purpose.FLOOR)
    assert mix not in worth_mixing([*trials, mix], Goal.LATENCY)
    without_slow = replace(mix, purpose=Purpose.SLOW_NODES)
    assert without_slow in worth_mixing([*trials, without_slow], Goal.LATENCY)
