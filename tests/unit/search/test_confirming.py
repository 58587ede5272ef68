"""The confirmation on a simulated machine: the figures of the search and those of the proof are the same."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from simulated import Behaviour, SimulatedTarget, candidate, install_clock

from hasten.core.failure import Failure
from hasten.core.trial import ORIGINAL, Trial
from hasten.search.candidates import Candidates, Entrant
from hasten.search.confirming import Link, prove
from hasten.search.folder import QUANTIZE, SearchFolder

if TYPE_CHECKING:
    from pathlib import Path


def entered(candidates: Candidates, name: str) -> Entrant:
    trial = Trial(name)
    return candidates.enter(trial, replace(candidate(name), label=trial.id))


@pytest.mark.parametrize("seed", range(12))
def test_a_trial_has_the_latency_of_the_last_step(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However unlike the processes are: that they are placed by the base is done once, not twice."""
    monkeypatch.setattr("hasten.search.candidates._stamp", lambda path: None)
    noisy = Behaviour(1.0, process_noise=0.12)
    behaviours = {ORIGINAL: noisy, "halfway": replace(noisy, latency_ms=0.8), "fast": replace(noisy, latency_ms=0.5)}
    target = SimulatedTarget(install_clock(monkeypatch), behaviours, seed)
    folder = SearchFolder(tmp_path / "out", QUANTIZE, {})
    original = Trial(ORIGINAL)
    candidates = Candidates(target, folder, (original, replace(candidate(ORIGINAL), label=original.id)), 0.0)
    halfway, fast = (entered(candidates, name) for name in ("halfway", "fast"))
    for _ in range(3):
        candidates.run_round([halfway, fast], 0.1)
    proof = prove(target, [Link(one.candidate) for one in (candidates.base, halfway, fast)], 20, 0, lambda text: None)
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
