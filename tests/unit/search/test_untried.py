"""What a search has left untried: named with its reason, and gone on with by the next run."""

from __future__ import annotations

import math
from contextlib import closing
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from simulated import Behaviour, SimulatedTarget, candidate, install_clock

from hasten.core.floor import FloorState
from hasten.core.goal import Amount, Goal
from hasten.core.plan import Plan
from hasten.core.remark import remark
from hasten.core.session import read_session
from hasten.core.trial import NOTHING, ORIGINAL, Stage, Status, Trial
from hasten.search.candidates import NO_ANSWER, NOT_CONFIRMED, Candidates
from hasten.search.facts import BestSoFar
from hasten.search.folder import SESSION, TUNE, SearchFolder
from hasten.search.search import Search
from hasten.search.untried import lacked_time, left_untried, undecided_at_the_end, without_chosen
from hasten.search.words import BOOK
from tests.unit.search.simulated_race import BROKEN, FAR, Truth, raced

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from hasten.core.remark import Remark

RECIPES = ("float16", "static_int8", "static_int8_mse")


def search_of(truths: Sequence[Truth], made: Sequence[str] = RECIPES, **more: Any) -> Any:
    """A search whose race has ended."""
    elimination, _ = raced(truths)
    variants = {name: Trial(name, recipe=name) for name in made}
    return SimpleNamespace(
        elimination=elimination,
        candidates=elimination.candidates,
        folder=SimpleNamespace(variants=variants, notes=more.get("notes", [])),
        store=SimpleNamespace(already=more.get("already", NOTHING)),
        settings=SimpleNamespace(recipes=RECIPES),
        skipped=list(more.get("skipped", [])),
    )


def codes(search: Any, practices: Sequence[str] = ()) -> list[str]:
    found = left_untried(search, practices)
    assert all(BOOK.text(one) for one in found)
    return [one.code for one in found]


def test_a_search_that_came_to_its_end_has_left_nothing() -> None:
    assert codes(search_of([Truth(ORIGINAL, 2.0), Truth("fast", 1.0)])) == []


def test_recipes_without_time_are_named_unless_their_like_is_there() -> None:
    truths = [Truth(ORIGINAL, 2.0), Truth("static_int8", 1.0)]
    search = search_of(truths, made=["static_int8"])
    entrant = search.candidates.entrants["static_int8@cpu, 1 thread"]
    entrant.trial = replace(entrant.trial, recipe="static_int8")
    assert left_untried(search) == (remark("untried.recipes", recipes=["float16"]),), "mse runs as static_int8 does"
    search.candidates.update(entrant, **BROKEN)
    (told,) = left_untried(search)
    assert told.facts["recipes"] == ["float16", "static_int8_mse"], "its like may keep the floor"
    assert codes(search_of(truths, made=[], notes=[remark("search.no-variants", message="", hint="")])) == []
    assert codes(search_of(truths, made=[], already=remark("quantize.already"))) == []


def test_what_was_entered_and_not_timed_is_named() -> None:
    search = search_of([Truth(ORIGINAL, 2.0), Truth("fast", 1.0)])
    search.candidates.truths["late"] = Truth("late", 0.5)
    search.candidates.entrant("late")
    assert left_untried(search) == (remark("untried.plans", trials=["late@cpu, 1 thread"]),)
    search.candidates.run_round([search.candidates.entrants["late@cpu, 1 thread"]], 0.1)
    (told,) = left_untried(search)
    assert told.code == "untried.accuracy", "it looks best, and nobody has tested it"


def test_what_came_close_is_named_at_the_end_of_the_race() -> None:
    search = search_of([Truth(ORIGINAL, 2.0), Truth("fast", 1.0)])
    assert undecided_at_the_end(search) == []
    search.candidates.truths["close"], search.candidates.noise = Truth("close", 1.0), 0.002
    close = search.candidates.entrant("close")
    search.candidates.run_round([close, search.elimination.best], 0.1)
    (told,) = undecided_at_the_end(search)
    assert told.facts["trials"] == ["close@cpu, 1 thread"]
    search.elimination.settle(list(search.candidates.entrants.values()), FAR)
    assert undecided_at_the_end(search) == []


