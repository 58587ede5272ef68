"""Which candidate stands in the end: setbacks, limits that the confirmation decides, the winner of an earlier run."""

from __future__ import annotations

import math
from contextlib import closing
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest
from simulated import Behaviour, SimulatedTarget, candidate, install_clock

from hasten.core.comparison import Comparison, Verdict
from hasten.core.failure import CONNECTION_LOST, RunnerFailed
from hasten.core.floor import FloorState
from hasten.core.goal import Goal
from hasten.core.limits import Limit
from hasten.core.plan import Plan
from hasten.core.statistics import Interval
from hasten.core.trial import ORIGINAL, Purpose, Status, Trial
from hasten.demo import MODEL
from hasten.engine.model_file import file_hash
from hasten.measure.rounds import no_progress
from hasten.search import confirming
from hasten.search.candidates import Candidates
from hasten.search.confirming import Confirmation
from hasten.search.folder import TUNE, SearchFolder
from hasten.search.search import Search
from hasten.search.settings import SearchSettings
from tests.unit.search.searching import store
from tests.unit.search.simulated_race import BROKEN, KEPT, SimulatedCandidates, Truth, raced

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from hasten.search.candidates import Entrant
    from hasten.search.elimination import Elimination

THREADS = Plan(threads=2)


@dataclass(slots=True)
class Simulated(Confirmation):
    """Breaks the floor on the reporting part wherever the numbers are not the original's; times are confirmed."""

    confirmed: list[str] = field(default_factory=list)

    def _keeps_floor(self, entrant: Entrant) -> bool:
        if entrant.trial.computes_as_original:
            return True
        self.search.candidates.update(entrant, **BROKEN)
        return False

    def _is_confirmed(self, entrant: Entrant, seconds: float) -> bool:
        self.confirmed.append(entrant.trial.id)
        return True


def search_of(elimination: Elimination, settings: SearchSettings) -> Any:
    """As much of a search as a confirmation asks for."""
    folder = SimpleNamespace(note=lambda *_: None, keep=lambda *_: None)
    return SimpleNamespace(
        elimination=elimination,
        candidates=elimination.candidates,
        best=elimination.best,
        settings=settings,
        has_data=True,
        stage="",
        folder=folder,
        kin=lambda until: [],
        tell=lambda text: None,
        store=SimpleNamespace(target=None),
    )


class Live(SimpleNamespace):
    """A search whose best is asked for each time."""

    @property
    def best(self) -> Entrant:
        found: Entrant = self.elimination.best
        return found


def live(elimination: Elimination, settings: SearchSettings) -> Any:
    parts = vars(search_of(elimination, settings))
    parts.pop("best")
    return Live(**parts)


@pytest.mark.parametrize("until", [math.inf, -math.inf])
def test_after_all_setbacks_the_fastest_way_to_run_the_original_stands(until: float) -> None:
    variants = [Truth(f"v{number}", 0.3 + number / 100) for number in range(6)]
    elimination, _ = raced([Truth(ORIGINAL, 1.0), *variants])
    candidates = cast("SimulatedCandidates", elimination.candidates)
    candidates.truths[ORIGINAL] = Truth(ORIGINAL, 0.6, plan=THREADS)
    threads = candidates.entrant(ORIGINAL)
    base, candidates.truths[ORIGINAL] = elimination.candidates.base, Truth(ORIGINAL, 1.0)
    for _ in range(4):
        candidates.run_round([threads], 0.1)
        level = threads.trial.levels[candidates.number] + math.log(0.6)
        candidates.update(threads, levels={**threads.trial.levels, candidates.number: level}, **KEPT)
    assert elimination.best.trial.variant == "v0"
    confirmation = Simulated(live(elimination, SearchSettings(mix=False)), until)
    stood = confirmation.choose(0.0)
    assert stood is threads
    assert stood is not base
    assert confirmation.confirmed == [threads.trial.id]


