"""Nodes that lose by integers are found again and again, although some rounds of each look are disturbed."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from statistics import median
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from hasten.core.measurement import Model
from hasten.explanation import run
from hasten.explanation.inner_tensors import Subject
from hasten.explanation.node_gains import Gains, measure_gains
from hasten.measure.profiling import RawProfile
from hasten.measure.rounds import Candidate, no_progress
from hasten.model.reader import read_graph
from tests.example_models import mobilenet_like
from tests.unit.explanation.test_rules import operator, profile

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from hasten.core.profile import Profile

    Measure = Callable[[int, float], tuple[Gains | None, "Simulated"]]

LOSER, LIKEWISE = 0, 1
DISTURBED = 0.1
"""The chance that another program touches a round: one look in two has such a round."""
SPREAD_MS = 0.1


@dataclass
class Simulated:
    """Profiles of a model whose first node loses a twentieth of a run, and whose second neither gains nor loses."""

    seed: int
    disturbed: float
    profiles: list[Profile] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)

    def profile_model(self, target: Any, candidate: Any, *_: Any) -> Any:
        found = self._profile(candidate.label)
        self.profiles.append(found)
        return found, RawProfile((), SimpleNamespace(blocks=()), found)  # type: ignore[arg-type]

    def _profile(self, label: str) -> Profile:
        times = {LOSER: 0.02 + 0.005 * (label == "int8"), LIKEWISE: 0.02, 2: 0.04 - 0.02 * (label == "int8")}
        late = self.random.uniform(0, SPREAD_MS) if self.random.random() < self.disturbed else 0.0
        nodes = [operator(node, ms + self.random.gauss(0, 0.0003) + late) for node, ms in times.items()]
        return profile(*nodes)

    def merged(self, raws: list[RawProfile]) -> Any:
        """All rounds together: what most runs took."""
        rounds: list[Profile] = [raw.load for raw in raws]  # type: ignore[misc]
        by_node = zip(*(one.operators for one in rounds), strict=True)
        return profile(*(operator(same[0].index, median(one.ms for one in same)) for same in by_node))


@pytest.fixture
def looked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Measure:
    """Look for the gains of a model of three nodes, where so many rounds are disturbed."""
    (tmp_path / "m.tflite").write_bytes(mobilenet_like(8, 1, 16))
    graph = read_graph(tmp_path / "m.tflite")
    model = Model("m.tflite", 1, "ab")
    subjects = [Subject(Candidate(label, graph.path, model), graph) for label in ("float", "int8")]

    def look(seed: int, disturbed: float) -> tuple[Gains | None, Simulated]:
        simulated = Simulated(seed, disturbed)
        monkeypatch.setattr(run, "profile_model", simulated.profile_model)
        monkeypatch.setattr(run, "_merged", simulated.merged)
        monkeypatch.setattr(run, "build_profile", lambda candidate, graph, raw, peaks: raw)
        target: Any = None
        return measure_gains(target, subjects[0], subjects[1], no_progress, 600.0), simulated

    return look


def test_the_loser_is_found_although_rounds_are_disturbed(looked: Measure) -> None:
    """Six rounds, all of which must agree, find it in half of the looks."""
    found = []
    for seed in range(60):
        gains, _ = looked(seed, DISTURBED)
        assert gains is not None
        found.append(LOSER in gains.losses)
    assert sum(found) / len(found) >= 0.95
    quiet, _ = looked(0, 0.0)
    assert quiet is not None
    assert quiet.losses[0] == LOSER


def test_rounds_end_where_nothing_that_matters_is_open(looked: Measure) -> None:
    _, quiet = looked(0, 0.0)
    assert len(quiet.profiles) == 2 * 6
    rounds = [len(looked(seed, 0.5)[1].profiles) // 2 for seed in range(20)]
    assert set(rounds) <= {6, 9, 12, 15}
    assert max(rounds) == 15
