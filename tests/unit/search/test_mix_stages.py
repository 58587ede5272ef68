"""Mixes inside a tuning: made, judged and kept in its own folder, and no longer than the budget allows."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from hasten.api import Data, SearchSettings
from hasten.core.floor import FloorState
from hasten.core.plan import Plan
from hasten.core.session import read_session
from hasten.core.trial import Purpose
from hasten.explanation import node_gains
from hasten.measure.rounds import no_progress
from hasten.model.example_models import mobilenet_like
from hasten.search.mix_stages import MixStages
from hasten.search.search import Search
from hasten.search.variant_store import VariantRequest
from tests.unit.search.searching import store

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

RECIPE = "weight_only_int4"


@pytest.fixture
def mixes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[MixStages]:
    """Random weights hardly suffer; the floor that no sample may differ makes int4 break it."""
    monkeypatch.setattr(node_gains, "SECONDS", 0.6)
    (tmp_path / "tiny.tflite").write_bytes(mobilenet_like(8, 1, 16))
    np.savez(tmp_path / "inputs.npz", x=np.random.default_rng(0).random((24, 16, 16, 3), np.float32))
    data, settings = Data(str(tmp_path / "inputs.npz"), metric="cosine"), SearchSettings((RECIPE,), max_drop=0.001)
    work = store(tmp_path / "tiny.tflite", tmp_path / "out", data, settings)
    found = Search(work, 60.0, math.inf, no_progress)
    raced: Any = SimpleNamespace(candidates=SimpleNamespace(entrant_of=lambda *_: None))
    found.elimination = raced
    yield MixStages(found)
    work.close()


@pytest.mark.slow
def test_a_mix_that_keeps_the_floor_is_found_in_the_folder_of_the_tuning(mixes: MixStages) -> None:
    work = mixes.search.store
    broken = work.make(VariantRequest(RECIPE))
    assert work.judge.judged(broken, work.candidate_of(broken, Plan())).floor is FloorState.BROKEN
    (mix,) = mixes._mixes_of(mixes._mixer(Plan(), math.inf), broken)
    assert mix.floor is FloorState.KEPT
    assert (mix.recipe, mix.parent, mix.purpose) == (RECIPE, RECIPE, Purpose.FLOOR)
    assert mix.variant == f"weights-int4+float{len(mix.float_nodes)}"
    assert work.folder.has_file_of(mix)
    kept = {path.stem for path in (work.folder.path / "variants").iterdir()}
    assert kept == {RECIPE, mix.variant}, "steps on the way leave no file"
    assert "sensitivity" in {line.kind for line in read_session(work.folder.path / "session.jsonl").lines}
    further = mixes._mixer(Plan(), math.inf).further(mix)
    assert further is None or set(further.float_nodes) > set(mix.float_nodes)


def test_a_mix_that_is_judged_on_another_plan_is_judged_again(mixes: MixStages) -> None:
    mixer, other = mixes._mixer(Plan(), math.inf), mixes._mixer(Plan(threads=2), math.inf)
    request = VariantRequest(RECIPE, (0,), Purpose.FLOOR, RECIPE)
    assert mixer.attempt(request).plan == Plan()
    assert other.attempt(request).plan == Plan(threads=2)


def test_what_the_race_has_judged_is_not_judged_again(mixes: MixStages, monkeypatch: pytest.MonkeyPatch) -> None:
    work: Any = mixes.search.store
    request = VariantRequest(RECIPE, (0,), Purpose.FLOOR, RECIPE)
    made = work.make(request)
    judged = work.judge.judged(made, work.candidate_of(made, Plan()))
    raced: Any = mixes.search.elimination
    raced.candidates.entrant_of = lambda *_: SimpleNamespace(trial=judged)
    monkeypatch.setattr(type(work), "attempt", lambda *_: pytest.fail("judged once more"))
    found = mixes._mixer(Plan(), math.inf).attempt(request)
    assert (found.floor, found.judged, found.path) == (judged.floor, judged.judged, made.path)


@pytest.mark.slow
def test_without_time_nothing_is_mixed(mixes: MixStages) -> None:
    work = mixes.search.store
    assert mixes._mixes_of(mixes._mixer(Plan(), -math.inf), work.make(VariantRequest(RECIPE))) == []
