"""The confirmation on a simulated machine: the figures of the search and those of the proof are the same."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import count
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest
from simulated import Behaviour, SimulatedTarget, candidate, install_clock

from hasten.core.comparison import Verdict
from hasten.core.failure import Failure
from hasten.core.floor import MOST_LOOKS, MOST_STRICT_LOOKS
from hasten.core.goal import Goal
from hasten.core.plan import Plan
from hasten.core.trial import ORIGINAL, Trial
from hasten.evaluate.trial_words import why_words
from hasten.search.candidates import Candidates, Entrant, slower
from hasten.search.confirming import Confirmation, Link, Pace, prove
from hasten.search.folder import QUANTIZE, SearchFolder
from tests.unit.search.simulated_race import KEPT

if TYPE_CHECKING:
    from pathlib import Path


def begun(target: SimulatedTarget, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Candidates, SearchFolder]:
    monkeypatch.setattr("hasten.search.candidates._stamp", lambda path: None)
    folder, original = SearchFolder(tmp_path / "out", QUANTIZE, {}), Trial(ORIGINAL)
    return Candidates(target, folder, (original, replace(candidate(ORIGINAL), label=original.id)), 0.0), folder


class OneAfterTheOther:
    """A search whose best is another one each time."""

    def __init__(self, *, strict: bool) -> None:
        self.settings = SimpleNamespace(strict=strict, mix=False)
        self.candidates = SimpleNamespace(base=SimpleNamespace(trial=Trial(ORIGINAL)))
        self.elimination = SimpleNamespace(revive=lambda until: None)
        self.kin = self.elimination.revive
        self._numbers = count()

    @property
    def best(self) -> Any:
        return SimpleNamespace(trial=Trial(f"v{next(self._numbers)}"))


class Choices(Confirmation):
    """A confirmation that finds so many candidates to break the floor, and confirms the others, or none."""

    def __init__(self, *, strict: bool = False, broken: int = 0, confirms: bool = True) -> None:
        super().__init__(cast("Any", OneAfterTheOther(strict=strict)), math.inf)
        self.broken, self.confirms, self.tried = broken, confirms, list[str]()

    def chosen(self) -> str:
        return self._first_that_stands(1.0).trial.variant

    def _keeps_floor(self, entrant: Entrant) -> bool:
        self.tried.append(entrant.trial.variant)
        return len(self.tried) > self.broken

    def _is_confirmed(self, entrant: Entrant, seconds: float) -> bool:
        return self.confirms

    def _simplest(self, entrant: Entrant) -> Entrant:
        return entrant

    def _fastest_as_original(self) -> None:
        return None


def entered(candidates: Candidates, name: str, plan: Plan = Plan()) -> Entrant:
    trial = Trial(name, plan)
    return candidates.enter(trial, replace(candidate(name, plan), label=trial.id))


@pytest.mark.parametrize("seed", range(12))
def test_a_trial_has_the_latency_of_the_last_step(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However unlike the processes are: that they are placed by the base is done once, not twice."""
    noisy = Behaviour(1.0, process_noise=0.12)
    behaviours = {ORIGINAL: noisy, "halfway": replace(noisy, latency_ms=0.8), "fast": replace(noisy, latency_ms=0.5)}
    target = SimulatedTarget(install_clock(monkeypatch), behaviours, seed)
    candidates, folder = begun(target, tmp_path, monkeypatch)
    halfway, fast = (entered(candidates, name) for name in ("halfway", "fast"))
    for _ in range(3):
        candidates.run_round([halfway, fast], 0.1)
    proof = prove(
        target, [Link(one.candidate) for one in (candidates.base, halfway, fast)], Pace(20), lambda text: None
    )
    assert not isinstance(proof, Failure)
    candidates.adopt(proof.measured())
    folder.close()
    first, last = proof.steps
    for entrant, shown_ms in ((candidates.base, first.from_ms), (halfway, first.to_ms), (fast, last.to_ms)):
        assert entrant.trial.latency is not None
        assert entrant.trial.latency.estimate == pytest.approx(shown_ms)
    assert fast.trial.against is not None
    assert fast.trial.against.ratio == pytest.approx(first.ratio * last.ratio)
    assert fast.trial.against.ratio == pytest.approx(proof.comparison.ratio)