def proof(verdict: Verdict, ratio: float) -> Any:
    found = Comparison(verdict, ratio, (0.98 * ratio, 1.02 * ratio), 0.02, 5)
    result = SimpleNamespace(as_data=dict)
    return SimpleNamespace(measured=dict, comparison=found, goal=Goal.LATENCY, result=result, steps=())


def confirmed(
    monkeypatch: pytest.MonkeyPatch, elimination: Elimination, settings: SearchSettings, found: Any
) -> tuple[Confirmation, Entrant]:
    """A confirmation whose proof is this one, and the entrant that it is about."""
    monkeypatch.setattr(confirming, "prove", lambda *_, **__: found)
    confirmation = Confirmation(live(elimination, settings), math.inf)
    monkeypatch.setattr(Confirmation, "_chain", lambda self, entrant: [None, None])
    monkeypatch.setattr(SimulatedCandidates, "adopt", lambda self, measured: None)
    return confirmation, elimination.best


@pytest.mark.parametrize(("verdict", "stands"), [(Verdict.FASTER, True), (Verdict.UNDECIDED, False)])
def test_a_limit_on_the_goal_itself_needs_a_proof_all_the_same(
    verdict: Verdict, stands: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit = Limit(latency_ms=0.7)
    elimination, _ = raced([Truth(ORIGINAL, 1.0), Truth("fast", 0.8)], limit=limit)
    confirmation, fast = confirmed(monkeypatch, elimination, SearchSettings(limit=limit), proof(verdict, 0.8))
    assert fast.trial.variant == "fast"
    assert confirmation._is_confirmed(fast, 1.0) is stands


def test_a_limit_that_the_confirmation_shows_to_be_broken_gives_way_to_one_that_keeps_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    limit = Limit(latency_ms=5.0)
    truths = [Truth(ORIGINAL, 10.0, size=100), Truth("small", 4.9, size=20), Truth("quick", 2.0, size=60)]
    elimination, _ = raced(truths, limit=limit, goal=Goal.SIZE)
    settings = SearchSettings(goal=Goal.SIZE, limit=limit)
    confirmation, small = confirmed(monkeypatch, elimination, settings, proof(Verdict.FASTER, 0.2))
    assert small.trial.variant == "small"

    def adopt(self: SimulatedCandidates, measured: object) -> None:
        assert small.trial.latency is not None
        slow = replace(small.trial.latency, estimate=5.2, low=5.15, high=5.25)
        self.update(small, latency=slow)

    monkeypatch.setattr(SimulatedCandidates, "adopt", adopt)
    reasons = {name: one.trial.why for name, one in elimination.candidates.entrants.items()}
    assert not confirmation._is_confirmed(small, 1.0)
    assert {name: one.trial.why for name, one in elimination.candidates.entrants.items()} == reasons
    elimination.revive(math.inf)
    assert elimination.best.trial.variant == "quick"


@pytest.mark.parametrize(("has_data", "until"), [(False, math.inf), (True, -math.inf)])
def test_one_that_breaks_a_limit_does_not_give_way_to_those_that_nobody_can_judge(
    has_data: bool, until: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit = Limit(latency_ms=5.0)
    truths = [Truth(ORIGINAL, 10.0, size=100), Truth("threads", 5.2, size=100), Truth("int8", 2.0, size=101)]
    elimination, _ = raced(truths, limit=limit, goal=Goal.SIZE, most_rounds=1)
    int8 = next(one for one in elimination.candidates.entrants.values() if one.trial.variant == "int8")
    elimination.candidates.update(int8, floor=FloorState.NOT_JUDGED, status=Status.TIMED)
    settings = SearchSettings(goal=Goal.SIZE, limit=limit)
    confirmation, _ = confirmed(monkeypatch, elimination, settings, proof(Verdict.FASTER, 0.5))
    confirmation.until, confirmation.search.has_data = until, has_data  # type: ignore[misc]
    threads = next(one for one in elimination.candidates.entrants.values() if one.trial.variant == "threads")
    elimination.candidates.update(threads, latency=Interval(5.2, 5.15, 5.25))
    assert not elimination.fits(threads)
    assert confirmation._is_confirmed(threads, 1.0)


@pytest.fixture
def candidates_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Candidates on a simulated target, by how the original behaves."""
    monkeypatch.setattr("hasten.search.candidates._stamp", lambda path: None)
    with closing(SearchFolder(tmp_path / "out", TUNE, {})) as folder:

        def made(original: Behaviour) -> tuple[Candidates, Entrant]:
            target = SimulatedTarget(install_clock(monkeypatch), {ORIGINAL: original, "fast": Behaviour(0.5)})
            base = Trial(ORIGINAL)
            found = Candidates(target, folder, (base, replace(candidate(ORIGINAL), label=base.id)), 0.0)
            return found, found.enter(Trial("fast"), replace(candidate("fast"), label=Trial("fast").id))

        yield made


def test_an_original_that_fails_now_and_then_races_on_and_one_that_fails_twice_in_a_row_ends_the_race(
    candidates_of: Any,
) -> None:
    candidates, fast = candidates_of(Behaviour(1.0, fails=dict.fromkeys((1, 3, 4), "load")))
    for _ in range(4):
        candidates.run_round([fast], 0.1)
    assert candidates.is_timed(fast)
    assert set(candidates.base.trial.levels) & set(fast.trial.levels) == {1, 3}
    with pytest.raises(RunnerFailed):
        candidates.run_round([fast], 0.1)
    assert fast.trial.status is not Status.FAILED
    assert candidates.base.trial.status is not Status.FAILED


def test_an_original_that_an_earlier_run_has_timed_may_fail_once_too(candidates_of: Any) -> None:
    candidates, fast = candidates_of(Behaviour(1.0, fails={0: "load"}))
    candidates.update(candidates.base, levels={1: 0.0})
    candidates.run_round([fast], 0.1)
    candidates.run_round([fast], 0.1)
    assert candidates.base.trial.status is not Status.FAILED
    assert candidates.is_timed(fast)


def test_a_lost_device_fails_nobody(candidates_of: Any) -> None:
    gone = dict.fromkeys(range(1, 9), "load")
    candidates, fast = candidates_of(Behaviour(1.0, fails=gone, code=CONNECTION_LOST))
    candidates.run_round([fast], 0.1)
    with pytest.raises(RunnerFailed):
        candidates.run_round([fast], 0.1)
    assert fast.trial.status is not Status.FAILED


def test_what_an_earlier_run_has_found_is_the_answer_from_the_beginning(tmp_path: Path) -> None:
    """Mixes and rewritten graphs come last in a search: one that goes on must not fall behind what it had."""
    with closing(store(MODEL, tmp_path / "out")) as work:
        file = work.folder.place_of("int8+float1")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(MODEL.read_bytes())
        mix = replace(
            Trial("int8+float1", recipe="static_int8", purpose=Purpose.FLOOR, path=str(file), sha256=file_hash(file)),
            floor=FloorState.KEPT,
            status=Status.KEPT,
        )
        work.folder.save_variant(mix)
        base = Trial(ORIGINAL, levels=dict.fromkeys(range(1, 6), math.log(2.0)), floor=FloorState.KEPT)
        levels = dict.fromkeys(range(1, 6), math.log(0.7))
        work.folder.save_trial(base)
        work.folder.save_trial(replace(mix, plan=THREADS, levels=levels))
        work.folder.save_trial(replace(mix, plan=Plan(delegate="foreign.so"), levels=levels))
        work.folder.save_trial(replace(mix, variant="gone", plan=THREADS, levels=levels))
    with closing(store(MODEL, tmp_path / "out")) as work:
        search = Search(work, 60.0, math.inf, no_progress)
        search.open()
        assert search.best.trial.id == f"int8+float1@{THREADS.describe()}"
        assert set(search.candidates.entrants) == {base.id, search.best.trial.id}, "no foreign plan, no missing file"
