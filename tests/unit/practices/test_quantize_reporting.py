"""The reporting half: the choice keeps the floor there too, or another is taken, and that is said."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from hasten.core.accuracy import Accuracy, PairedAccuracy
from hasten.core.comparison import Comparison, Verdict
from hasten.core.errors import ModelError
from hasten.core.quantization import BROKEN, FAILED, KEPT, ORIGINAL, SPEED, UNKNOWN, VariantRow, choose
from hasten.data.metrics import TopK
from hasten.evaluate.floor import floor_of_original
from hasten.practices import quantize_reporting
from hasten.practices.quantize_reporting import report_on_other_half

if TYPE_CHECKING:
    from collections.abc import Callable

ACCURACY = Accuracy("top-1", 0.9, 0.85, 0.95, 100, "data.npz")


def variant(name: str, ratio: float, *float_nodes: int) -> VariantRow:
    against = Comparison(Verdict.FASTER, ratio, (ratio, ratio), 0.01, 5)
    return VariantRow(name, f"{name}.tflite", "bb", 500, 400, KEPT, against=against, float_nodes=float_nodes)


class Simulated:
    """A practice whose variants lose a known share on the reporting half."""

    def __init__(self, drops: dict[str, float], *rows: VariantRow, mix: bool = False) -> None:
        self.settings = SimpleNamespace(goal=SPEED, max_drop=0.01, mix=mix)
        self.drops, self.notes, self.looks = drops, list[str](), list[str]()
        self.saved = {row.recipe: row for row in (VariantRow(ORIGINAL, "m.tflite", "aa", 1000, 900, KEPT), *rows)}
        self.folder = SimpleNamespace(rows=self.saved, save=self.save, save_skipped=lambda skipped: None)
        original: Any = SimpleNamespace(accuracy=ACCURACY, metric=TopK(1))
        self.judges = SimpleNamespace(
            original=lambda half: original,
            reported=self.reported,
            floor=lambda half: floor_of_original(original, 0.01),
            skipped={},
            against_choosing="",
        )

    @property
    def rows(self) -> list[VariantRow]:
        return list(self.saved.values())

    def save(self, row: VariantRow) -> None:
        self.saved[row.recipe] = row

    def reported(self, row: VariantRow) -> Any:
        self.looks.append(row.recipe)
        if row.recipe == "crashes":
            raise ModelError("it crashed")
        metric = SimpleNamespace(proportion=True)
        return SimpleNamespace(accuracy=ACCURACY, metric=metric, drop=self.drops[row.recipe])

    def candidate_of(self, row: VariantRow) -> VariantRow:
        return row

    def tell(self, share: float, text: str) -> None:
        pass

    def choose(self) -> None:
        pass

    def note(self, note: str) -> None:
        self.notes.append(note)


@pytest.fixture(autouse=True)
def simulated_comparison(monkeypatch: pytest.MonkeyPatch) -> None:
    def compared(original: Any, found: Any) -> PairedAccuracy:
        return PairedAccuracy("top-1", 100, -found.drop, -1, 1)

    monkeypatch.setattr(quantize_reporting, "compare_evaluations", compared)


def reported(practice: Any) -> VariantRow:
    report_on_other_half(practice)
    return choose(practice.rows, SPEED)


def test_a_choice_that_keeps_the_floor_on_both_halves_stays_and_nothing_is_said() -> None:
    practice = Simulated({"fast": 0.01, "safe": 0.0}, variant("fast", 0.5), variant("safe", 0.9))
    assert reported(practice).recipe == "fast"
    assert practice.notes == []
    assert practice.looks == ["fast", "safe"]


def test_a_choice_that_breaks_it_there_makes_way_for_the_next_and_that_is_said() -> None:
    practice = Simulated({"fast": 0.03, "safe": 0.0}, variant("fast", 0.5), variant("safe", 0.9))
    assert reported(practice).recipe == "safe"
    assert practice.saved["fast"].floor == BROKEN
    assert "loses 3.0 %" in practice.saved["fast"].why
    assert "fast kept the floor on the choosing half and broke it on the reporting half" in practice.notes[0]
    assert "flattering" in practice.notes[0]


def test_where_all_break_it_there_the_original_stays() -> None:
    names = [f"v{number}" for number in range(6)]
    practice = Simulated(dict.fromkeys(names, 0.5), *(variant(name, 0.5) for name in names))
    assert reported(practice).recipe == ORIGINAL


def test_an_original_that_turns_out_to_guess_there_takes_all_choices_back() -> None:
    practice = Simulated({"fast": 0.0}, variant("fast", 0.5))
    practice.judges.against_choosing = "it guesses"
    assert reported(practice).recipe == ORIGINAL
    assert (practice.saved[ORIGINAL].why, practice.saved["fast"].floor) == ("it guesses", UNKNOWN)
    assert practice.notes == []


def test_one_that_fails_there_is_no_choice() -> None:
    practice = Simulated({}, variant("crashes", 0.5))
    assert reported(practice).recipe == ORIGINAL
    assert practice.saved["crashes"].floor == FAILED


@pytest.mark.parametrize("needed", [3, 4, 99])
def test_a_mix_that_breaks_it_gives_back_more_a_few_times(needed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    tries: list[int] = []

    def further(practice: Simulated, row: VariantRow) -> bool:
        count = len(row.float_nodes) + 1
        tries.append(count)
        name = f"static_int8_but_{count}"
        practice.drops[name] = 0.0 if count >= needed else 0.02
        practice.save(replace(variant(name, 0.5 + count / 100, *range(count))))
        return True

    monkeypatch.setattr(quantize_reporting, "mix_further", further)
    practice = Simulated({"static_int8_but_1": 0.02}, variant("static_int8_but_1", 0.5, 0), mix=True)
    best = reported(practice)
    assert best.recipe == (f"static_int8_but_{needed}" if needed < 99 else ORIGINAL)
    assert len(tries) <= quantize_reporting.MOST_SETBACKS


def test_a_recipe_that_breaks_it_only_there_is_mixed_then(monkeypatch: pytest.MonkeyPatch) -> None:
    def mixed(practice: Simulated) -> None:
        practice.save(variant("static_int8_but_1", 0.6, 0))

    refuse: Callable[..., bool] = lambda practice, row: False  # noqa: E731
    monkeypatch.setattr(quantize_reporting, "mix_further", refuse)
    monkeypatch.setattr(quantize_reporting, "mix", mixed)
    drops = {"static_int8": 0.02, "static_int8_but_1": 0.0}
    practice = Simulated(drops, variant("static_int8", 0.5), mix=True)
    assert reported(practice).recipe == "static_int8_but_1"
    assert "static_int8 kept the floor" in practice.notes[0]
