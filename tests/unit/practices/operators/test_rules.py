"""Which operators are worth work, what is kept, and the verdict."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from hasten.core.comparison import Comparison, Verdict, compare_rounds
from hasten.core.finding import Standing
from hasten.core.measurement import Model
from hasten.core.plan import Plan
from hasten.core.profile import OperatorTime, Peaks, Profile
from hasten.core.remark import remark
from hasten.core.trial import ORIGINAL, Trial
from hasten.custom_kernels.words import WRONG
from hasten.practices.operators.facts import FASTER_ALONE, NOT_ALONE, TOGETHER, Tried
from hasten.practices.operators.rules import finding_of, places_of, verdict, worth_keeping, worth_proving
from hasten.practices.operators.view import view
from hasten.practices.operators.words import BOOK
from hasten.practices.practice import Evidence
from hasten.show.terminal import terminal_text
from tests.unit.practices.operators import examples


def operator(index: int, op: str, ms: float, **changes: Any) -> OperatorTime:
    known = {"kernels": (op,), "location": f"{op.lower()}_{index}", "shapes": "", "share": 0.0}
    return OperatorTime(index=index, op=op, ms=ms, mapped="exact", **{"partition": 0, **known, **changes})


def profile(*operators: OperatorTime) -> Profile:
    total = sum(one.ms for one in operators)
    return Profile(Model("m", 1, ""), Plan(), total, total, total, total, 1.0, 10, operators, ())


def tried(what: str, *nodes: int) -> Tried:
    return Tried(what, nodes, len(nodes), 0.0)


def test_operators_to_which_the_same_applies_are_one_place() -> None:
    found = profile(
        operator(0, "TRANSPOSE", 2.0, headroom_ms=1.9),
        operator(1, "CONV_2D", 5.0, headroom_ms=0.2),
        operator(2, "TRANSPOSE", 1.0, headroom_ms=0.9),
        operator(3, "TRANSPOSE", 0.5, headroom_ms=0.4),
    )
    first, second, third = places_of(found, [tried("layout", 0, 2)])
    assert (first.op, first.nodes, first.to_try) == ("TRANSPOSE", (0, 2), ("layout",))
    assert first.headroom_ms == pytest.approx(2.8)
    assert first.share == pytest.approx(3.0 / 8.5)
    assert (second.op, second.nodes, second.to_try) == ("TRANSPOSE", (3,), ())
    assert third.op == "CONV_2D"


def test_combinations_of_rewrites_are_nothing_to_try() -> None:
    found = profile(operator(0, "PAD", 1.0, headroom_ms=0.9))
    (place,) = places_of(found, [tried("same-padding", 0), tried(TOGETHER, 0), tried(FASTER_ALONE, 0)])
    assert place.to_try == ("same-padding",)


def test_what_neither_dominates_nor_has_something_to_win_or_try_is_left_out() -> None:
    found = profile(operator(0, "CONV_2D", 10.0, headroom_ms=0.01), operator(1, "RELU", 0.1, headroom_ms=0.0))
    assert [place.op for place in places_of(found, [])] == ["CONV_2D"]
    assert {place.op for place in places_of(found, [tried("activations", 1)])} == {"CONV_2D", "RELU"}


def test_operators_outside_of_the_delegate_are_told_apart() -> None:
    found = profile(operator(0, "PAD", 1.0, headroom_ms=0.9), operator(1, "PAD", 1.0, headroom_ms=0.9, partition=None))
    assert sorted(place.delegated for place in places_of(found, [])) == [False, True]


@pytest.mark.parametrize(
    ("ratio", "ci95", "rounds", "worth"),
    [
        (0.05, (0.04, 0.06), 2, True),
        (0.05, (0.01, 1.2), 2, False),
        (0.99, (0.98, 0.995), 2, False),
        (0.05, (0.04, 0.06), 9, False),
    ],
    ids=["clear", "noisy", "small", "undecided for another reason"],
)
def test_a_clear_difference_of_few_rounds_is_proved_further(
    ratio: float, ci95: tuple[float, float], rounds: int, worth: bool
) -> None:
    found = Comparison(Verdict.UNDECIDED, ratio, ci95, 0.1, rounds)
    one = replace(tried("widening", 1), max_error=0.0, comparison=found)
    assert worth_proving(one) is worth
    assert not worth_keeping(one)


@pytest.mark.parametrize(
    ("error", "tolerance", "verdict", "kept"),
    [
        (0.0, 0.0, Verdict.FASTER, True),
        (1e-9, 0.0, Verdict.FASTER, False),
        (5e-7, 1e-6, Verdict.FASTER, True),
        (float("inf"), 1e-6, Verdict.FASTER, False),
        (None, 1e-6, Verdict.FASTER, False),
        (0.0, 0.0, Verdict.SAME, False),
        (0.0, 0.0, Verdict.UNDECIDED, False),
        (0.0, 0.0, Verdict.SLOWER, False),
    ],
)
def test_only_what_is_equal_and_surely_faster_is_kept(
    error: float | None, tolerance: float, verdict: Verdict, kept: bool
) -> None:
    found = Comparison(verdict, 0.8, (0.7, 0.9), 0.05, 5)
    assert worth_keeping(Tried("x", (1,), 1, tolerance, error, 6, found)) is kept


@pytest.mark.parametrize(
    ("equal", "said"),
    [
        ((False,), "1 rewrite applied, 1 failed."),
        ((True,), "1 rewrite applied, none was faster."),
        ((True, False), "2 rewrites applied, 1 failed, none of the others was faster."),
    ],
)
def test_what_failed_is_not_called_slow(equal: tuple[bool, ...], said: str) -> None:
    tried = tuple(
        Tried(
            f"r{at}",
            (0,),
            1,
            0.0,
            max_error=0.0 if one else None,
            comparison=compare_rounds([0.1] * 6) if one else None,
        )
        for at, one in enumerate(equal)
    )
    assert said in BOOK.text(finding_of(replace(examples.nothing(), tried=tried)).remark)


def raced(what: str, verdict: Verdict, **changes: Any) -> Tried:
    found = Comparison(verdict, 0.8, (0.7, 0.9), 0.05, 5)
    one = Tried(what, (0,), 1, 0.0, max_error=0.0, comparison=found, why=remark(f"operators.{verdict.value}", rounds=5))
    return replace(one, **changes)


@pytest.mark.parametrize(
    ("changes", "standing"),
    [
        ({}, Standing.UNDECIDED),
        ({"why": remark("operators.not-confirmed", ratio=0.97, verdict="undecided")}, Standing.UNDECIDED),
        ({"why": remark("operators.not-confirmed", ratio=1.0, verdict="same")}, Standing.GOOD),
    ],
    ids=["interrupted", "proof undecided", "refuted"],
)
def test_a_gain_without_proof_is_undecided(changes: dict[str, Any], standing: Standing) -> None:
    found = replace(examples.nothing(), tried=(raced("layout", Verdict.FASTER, **changes),))
    assert finding_of(found).standing is standing
    assert ("none was faster" in BOOK.text(finding_of(found).remark)) == (standing is Standing.GOOD)


def test_a_gain_whose_proof_crashed_is_none() -> None:
    crashed = raced("layout", Verdict.FASTER, why=remark("operators.failed", message="It died."))
    finding = finding_of(replace(examples.nothing(), tried=(crashed,)))
    assert finding.standing is Standing.GOOD
    assert "1 rewrite applied, 1 failed." in BOOK.text(finding.remark)


def test_what_an_interruption_left_untimed_is_undecided() -> None:
    untimed = Tried("layout", (0,), 1, 0.0, max_error=0.0)
    found = replace(examples.nothing(), tried=(untimed, raced("stem", Verdict.SLOWER)), interrupted=True)
    assert finding_of(found).standing is Standing.UNDECIDED
    assert BOOK.text(finding_of(found).remark) == "No rewrite is proven faster. Undecided: layout."


def test_only_what_is_undecided_is_called_so() -> None:
    verdicts = {"layout": Verdict.UNDECIDED, "folding": Verdict.SLOWER, "stem": Verdict.SAME}
    found = replace(examples.nothing(), tried=tuple(raced(what, verdict) for what, verdict in verdicts.items()))
    assert BOOK.text(finding_of(found).remark) == "No rewrite is proven faster. Undecided: layout."


def test_what_was_timed_only_together_is_said_so() -> None:
    one = Tried("r", (0,), 1, 0.0, max_error=0.0, why=remark(NOT_ALONE), of_user=True)
    all_ = replace(one, what=TOGETHER, comparison=compare_rounds([0.0] * 6), why=remark("operators.same"))
    found = replace(examples.nothing(), tried=(one, all_))
    assert "1 rewrite applied, together they are no faster." in BOOK.text(finding_of(found).remark)
    assert found.refused_kernels == ()


def test_the_verdict_says_what_was_won_or_why_nothing_can_be() -> None:
    won, nothing, open_ = examples.typical(), examples.nothing(), examples.odd()
    assert finding_of(won).standing is Standing.TO_DO
    assert finding_of(won).remark.facts["from_ms"] == 42.1
    assert finding_of(won).remark.facts["rewrites"] == ["layout", "space-to-depth"]
    assert finding_of(nothing).standing is Standing.GOOD
    assert finding_of(open_).standing is Standing.UNDECIDED
    slower = replace(won, final=None, latency_ms=None, tried=won.tried[2:3])
    assert (finding_of(slower).standing, finding_of(slower).remark.facts["tried"]) == (Standing.GOOD, 1)


@pytest.mark.parametrize(("peaks", "code"), [(None, "no-peaks"), (Peaks(1, 10.0, 20.0, ()), "no-headroom")])
def test_what_hides_the_headroom_is_said(peaks: Peaks | None, code: str) -> None:
    seen, original = replace(profile(operator(0, "CONV_2D", 2.0)), peaks=peaks), Trial(ORIGINAL)
    found = verdict(Evidence([original], original, original, profiles=(seen, None)))
    assert (found.standing, found.remark.code) == (Standing.NOT_EXAMINED, f"operators.{code}")


def test_where_the_input_of_a_wrong_kernel_is_stands_below_the_table() -> None:
    facts = {"kernel": "k", "case": "normal", "place": "0", "output": "y", "got": "1", "expected": "2"}
    wrong = Tried("kernel-k", (0,), 1, 0.0, why=remark(WRONG, **facts, file="/cache/wrong.npz"))
    text = terminal_text(view(replace(examples.nothing(), tried=(wrong,))), width=120)
    assert "kernel-k: Load the input and both outputs with numpy.load('/cache/wrong.npz')." in text
