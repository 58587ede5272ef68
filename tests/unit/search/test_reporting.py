"""The reporting part: the choice stands there, or another is taken, and that is said beside its figure."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from hasten.core.accuracy import Accuracy, PairedAccuracy
from hasten.core.comparison import Comparison, Verdict
from hasten.core.errors import ModelError
from hasten.core.floor import MOST_LOOKS, FloorState
from hasten.core.goal import Goal
from hasten.core.plan import Plan
from hasten.core.remark import remark, said
from hasten.core.trial import NOTHING, ORIGINAL, Trial
from hasten.data.metrics import TopK
from hasten.evaluate.floor import floor_of_original
from hasten.evaluate.trial_words import why_words
from hasten.search import accuracy
from hasten.search.accuracy import AccuracyJudge
from hasten.search.mixing import Mixer
from hasten.search.quantizing import MOST_SETBACKS, QuantizeSearch

if TYPE_CHECKING:
    from hasten.core.remark import Remark

WIDTH = 0.005
"""Half the interval of each drop; the floor is 0.01."""
ACCURACY = Accuracy("top-1", 0.9, 0.85, 0.95, 100, "data.npz")


def variant(name: str, ratio: float, *float_nodes: int) -> Trial:
    against = Comparison(Verdict.FASTER, ratio, (ratio, ratio), 0.01, 5)
    return Trial(
        name, path=f"{name}.tflite", size_bytes=500, floor=FloorState.KEPT, against=against, float_nodes=float_nodes
    )


class SimulatedJudge(AccuracyJudge):
    """Knows what each variant loses on the reporting part, and remembers who asked."""

    def __init__(self, drops: dict[str, float], *, strict: bool = False) -> None:
        self.drops, self.looks, self.skipped, self.against_choosing = drops, list[str](), {}, NOTHING
        self._strict = strict

    def original(self, part: str) -> Any:
        return SimpleNamespace(accuracy=ACCURACY, metric=TopK(1), references={})

    def floor(self, part: str) -> Any:
        return floor_of_original(self.original(part), 0.01)

    def _evaluate(self, candidate: Any, *_: Any) -> Any:
        self.looks.append(candidate)
        if candidate == "crashes":
            raise ModelError("It crashed.")
        return SimpleNamespace(accuracy=ACCURACY, drop=self.drops[candidate])


class Simulated(QuantizeSearch):
    """A search whose variants lose a known share on the reporting part."""

    def __init__(self, drops: dict[str, float], *trials: Trial, mix: bool = False, strict: bool = False) -> None:
        original = Trial(ORIGINAL, path="m.tflite", size_bytes=1000, floor=FloorState.KEPT)
        self.saved = {trial.variant: trial for trial in (original, *trials)}
        self.notes: list[Remark] = []
        self.judge = SimulatedJudge(drops, strict=strict)
        self.store: Any = SimpleNamespace(
            settings=SimpleNamespace(goal=Goal.LATENCY, mix=mix, strict=strict),
            judge=self.judge,
            folder=SimpleNamespace(
                variants=self.saved,
                save_variant=self.save,
                save_skipped=lambda skipped: None,
                choose=lambda trial: None,
                note=self.notes.append,
            ),
            candidate=SimpleNamespace(plan=Plan()),
            candidate_of=lambda trial, plan: trial.variant,
        )

    def save(self, trial: Trial) -> None:
        self.saved[trial.variant] = trial

    def _tell(self, text: str) -> None:
        pass

    def time_all(self) -> None:
        pass


@pytest.fixture(autouse=True)
def simulated_comparison(monkeypatch: pytest.MonkeyPatch) -> None:
    def compared(original: Any, found: Any) -> PairedAccuracy:
        return PairedAccuracy("top-1", 100, -found.drop, -found.drop - WIDTH, -found.drop + WIDTH)

    monkeypatch.setattr(accuracy, "compare_evaluations", compared)


def reported(search: Simulated) -> Trial:
    search.report_on_other_part()
    return search.best


def test_a_choice_that_keeps_the_floor_on_both_parts_stays_and_nothing_is_said() -> None:
    search = Simulated({"fast": 0.005, "safe": 0.0}, variant("fast", 0.5), variant("safe", 0.9))
    assert reported(search).variant == "fast"
    assert (search.best.floor, search.best.optimistic) == (FloorState.KEPT, False)
    assert search.notes == []
    assert search.judge.looks == ["fast", "safe"]


def test_a_choice_that_breaks_it_there_makes_way_for_the_next_and_that_is_said() -> None:
    search = Simulated({"fast": 0.03, "safe": 0.0}, variant("fast", 0.5), variant("safe", 0.9))
    assert reported(search).variant == "safe"
    assert search.saved["fast"].floor is FloorState.BROKEN
    assert search.saved["fast"].why.code == "trial.loses-on-other-half"
    assert search.saved["fast"].why.facts["lost"]["drop"] == 0.03
    assert search.best.optimistic
    assert search.notes == [remark("search.setbacks", variants=["fast"])]


def test_a_choice_that_is_undecided_there_stays_and_is_called_so() -> None:
    search = Simulated({"fast": 0.012, "safe": 0.0}, variant("fast", 0.5), variant("safe", 0.9))
    assert reported(search).variant == "fast"
    assert (search.best.floor, search.best.optimistic, search.best.why) == (FloorState.UNDECIDED, False, NOTHING)
    assert search.best.reported is not None
    assert search.best.reported.ci95 == pytest.approx((0.007, 0.017))
    assert search.notes == []


def test_strict_asks_for_proof_there_and_tries_two() -> None:
    drops = {"fast": 0.012, "next": 0.007, "safe": 0.0}
    trials = (variant("fast", 0.5), variant("next", 0.7), variant("safe", 0.9))
    search = Simulated(drops, *trials, strict=True)
    assert reported(search).variant == ORIGINAL
    assert search.judge.looks == ["fast", "next"]
    assert search.saved["fast"].why.code == "trial.unproven-on-reporting"
    assert search.saved["safe"].why.code == "trial.set-aside"
    kept = Simulated({**drops, "next": 0.0}, *trials, strict=True)
    assert reported(kept).variant == "next"
    assert (kept.best.floor, kept.best.optimistic) == (FloorState.KEPT, True)


def test_where_all_break_it_there_the_original_stays() -> None:
    names = [f"v{number}" for number in range(6)]
    search = Simulated(dict.fromkeys(names, 0.5), *(variant(name, 0.5) for name in names))
    assert reported(search).variant == ORIGINAL


@pytest.mark.parametrize("broken", [3, 7, 8])
def test_as_many_may_be_tried_there_as_in_a_tuning(broken: int) -> None:
    names = [f"v{number}" for number in range(10)]
    drops = {name: 0.5 if number < broken else 0.0 for number, name in enumerate(names)}
    search = Simulated(drops, *(variant(name, 0.5 + number / 100) for number, name in enumerate(names)))
    assert reported(search).variant == (f"v{broken}" if broken < MOST_LOOKS else ORIGINAL)
    if broken >= MOST_LOOKS:
        assert search.judge.looks == names[:MOST_LOOKS]
        assert "8 faster variants failed" in why_words(search.saved["v9"].why)


def test_an_original_that_turns_out_to_guess_there_takes_all_choices_back() -> None:
    search = Simulated({"fast": 0.0}, variant("fast", 0.5))
    search.judge.against_choosing = said("it guesses")
    assert reported(search).variant == ORIGINAL
    assert search.saved[ORIGINAL].why == said("it guesses")
    assert search.saved["fast"].floor is FloorState.UNKNOWN
    assert search.notes == []


def test_one_that_fails_there_is_no_choice() -> None:
    search = Simulated({}, variant("crashes", 0.5))
    assert reported(search).variant == ORIGINAL
    assert search.saved["crashes"].floor is FloorState.FAILED


@pytest.mark.parametrize("needed", [3, 4, 99])
def test_a_mix_that_breaks_it_gives_back_more_a_few_times(needed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    tries: list[int] = []
    search = Simulated({"int8+float1": 0.02}, variant("int8+float1", 0.5, 0), mix=True)

    def further(mixer: Mixer, trial: Trial) -> Trial:
        count = len(trial.float_nodes) + 1
        tries.append(count)
        name = f"int8+float{count}"
        search.judge.drops[name] = 0.0 if count >= needed else 0.02
        search.save(variant(name, 0.5 + count / 100, *range(count)))
        return search.saved[name]

    monkeypatch.setattr(Mixer, "further", further)
    assert reported(search).variant == (f"int8+float{needed}" if needed < 99 else ORIGINAL)
    assert len(tries) <= MOST_SETBACKS


def test_a_recipe_that_breaks_it_only_there_is_mixed_then(monkeypatch: pytest.MonkeyPatch) -> None:
    def mixed(search: Simulated) -> None:
        search.save(variant("int8+float1", 0.6, 0))

    monkeypatch.setattr(Simulated, "mix", mixed)
    search = Simulated({"static_int8": 0.02, "int8+float1": 0.0}, variant("static_int8", 0.5), mix=True)
    assert reported(search).variant == "int8+float1"
    assert search.notes == [remark("search.setbacks", variants=["static_int8"])]
