"""The records of a tuning: limits and budgets as people write them, trials in a file, the front, the sentence."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hasten.core.accuracy import Accuracy, Kind
from hasten.core.comparison import Comparison, Verdict
from hasten.core.errors import UsageError
from hasten.core.limits import Limit, budget_from_text, limit_from_texts
from hasten.core.plan import Plan
from hasten.core.statistics import Interval
from hasten.core.tuning import BROKEN, KEPT, ORIGINAL, TuneResult, TuneTrial, pareto_front, trial_from_data
from hasten.core.tuning_words import verdict_sentence

FASTER = Comparison(Verdict.FASTER, 1 / 2.4, (1 / 2.5, 1 / 2.3), 0.02, 6)
BEFORE = Accuracy("top-1", 0.921, 0.90, 0.94, 500, "data")
ORIGINAL_TRIAL = TuneTrial(
    ORIGINAL, Plan(), KEPT, floor=KEPT, latency=Interval(2.4, 2.3, 2.5), accuracy=BEFORE, size_bytes=1000
)
BEST = TuneTrial(
    "static_int8",
    Plan(threads=2),
    KEPT,
    floor=KEPT,
    latency=Interval(1.0, 0.9, 1.1),
    against=FASTER,
    accuracy=replace(BEFORE, value=0.918),
    accuracy_on="reporting",
    drop=0.003,
    size_bytes=260,
    levels={1: 0.0, 3: 0.1},
)


def result(best: TuneTrial = BEST, final: Comparison | None = FASTER, **more: object) -> TuneResult:
    found = TuneResult("m.tflite", ORIGINAL_TRIAL, best, "out/model.tflite", "", (), (), (), final, 9, 60.0)
    return replace(found, **more)  # type: ignore[arg-type]


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
    for wrong in ("speed=5ms", "latency=5kg", "size", "latency=-1ms"):
        with pytest.raises(UsageError):
            limit_from_texts([wrong])


def test_a_limit_names_the_nearest() -> None:
    limit = Limit(5.0, 1000)
    assert limit.holds(5.0, 1000)
    assert limit.misses(6.0, 900) == ["latency 5.00 ms: the nearest is 6.00 ms"]
    assert len(limit.misses(6.0, 2000)) == 2


def test_a_trial_comes_back_from_the_session_as_it_was() -> None:
    for trial in (ORIGINAL_TRIAL, BEST, TuneTrial("x", Plan(accelerator="npu"), latency=Interval(1, -math.inf, 2))):
        written = json.loads(json.dumps(trial.as_data(), allow_nan=False))
        assert trial_from_data(written) == trial


TRIALS = st.builds(
    lambda ms, drop, size, floor: TuneTrial(
        "v", Plan(), floor=floor, latency=Interval(ms, ms, ms), drop=drop, size_bytes=size
    ),
    st.floats(0.1, 10),
    st.floats(-0.1, 0.1),
    st.integers(1, 100),
    st.sampled_from([KEPT, BROKEN, ""]),
)


@given(st.lists(TRIALS, max_size=12))
def test_nothing_beats_what_is_on_the_front_and_something_beats_the_rest(trials: list[TuneTrial]) -> None:
    def beats(one: TuneTrial, other: TuneTrial) -> bool:
        a, b = ((t.median_ms, t.drop or 0.0, t.size_bytes) for t in (one, other))
        return all(x <= y for x, y in zip(a, b, strict=True)) and a != b

    front = pareto_front(trials)
    kept = [trial for trial in trials if trial.floor == KEPT]
    assert all(trial.floor == KEPT for trial in front)
    assert not any(beats(one, other) for one in kept for other in front)
    assert all(any(beats(one, trial) for one in front) for trial in kept if trial not in front)
    assert [trial.median_ms for trial in front] == sorted(trial.median_ms for trial in front)


def test_the_sentence_that_a_manager_understands() -> None:
    assert verdict_sentence(result()) == "2.4 times faster, 95 % interval 2.3-2.5, top-1 92.1 % → 91.8 %, 74% smaller."


def test_the_sentence_does_not_claim_what_was_not_confirmed() -> None:
    assert "not confirmed" in verdict_sentence(result(final=None))
    stays = verdict_sentence(result(best=ORIGINAL_TRIAL))
    assert stays.startswith("The original stays")
    same = Comparison(Verdict.SAME, 1.0, (0.99, 1.01), 0.02, 6)
    assert "as fast as" in verdict_sentence(result(final=same))
    agreeing = replace(BEST, accuracy=replace(BEFORE, kind=Kind.AGREEMENT))
    assert "agrees with the original" in verdict_sentence(result(best=agreeing))
    assert "same numbers" in verdict_sentence(result(best=replace(BEST, variant=ORIGINAL, accuracy=None)))
    missed = verdict_sentence(result(unreachable=("latency 0.1 ms: the nearest is 1.00 ms",)))
    assert "Not within reach: latency 0.1 ms" in missed


def test_the_document_has_the_contract() -> None:
    data = json.loads(json.dumps(result().as_data(), allow_nan=False))
    assert data.keys() >= {"model", "verdict", "verdicts", "best", "front", "trials", "seconds", "interrupted"}
    assert data["best"].keys() >= {"model", "variant", "plan", "speedup", "ci95", "accuracy", "size", "size_ratio"}
    assert data["best"]["speedup"] == pytest.approx(2.4)
    assert data["best"]["ci95"] == pytest.approx([2.3, 2.5])