def test_skipped_parts_and_practices_are_named_once() -> None:
    skipped = [remark("untried.mix", variant="int4"), remark("untried.mix", variant="int4")]
    search = search_of([Truth(ORIGINAL, 2.0), Truth("fast", 1.0)], skipped=skipped)
    assert codes(search, ["threads"]) == ["untried.mix", "untried.practices"]


def test_what_was_left_out_on_purpose_lacked_no_time() -> None:
    purpose = [remark("untried.mix-option", variant="int4"), remark("untried.practices", practices=["threads"])]
    assert not lacked_time([*purpose, remark("untried.undecided", trials=["a@cpu"])])
    assert lacked_time([*purpose, remark("untried.recipes", recipes=["float16"])])


def test_combinations_are_counted() -> None:
    truths = [Truth(ORIGINAL, 2.0), Truth("a", 1.0, plan=Plan(threads=2)), Truth("b", 1.5, plan=Plan(threads=4))]
    (told,) = left_untried(search_of(truths))
    assert told == remark("untried.combinations", count=6, total=9)


@pytest.mark.parametrize(
    "why", [remark(NOT_CONFIRMED, verdict="undecided", ratio=0.9), remark(NO_ANSWER, seconds=10.0)]
)
def test_who_was_not_confirmed_or_did_not_answer_gets_another_chance_where_a_search_goes_on(
    why: Remark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hasten.search.candidates._stamp", lambda path: None)
    target = SimulatedTarget(install_clock(monkeypatch), {ORIGINAL: Behaviour(2.0), "fast": Behaviour(1.0)})
    dropped = Trial("fast", status=Status.DROPPED, stage=Stage.FINAL, floor=FloorState.KEPT, why=why, levels={1: 0.0})
    slower = Trial("slow", status=Status.DROPPED, why=remark("trial.slower", ratio=2.0, than="fast"))
    with closing(SearchFolder(tmp_path / "out", TUNE, {})) as folder:
        folder.save_trial(dropped)
        folder.save_trial(slower)
    with closing(SearchFolder(tmp_path / "out", TUNE, {}, resume=True)) as folder:
        candidates = Candidates(target, folder, (Trial(ORIGINAL), candidate(ORIGINAL)), 0.0)
        again = candidates.enter(Trial("fast"), candidate("fast"))
        assert again.is_racing
        assert (again.trial.why, again.trial.stage) == (NOTHING, Stage.RACE)
        assert not candidates.enter(Trial("slow"), candidate("slow")).is_racing


def test_the_best_is_saved_when_it_is_news(tmp_path: Path) -> None:
    amount = Amount(2.0, (1.9, 2.1))
    first = BestSoFar("a", Goal.START, amount, 1.0)
    assert not replace(first, elapsed_s=9.0, amount=Amount(2.01)).is_news(first)
    assert replace(first, amount=Amount(2.1)).is_news(first)
    assert replace(first, trial="b").is_news(first)
    assert replace(first, confirmed=True).is_news(first)
    with closing(SearchFolder(tmp_path, TUNE, {})) as folder:
        elimination, _ = raced([Truth(ORIGINAL, 2.0), Truth("fast", 1.0)])
        store: Any = SimpleNamespace(folder=folder, settings=SimpleNamespace(goal=Goal.LATENCY))
        told: list[str] = []
        search = Search(store, 60.0, math.inf, lambda share, text: None, on_best=lambda: told.append("better"))
        search.elimination = elimination
        for _ in range(3):
            search.tell("something")
        search.keep_best(elimination.best, confirmed=True)
    lines = [line for line in read_session(tmp_path / SESSION).lines if line.kind == "best"]
    assert [(line.label, line.data["confirmed"]) for line in lines] == [
        ("fast@cpu, 1 thread", False),
        ("fast@cpu, 1 thread", True),
    ]
    assert lines[0].data["amount"]["value"] == pytest.approx(1.0, rel=0.1)
    assert told == ["better"], "a figure that has moved needs no other bundle"


def test_what_is_chosen_in_the_end_did_not_merely_come_close() -> None:
    other, close = remark("untried.rewrites"), remark("untried.undecided", trials=["a@cpu", "b@cpu"])
    assert without_chosen([other, close], "a@cpu") == [other, remark("untried.undecided", trials=["b@cpu"])]
    assert without_chosen([other, close], "c@cpu") == [other, close]
    assert without_chosen([remark("untried.undecided", trials=["a@cpu"])], "a@cpu") == []
