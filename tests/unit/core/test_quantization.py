"""Rows of variants, and the choice among them."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest

from hasten.core.accuracy import Accuracy, Kind, PairedAccuracy
from hasten.core.comparison import Comparison, Verdict
from hasten.core.finding import Standing
from hasten.core.quantization import (
    BROKEN,
    FAILED,
    KEPT,
    ORIGINAL,
    SIZE,
    SPEED,
    UNKNOWN,
    VariantRow,
    choose,
    explain_choice,
    finding_of,
    floor_of,
    row_from_data,
    worth_mixing,
)
from hasten.core.remark import said
from hasten.core.statistics import Interval

START = VariantRow(ORIGINAL, "m.tflite", "aa", 1000, 900, KEPT)


def variant(name: str, floor: str = KEPT, *, size: int = 500, ratio: float = 1.0) -> VariantRow:
    verdict = Verdict.FASTER if ratio < 0.99 else Verdict.SLOWER if ratio > 1.01 else Verdict.SAME
    against = Comparison(verdict, ratio, (ratio - 0.01, ratio + 0.01), 0.02, 5)
    return VariantRow(name, f"{name}.tflite", "bb", size, size, floor, against=against, nodes=(0, 1, 2))


def test_the_original_stays_unless_a_variant_is_surely_faster() -> None:
    rows = [START, variant("same"), variant("slower", ratio=2.0), variant("fast but wrong", BROKEN, ratio=0.5)]
    assert choose(rows, SPEED) is START
    assert "no variant that keeps the floor is surely faster; same keeps it" in explain_choice(rows, SPEED)
    fast = variant("fast", ratio=0.8)
    assert choose([*rows, fast, variant("less so", ratio=0.9)], SPEED) is fast
    assert choose([*rows, fast, variant("no news", ratio=0.799)], SPEED) is fast


def test_for_size_the_smallest_that_keeps_the_floor_is_chosen_however_slow() -> None:
    small = variant("small", size=250, ratio=3.0)
    rows = [START, variant("half"), small, variant("tiny", BROKEN, size=100)]
    assert choose(rows, SIZE) is small
    assert explain_choice(rows, SIZE) == "small keeps the floor, is 75% smaller and takes 3.0 times as long."


def test_a_choice_is_explained_in_words_that_its_measurements_bear() -> None:
    fast = variant("fast", size=1100, ratio=0.8)
    assert explain_choice([START, fast], SPEED) == "fast keeps the floor, is 10% larger and takes 20% less time."
    unsure = Comparison(Verdict.UNDECIDED, 3.03, (0.1, 90.0), math.inf, 2)
    small = replace(variant("small", size=380), against=unsure)
    assert explain_choice([START, small], SIZE) == (
        "small keeps the floor, is 62% smaller and may be faster or slower (ratio 3.03, undecided)."
    )
    untimed = replace(small, against=None)
    assert explain_choice([START, untimed], SIZE) == "small keeps the floor and is 62% smaller."


def test_a_variant_without_a_file_is_never_chosen() -> None:
    assert choose([START, replace(variant("gone", size=10), path="")], SIZE) is START


def test_without_data_nothing_is_chosen_and_the_finding_asks_for_some() -> None:
    rows = [START, variant("any", UNKNOWN, ratio=0.5)]
    assert choose(rows, SPEED) is START
    finding = finding_of(rows, SPEED)
    assert finding.standing is Standing.NOT_EXAMINED
    assert "--data" in finding.what_to_do


def test_a_larger_variant_is_not_advised_for_its_size() -> None:
    assert "--for size" in explain_choice([START, variant("smaller", size=900)], SPEED)
    assert "--for size" not in explain_choice([START, variant("larger", size=1900)], SPEED)


def test_where_none_could_be_made_that_is_said_with_a_reason() -> None:
    failed = VariantRow("float16", floor=FAILED, why="float16 changes nothing.\nlog line")
    assert "no variant could be made and run (float16: float16 changes nothing)" in explain_choice(
        [START, failed], SPEED
    )
    assert finding_of([START, failed], SPEED).standing is Standing.NOT_EXAMINED
    assert "no variant keeps the floor" in explain_choice([START, failed, variant("wrong", BROKEN)], SPEED)
    assert "judged yet" in explain_choice([START], SPEED)


def test_an_original_that_data_cannot_judge_is_the_reason_for_no_choice() -> None:
    rows = [replace(START, why="it is no better than chance"), variant("any", UNKNOWN, ratio=0.5)]
    assert choose(rows, SPEED) is rows[0]
    assert "no variant can be judged. it is no better than chance" in explain_choice(rows, SPEED)
    assert finding_of(rows, SPEED).standing is Standing.NOT_EXAMINED


def test_already_quantised_is_a_good_answer() -> None:
    assert finding_of([START], SPEED, "it is quantised already").standing is Standing.GOOD


@pytest.mark.parametrize(
    ("kind", "kept", "floor"),
    [
        (Kind.ACCURACY, True, KEPT),
        (Kind.AGREEMENT, False, BROKEN),
        (Kind.UNKNOWN, True, UNKNOWN),
        (Kind.ACCURACY, None, UNKNOWN),
    ],
)
def test_random_inputs_say_nothing_about_the_floor(kind: Kind, kept: bool | None, floor: str) -> None:
    assert floor_of(kind, kept) == floor


def test_among_equally_fast_ones_the_one_nearest_to_the_floor_is_mixed_first() -> None:
    far, near = (replace(variant(name, BROKEN, ratio=0.5), drop=drop) for name, drop in (("far", 0.3), ("near", 0.02)))
    assert [row.recipe for row in worth_mixing([START, far, near], SPEED)] == ["near", "far"]


def test_only_what_would_be_better_is_worth_mixing() -> None:
    kept = variant("kept", ratio=0.8)
    best, second = variant("best", BROKEN, ratio=0.5), variant("second", BROKEN, ratio=0.7)
    rows = [START, kept, second, best, variant("no better", BROKEN, ratio=0.9), variant("slow", BROKEN, ratio=2.0)]
    assert [row.recipe for row in worth_mixing(rows, SPEED)] == ["best", "second"]
    mix = replace(best, recipe="best_but_1", float_nodes=(1,))
    assert mix not in worth_mixing([*rows, mix], SPEED)
    without_slow = replace(best, recipe="best_but_slow_1", float_nodes=(1,))
    assert without_slow in worth_mixing([*rows, without_slow], SPEED)


@pytest.mark.parametrize(
    ("name", "base"),
    [
        ("static_int8_but_12", "static_int8"),
        ("static_int8_size_but_12", "static_int8"),
        ("static_int8_but_slow_19_but_24", "static_int8"),
        ("float16", "float16"),
    ],
)
def test_the_name_of_a_mix_tells_its_recipe(name: str, base: str) -> None:
    assert variant(name).base_recipe == base


def test_a_row_survives_the_session_file() -> None:
    accuracy = Accuracy("top-1", 0.5, 0.4, 0.6, 100, "data.npz", notes=(said("a note"),))
    full = replace(
        variant("full"),
        why="because",
        choosing=accuracy,
        accuracy=replace(accuracy, value=0.55),
        change=PairedAccuracy("mae", 100, 0.1, -math.inf, 0.2, higher_is_better=False),
        latency=Interval(1.5, -math.inf, math.inf),
        float_nodes=(1,),
        integer_share=0.75,
        notes=("another",),
    )
    for row in (START, full, replace(full, accuracy=None), VariantRow("failed", floor="failed", why="it crashed")):
        assert row_from_data(json.loads(json.dumps(row.as_data(), allow_nan=False))) == row