@pytest.mark.parametrize("quiet_at_last", [True, False])
def test_the_load_of_the_confirmation_decides_and_not_that_of_the_race(
    quiet_at_last: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two threads against a busy program may lose by the load alone; the verdict is that of the headline."""
    busy, quiet = (
        {
            ORIGINAL: Behaviour(1.0, other_cores_busy=cores, cores=2),
            "slow": Behaviour(1.3, other_cores_busy=cores, cores=2),
        }
        for cores in (1.0, 0.0)
    )
    target = SimulatedTarget(install_clock(monkeypatch), busy if quiet_at_last else quiet)
    candidates, folder = begun(target, tmp_path, monkeypatch)
    plan = Plan(threads=2)
    trial = Trial("slow", plan)
    slow = candidates.enter(trial, replace(candidate("slow", plan), label=trial.id))
    for _ in range(6):
        candidates.run_round([slow], 0.1)
    assert slow.trial.against is not None
    assert slow.trial.against.is_withheld is quiet_at_last
    target.behaviours = quiet if quiet_at_last else busy
    proof = prove(target, [Link(one.candidate) for one in (candidates.base, slow)], Pace(20), lambda text: None)
    assert not isinstance(proof, Failure)
    candidates.adopt(proof.measured())
    candidates.refresh()
    folder.close()
    assert slow.trial.against.verdict is proof.comparison.verdict
    assert slow.trial.against.is_withheld is not quiet_at_last
    assert proof.comparison.verdict is (Verdict.SLOWER if quiet_at_last else Verdict.UNDECIDED)


@pytest.mark.parametrize(("strict", "looks"), [(False, MOST_LOOKS), (True, MOST_STRICT_LOOKS)])
@pytest.mark.parametrize("broken", [0, 1, 3, 7, 8])
def test_a_tuning_tries_as_many_on_the_reporting_part_as_quantize(broken: int, strict: bool, looks: int) -> None:
    search = Choices(strict=strict, broken=broken)
    assert search.chosen() == (f"v{broken}" if broken < looks else ORIGINAL)


def test_what_is_not_confirmed_ends_a_tuning_sooner() -> None:
    search = Choices(confirms=False)
    assert search.chosen() == ORIGINAL
    assert search.tried == ["v0", "v1", "v2", ORIGINAL]


def test_a_likely_gain_gets_the_rounds_that_a_verdict_needs_however_short_the_time_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Three noisy rounds left a ratio of 0.39 undecided, and the next candidate was proven in the time for two more."""
    noisy = Behaviour(1.0, process_noise=0.1)
    rounds = []
    for seed in range(12):
        behaviours = {ORIGINAL: noisy, "fast": replace(noisy, latency_ms=0.4), "alike": noisy}
        target = SimulatedTarget(install_clock(monkeypatch), behaviours, seed)
        links = [Link(candidate(name)) for name in (ORIGINAL, "fast")]
        found = prove(target, links, Pace(0.0), lambda text: None)
        assert not isinstance(found, Failure)
        assert found.comparison.verdict is Verdict.FASTER
        rounds.append(found.comparison.rounds)
    assert max(rounds) > 3
    target = SimulatedTarget(install_clock(monkeypatch), {ORIGINAL: Behaviour(1.0), "alike": Behaviour(1.02)})
    slower = prove(target, [Link(candidate(name)) for name in (ORIGINAL, "alike")], Pace(0.0), lambda text: None)
    assert not isinstance(slower, Failure)
    assert slower.comparison.rounds == 3, "one that promises nothing gets no more"


def test_a_proof_that_is_held_up_all_the_time_gets_more_and_leaves_no_step_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two threads that were slowed to 1.65 times the latency of the race looked alike without the last step."""
    behaviours = {ORIGINAL: Behaviour(0.06), "static": Behaviour(0.046), "mixed": Behaviour(0.046)}
    links = [Link(candidate(name)) for name in behaviours]
    raced = {1: math.log(0.0257), 2: math.log(0.046)}
    target = SimulatedTarget(install_clock(monkeypatch), behaviours)
    usual = prove(target, links, Pace(0.0, 20.0), lambda text: None)
    patient = prove(target, links, Pace(0.0, 20.0, raced), lambda text: None)
    assert not isinstance(usual, Failure)
    assert not isinstance(patient, Failure)
    assert patient.comparison.rounds > usual.comparison.rounds
    assert not patient.is_last_step_idle
    assert replace(patient, raced={1: math.log(0.046)}).is_last_step_idle, (
        "where the race was as slow, the step brings nothing"
    )


def test_no_further_proof_is_begun_that_the_budget_does_not_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hasten.search.confirming.time", SimpleNamespace(monotonic=lambda: 0.0))
    for left_s, proofs in ((0.4, 1), (0.6, 3)):
        choices = Choices(confirms=False)
        choices.until = left_s
        choices.chosen()
        assert sum(name != ORIGINAL for name in choices.tried) == proofs


def test_a_short_proof_has_short_rounds_so_that_six_of_them_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Six rounds of three candidates took 11 s at the end of a budget of 25 s."""
    behaviours = {ORIGINAL: Behaviour(0.5), "halfway": Behaviour(0.5), "fast": Behaviour(0.49)}
    links = [Link(candidate(name)) for name in behaviours]
    took = []
    for seconds in (6.0, 25.0):
        clock = install_clock(monkeypatch)
        target, begin = SimulatedTarget(clock, behaviours), clock.now
        proof = prove(target, links, Pace(seconds), lambda text: None)
        assert not isinstance(proof, Failure)
        took.append((clock.now - begin) / proof.result.comparison.rounds)
    assert took[0] < 0.75 * took[1]


class WithoutPlan(Confirmation):
    """A confirmation of a race in which two threads won, on a machine where they lose by now."""

    def __init__(self, target: SimulatedTarget, candidates: Candidates, folder: SearchFolder) -> None:
        self.asked = list[str]()
        guard = SimpleNamespace(judge=lambda entrant: candidates.update(entrant, **KEPT))
        elimination = SimpleNamespace(
            guard=guard, fits=lambda entrant: True, best_of=lambda entrants: entrants[0], revive=lambda until: None
        )
        store = SimpleNamespace(target=target, candidate_of=self._candidate_of, variant=Trial, original=ORIGINAL)
        settings = SimpleNamespace(
            strict=False, mix=False, goal=Goal.LATENCY, measures_throughput=False, limit=SimpleNamespace(asked={})
        )
        search = SimpleNamespace(
            candidates=candidates,
            elimination=elimination,
            store=store,
            settings=settings,
            folder=folder,
            has_data=False,
            tell=lambda text: None,
            enter=lambda variant, plan: entered(candidates, variant, plan),
            best=entered(candidates, "int8", Plan(threads=2)),
        )
        super().__init__(cast("Any", search), -math.inf)

    def _candidate_of(self, variant: Trial | str, plan: Plan, label: str) -> Any:
        name = variant if isinstance(variant, str) else variant.variant
        return replace(candidate(f"{name} {plan.threads}", plan), label=label)

    def _is_confirmed(self, entrant: Entrant, seconds: float) -> bool:
        self.asked.append(entrant.trial.id)
        return super()._is_confirmed(entrant, seconds)


def test_what_two_threads_lose_is_left_out_and_not_what_int8_brings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The host had moved the cores apart since the race: the answer was the original, 1.6 times as slow as int8."""
    behaviours = {
        f"{ORIGINAL} 1": Behaviour(0.206),
        f"{ORIGINAL} 2": Behaviour(0.228),
        "int8 2": Behaviour(0.215),
        "int8 1": Behaviour(0.127),
    }
    target = SimulatedTarget(install_clock(monkeypatch), behaviours)
    candidates, folder = begun(target, tmp_path, monkeypatch)
    confirmation = WithoutPlan(target, candidates, folder)
    chosen = confirmation._first_that_stands(6.0)
    folder.close()
    assert confirmation.asked == ["int8@cpu, 2 threads", "int8@cpu, 1 thread"]
    assert chosen.trial.id == "int8@cpu, 1 thread"
    assert confirmation.proof is not None
    assert confirmation.proof.comparison.verdict is Verdict.FASTER


def test_a_reason_that_later_rounds_turn_round_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page said of the NPU that it takes -32 % longer than another."""
    behaviours = {ORIGINAL: Behaviour(1.0), "npu": Behaviour(0.75), "threads": Behaviour(0.6)}
    target = SimulatedTarget(install_clock(monkeypatch), behaviours)
    candidates, folder = begun(target, tmp_path, monkeypatch)
    npu, threads = (entered(candidates, name) for name in ("npu", "threads"))
    for _ in range(3):
        candidates.run_round([npu, threads], 0.1)
    candidates.drop(npu, slower(1.25, threads))
    candidates.refresh()
    assert why_words(npu.trial.why).startswith("It takes 25 % longer than")
    target.behaviours = {**behaviours, "threads": Behaviour(1.1)}
    proof = prove(target, [Link(one.candidate) for one in (candidates.base, threads)], Pace(6.0), lambda text: None)
    assert not isinstance(proof, Failure)
    candidates.adopt(proof.measured())
    folder.close()
    assert npu.trial.why.code == "trial.overtaken"
    assert why_words(npu.trial.why) == (
        f"It dropped out against {threads.trial.id}; later rounds leave open which is faster."
    )


def test_the_ratio_of_a_reason_follows_from_the_latencies_next_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rounds that held one candidate up do not decide who drops out; the figures that are shown have them all."""
    behaviours = {ORIGINAL: Behaviour(1.0), "slow": Behaviour(1.6), "fast": Behaviour(0.5)}
    target = SimulatedTarget(install_clock(monkeypatch), behaviours)
    candidates, folder = begun(target, tmp_path, monkeypatch)
    slow, fast = (entered(candidates, name) for name in ("slow", "fast"))
    candidates.run_round([slow, fast], 0.1)
    target.behaviours = {**behaviours, "fast": Behaviour(0.8)}
    for _ in range(2):
        candidates.run_round([slow, fast], 0.1)
    candidates.drop(slow, slower(3.2, fast))
    candidates.refresh()
    folder.close()
    assert slow.trial.latency is not None
    assert fast.trial.latency is not None
    shown = slow.trial.latency.estimate / fast.trial.latency.estimate
    assert slow.trial.why.facts["ratio"] == pytest.approx(shown, rel=1e-3)
