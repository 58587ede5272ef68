"""Which model is taken within limits, what each limit costs, and how a model in use stands."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hasten.core.accuracy import Accuracy
from hasten.core.codec import from_data, to_data
from hasten.core.finding import Standing
from hasten.core.floor import FloorState
from hasten.core.statistics import Interval
from hasten.evaluate.intervals import wilson_interval
from hasten.gate.facts import Limits
from hasten.gate.request import limits_from_mapping
from hasten.gate.rules import accuracy_row, memory_row
from hasten.gate.words import figures
from hasten.practices.choose.facts import ChooseFound, ModelRow, Place, Source
from hasten.practices.choose.rules import Goal, choice_of, finding_of, keeps, knee, notes_of, state_of, why_of
from hasten.practices.choose.view import document, view
from hasten.show.terminal import terminal_text
from tests.unit.practices.choose import examples
from tests.unit.practices.choose.examples import beaten, published, unknown

if TYPE_CHECKING:
    from collections.abc import Callable

FAST = published("fast", 0.60, 2.0, 4_000_000)
MIDDLE = published("middle", 0.72, 8.0, 14_000_000)
LARGE = published("large", 0.76, 80.0, 100_000_000)
ROWS = (FAST, MIDDLE, LARGE)
NO_LIMITS = Limits()


def found(limits: Limits = NO_LIMITS, rows: tuple[ModelRow, ...] = ROWS) -> ChooseFound:
    return ChooseFound("image-classification", rows, limits)


def taken(limits: Limits, rows: tuple[ModelRow, ...] = ROWS) -> str | None:
    row = choice_of(found(limits, rows)).row
    return None if row is None else row.model


def test_a_limit_on_accuracy_asks_for_the_fastest_and_others_for_the_most_accurate() -> None:
    assert taken(Limits(accuracy=0.7)) == "middle"
    assert taken(Limits(accuracy=0.5)) == "fast"
    assert taken(Limits(latency_ms=10.0)) == "middle"
    assert taken(Limits(size_bytes=5e6)) == "fast"
    assert taken(Limits(latency_ms=100.0)) == "large"
    assert taken(Limits(accuracy=0.7, size_bytes=5e6)) is None


def test_every_limit_that_is_measured_counts() -> None:
    """The fastest is the one with the largest peak of memory here."""
    rows = (replace(FAST, peak_memory_mb=900.0), MIDDLE)
    assert taken(Limits(accuracy=0.5, memory_mb=100.0), rows) == "middle"
    assert taken(Limits(accuracy=0.5, init_ms=5.0), rows) is None
    assert taken(Limits(accuracy=0.5, p95_ms=3.0), rows) == "fast"


def test_memory_has_the_number_that_the_user_wrote_and_that_other_commands_show() -> None:
    limits = limits_from_mapping({"memory": "100MB"})
    assert limits.memory_mb is not None
    rows = (replace(FAST, peak_memory_mb=12.1),)
    assert "memory ≤ 100.0 MB" in document(found(limits, rows))["why"]
    assert figures(memory_row([12.1, 12.1], limits.memory_mb)) == ("12.1 MB", "12.1–12.1 MB", "at most 100.0 MB")
    assert "12.1 MB" in terminal_text(view(found(limits, rows)), verbose=True)


def test_what_a_limit_costs_is_the_model_that_would_be_taken_without_it() -> None:
    choice = choice_of(found(Limits(latency_ms=10.0, accuracy=0.7)))
    assert choice.goal is Goal.FASTEST
    assert {limit: row.model for limit, row in choice.costs} == {"accuracy": "fast"}
    assert {limit: row.model for limit, row in choice_of(found(Limits(latency_ms=10.0))).costs} == {"latency": "large"}
    assert choice_of(found(Limits(latency_ms=1000.0))).costs == ()


def test_where_nothing_keeps_all_limits_the_nearest_is_named() -> None:
    choice = choice_of(found(Limits(latency_ms=7.5, accuracy=0.7)))
    assert choice.row is None
    assert choice.nearest is not None
    assert choice.nearest.model == "middle"
    told = why_of(found(Limits(latency_ms=7.5, accuracy=0.7)))
    assert told.code == "choose.none"
    assert told.facts["kept"] == ["accuracy"]
    assert {limit: row.model for limit, row in choice.costs} == {"latency": "middle", "accuracy": "fast"}


def test_unknown_accuracy_is_never_chosen_and_is_told_of() -> None:
    rows = (*ROWS, unknown(MIDDLE, 0.2))
    limits = Limits(latency_ms=10.0)
    assert taken(limits, rows) == "middle"
    told = {note.code: note for note in notes_of(found(limits, rows))}
    assert told["choose.unknown-faster"].facts["rows"][0]["name"] == "middle int8"
    assert "choose.unknown-faster" not in {note.code for note in notes_of(found(limits))}


def test_without_any_accuracy_nothing_is_chosen() -> None:
    rows = (replace(FAST, accuracy=None, accuracy_source=Source.UNKNOWN, place=Place.UNKNOWN),)
    assert finding_of(found(rows=rows)).standing is Standing.UNDECIDED
    assert why_of(found(rows=rows)).facts["fastest"]["model"] == "fast"


@pytest.mark.parametrize(
    ("limits", "kept"),
    [
        (Limits(latency_ms=5.0), True),
        (Limits(latency_ms=1.0), False),
        (Limits(latency_ms=5.0, accuracy=0.5), False),
        (Limits(init_ms=5.0), False),
        (NO_LIMITS, None),
    ],
)
def test_limits_without_any_accuracy_are_a_gate_all_the_same(limits: Limits, kept: bool | None) -> None:
    """What is not known keeps no limit."""
    rows = (replace(FAST, accuracy=None, accuracy_source=Source.UNKNOWN, place=Place.UNKNOWN, init_ms=None),)
    assert document(found(limits, rows))["keeps_limits"] is kept
    assert (" known to keep " in document(found(limits, rows))["why"]) is (kept is not None)


def test_a_limit_on_what_was_not_measured_is_not_kept() -> None:
    rows = tuple(replace(row, peak_memory_mb=None) for row in ROWS)
    assert document(found(Limits(memory_mb=1e6), rows))["keeps_limits"] is False
    assert document(found(Limits(latency_ms=100.0), rows))["keeps_limits"] is True
    assert choice_of(found(rows=rows)).nearest is None


def measured(row: ModelRow, value: float, half: float) -> ModelRow:
    accuracy = Accuracy("top-1", value, value - half, value + half, 400, "images")
    return replace(row, accuracy=accuracy, accuracy_source=Source.MEASURED)


def test_measured_and_published_accuracies_do_not_compete() -> None:
    rows = (measured(FAST, 0.55, 0.02), MIDDLE)
    assert taken(Limits(accuracy=0.5), rows) == "fast"
    assert taken(Limits(accuracy=0.7), rows) is None
    assert "choose.both-sources" in {note.code for note in notes_of(found(rows=rows))}


def test_what_an_estimate_keeps_and_its_interval_does_not_is_said() -> None:
    near = replace(MIDDLE, latency=Interval(8.0, 7.0, 9.0))
    limits = Limits(latency_ms=8.5)
    assert keeps(near, "latency", 8.5)
    assert state_of(near, "latency", 8.5) is FloorState.UNDECIDED
    notes = [note for note in notes_of(found(limits, (near,))) if note.code == "choose.unproven"]
    assert [note.facts["limit"] for note in notes] == ["latency"]
    unsure = measured(MIDDLE, 0.72, 0.05)
    assert state_of(unsure, "accuracy", 0.7) is FloorState.UNDECIDED
    assert state_of(MIDDLE, "accuracy", 0.7) is FloorState.KEPT


@pytest.mark.parametrize(
    ("latency", "keeps", "chosen", "strict"),
    [
        (Interval(19.0, 18.4, 19.6), True, True, True),
        (Interval(19.8, 19.2, 20.4), None, True, False),
        (Interval(20.2, 19.6, 20.8), None, False, False),
        (Interval(21.0, 20.4, 21.6), False, False, False),
    ],
)
@pytest.mark.parametrize("known", [True, False], ids=["accuracy known", "unknown"])
def test_a_latency_is_judged_by_its_interval(
    latency: Interval, keeps: bool | None, *, chosen: bool, strict: bool, known: bool
) -> None:
    row = replace(MIDDLE, latency=latency)
    if not known:
        row = replace(row, accuracy=None, accuracy_source=Source.UNKNOWN, place=Place.UNKNOWN)
    loose = found(Limits(latency_ms=20.0), (row,))
    for one, may in ((loose, chosen), (replace(loose, strict=True), strict)):
        data = document(one)
        assert data["keeps_limits"] is keeps
        assert data["kept"] == may, "which the exit code is by"
        if known:
            assert data["chosen"] == (row.name if may else None)
            assert (finding_of(one).standing is Standing.UNDECIDED) is (keeps is None)
            assert ("undecided" in data["why"]) is (keeps is None)
            assert ("easure longer" in json.dumps(data)) is (keeps is None)


def counted(row: ModelRow, right: int, samples: int) -> ModelRow:
    share = wilson_interval(right, samples)
    accuracy = Accuracy("top-1", share.estimate, share.low, share.high, samples, "images")
    return replace(row, accuracy=accuracy, accuracy_source=Source.MEASURED, counted=True)


@pytest.mark.parametrize(
    ("right", "samples", "limit", "verdict", "chosen", "strict"),
    [
        (1, 1, 0.5, "undecided", False, False),  # too few to choose by, as in a search
        (5, 5, 0.55, "undecided", False, False),  # Wilson's low end is 0.566, and chance does it in 5 % of cases
        (8, 8, 0.5, "kept", True, True),
        (56, 100, 0.5, "undecided", True, False),
        (44, 100, 0.5, "undecided", False, False),
        (80, 100, 0.5, "kept", True, True),
        (20, 100, 0.5, "broken", False, False),
    ],
)
def test_an_accuracy_is_judged_as_in_a_gate(
    right: int, samples: int, limit: float, verdict: str, *, chosen: bool, strict: bool
) -> None:
    row = counted(FAST, right, samples)
    assert row.accuracy is not None
    gate = accuracy_row(row.accuracy, limit, counted=True).verdict.value
    assert {"passed": "kept", "failed": "broken"}.get(gate, gate) == verdict
    loose = found(Limits(accuracy=limit), (row,))
    for one, may in ((loose, chosen), (replace(loose, strict=True), strict)):
        data = document(one)
        assert data["models"][0]["accuracy_verdict"] == verdict
        assert data["chosen"] == (row.name if may else None)
        assert data["keeps_limits"] is {"kept": True, "broken": False, "undecided": None}[verdict]
        assert data["kept"] == may
        assert (verdict == "undecided") is (finding_of(one).standing is Standing.UNDECIDED)
        assert ("undecided" in data["why"]) is (verdict == "undecided")
        assert verdict in terminal_text(view(one))


def test_what_is_undecided_says_how_many_samples_would_decide() -> None:
    limits, rows = Limits(accuracy=0.5), (counted(FAST, 56, 100), counted(MIDDLE, 80, 100))
    told = document(found(limits, rows))
    assert told["chosen"] == FAST.name
    assert "the fastest of 2 candidates that keep accuracy ≥ 50.0 % top-1 by their estimates" in told["why"]
    assert "Whether it keeps the limit on accuracy is undecided." in told["why"]
    assert "samples would decide" in told["remarks"][0]["text"]
    sure = document(replace(found(limits, rows), strict=True))
    assert (sure["chosen"], sure["keeps_limits"]) == (MIDDLE.name, True)
    assert "undecided" not in sure["why"]
    unproven = document(replace(found(limits, rows[:1]), strict=True))
    assert unproven["why"].startswith("None of 1 candidate is proven to keep the limit.")
    assert "Give more samples" in unproven["finding"]["what_to_do"]


def test_a_metric_where_less_is_better() -> None:
    def erring(row: ModelRow, value: float) -> ModelRow:
        accuracy = Accuracy("mae", value, value, value, 100, "tables", higher_is_better=False)
        return replace(row, accuracy=accuracy, accuracy_source=Source.MEASURED)

    rows = (erring(FAST, 0.5), erring(MIDDLE, 0.2), erring(LARGE, 0.1))
    assert taken(Limits(accuracy=0.3), rows) == "middle"
    assert taken(Limits(latency_ms=10.0), rows) == "middle"


def test_the_knee_is_where_accuracy_becomes_dear() -> None:
    dear = [published(f"m{n}", accuracy, ms, 10**7) for n, (accuracy, ms) in enumerate(_KNEE)]
    assert knee(dear).model == "m2"
    assert knee(dear[:1]).model == "m0"
    assert knee([dear[0], dear[0]]).model == "m0"


_KNEE = ((0.50, 1.0), (0.60, 1.5), (0.70, 2.0), (0.71, 8.0), (0.72, 30.0))


@given(st.lists(st.tuples(st.floats(0.1, 0.9), st.floats(0.1, 1000.0)), min_size=1, max_size=12))
def test_the_knee_is_a_model_of_the_front(models: list[tuple[float, float]]) -> None:
    rows = [published(f"m{n}", accuracy, ms, 10**7) for n, (accuracy, ms) in enumerate(models)]
    chosen = knee(rows)
    assert not any(
        row.merit >= chosen.merit and row.median_ms <= chosen.median_ms and row.median_ms != chosen.median_ms
        for row in rows
    )


def once(ms: float) -> Interval:
    return Interval(ms, -math.inf, math.inf)


@pytest.mark.parametrize(
    ("mine", "standing", "code"),
    [
        ("beaten", Standing.TO_DO, "choose.own-beaten"),
        ("possible", Standing.UNDECIDED, "choose.own-rivals"),
        ("on", Standing.GOOD, "choose.own-best"),
        ("published", Standing.UNDECIDED, "choose.own-slower"),
        ("fastest", Standing.GOOD, "choose.own-fastest"),
        ("near", Standing.UNDECIDED, "choose.own-fastest"),
        ("one round", Standing.UNDECIDED, "choose.own-fastest"),
        ("one round, others faster", Standing.UNDECIDED, "choose.own-fastest"),
        ("one round, others far", Standing.GOOD, "choose.own-fastest"),
    ],
)
def test_how_the_model_in_use_stands(mine: str, standing: Standing, code: str) -> None:
    other = measured(FAST, 0.9, 0.01)
    own = measured(replace(MIDDLE, name="mine", model="mine"), 0.8, 0.01)
    worlds = {
        "beaten": (other, beaten(own, other)),
        "possible": (other, replace(own, place=Place.POSSIBLE, rivals=(other.name,))),
        "on": (other, own),
        "published": (FAST, LARGE, own),
        "fastest": (LARGE, own),
        "near": (replace(LARGE, latency=Interval(8.2, 7.9, 8.5)), own),
        "one round": (replace(LARGE, latency=once(12.0)), replace(own, latency=once(8.0))),
        "one round, others faster": (replace(LARGE, latency=Interval(6.0, 5.9, 6.1)), replace(own, latency=once(8.0))),
        "one round, others far": (replace(LARGE, latency=once(80.0)), replace(own, latency=once(8.0))),
    }
    finding = finding_of(replace(found(rows=worlds[mine]), own="mine"))
    assert (finding.standing, finding.remark.code) == (standing, code)


def test_a_variant_of_the_same_model_is_no_other_model() -> None:
    own = measured(replace(MIDDLE, name="mine", model="mine"), 0.8, 0.01)
    variant = replace(own, name="mine int8", latency=Interval(2.0, 1.9, 2.1))
    finding = finding_of(replace(found(rows=(beaten(own, variant), variant)), own="mine"))
    assert finding.standing is Standing.NOT_EXAMINED


@pytest.mark.parametrize("make", [examples.typical, examples.measured, examples.odd, examples.own, examples.none_fits])
def test_a_session_holds_all_of_it(make: Callable[[], ChooseFound]) -> None:
    shown = make()
    assert from_data(ChooseFound, json.loads(json.dumps(to_data(shown)))) == shown
