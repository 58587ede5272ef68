"""Mixes of float and integers: sensitivities by real runs on a tiny model, and the search on one that is simulated."""

from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from hasten.api import Data, Effort, SearchSettings, quantize
from hasten.core.comparison import Comparison, Verdict
from hasten.core.errors import ModelError
from hasten.core.floor import FloorState
from hasten.core.goal import Goal
from hasten.core.plan import Plan
from hasten.core.trial import ORIGINAL, Purpose, Trial
from hasten.model.reader import read_graph
from hasten.practices.quantize.facts import Sensitivity
from hasten.search import mixing
from hasten.search.quantizing import QuantizeSearch
from hasten.search.sensitivity import MOST_GROUPS, Probe, grouped, output_error, sensitivities, weight_shares_by_node
from hasten.variants.maker_process import VariantMaker
from hasten.variants.variant import NothingToChangeError
from tests.example_models import mobilenet_like
from tests.unit.search.searching import begun

if TYPE_CHECKING:
    from pathlib import Path

    from hasten.search.variant_store import VariantRequest

NODES = tuple(range(20))


def test_many_nodes_are_grouped_with_their_neighbors() -> None:
    assert grouped((3, 5)) == [(3,), (5,)]
    groups = grouped(range(250))
    assert len(groups) <= MOST_GROUPS
    assert [node for group in groups for node in group] == list(range(250))
    assert grouped(()) == []


def test_the_error_at_the_output_is_that_of_the_worst_output() -> None:
    right = [[np.array([3.0, 4.0]), np.array([1.0])], [np.array([0.0, 0.0]), np.array([1.0])]]
    off = [[np.array([3.0, 4.0]), np.array([1.5])], [np.array([0.0, 0.0]), np.array([1.5])]]
    assert output_error(right, right) == 0
    assert output_error(off, right) == pytest.approx(0.5)
    assert output_error([[np.array([math.nan, 1.0]), np.array([1.0])]] * 2, right) == math.inf
    assert output_error([[np.array([0.1])]], [[np.array([0.0])]]) == pytest.approx(0.1)


class Simulated(QuantizeSearch):
    """A search whose variants keep the floor once enough of the worst nodes are float."""

    def __init__(self, goal: Goal, needed: int, *, crashes: bool = False) -> None:
        against = Comparison(Verdict.FASTER, 0.5, (0.49, 0.51), 0.01, 5)
        original = Trial(ORIGINAL, path="m.tflite", size_bytes=1000, floor=FloorState.KEPT)
        broken = Trial(
            "static_int8",
            recipe="static_int8",
            path="q.tflite",
            size_bytes=250,
            floor=FloorState.BROKEN,
            drop=0.01 * (1 + needed),
            against=against,
            nodes=NODES,
        )
        self.known = {trial.variant: trial for trial in (original, broken)}
        self.store: Any = SimpleNamespace(
            settings=SimpleNamespace(goal=goal),
            judge=SimpleNamespace(
                floor=lambda half: SimpleNamespace(allowed=0.01),
                original=lambda half: SimpleNamespace(accuracy=SimpleNamespace(samples=5_000)),
            ),
            folder=SimpleNamespace(variants=self.known, forget_file=self.forget_file),
            candidate=SimpleNamespace(plan=Plan()),
        )
        self.needed, self.crashes = needed, crashes
        self.tried: list[int] = []

    def attempt(self, request: VariantRequest) -> Trial:
        """As the search does."""
        count = len(request.float_nodes)
        self.tried.append(count)
        kept = FloorState.KEPT if count >= self.needed else FloorState.BROKEN
        name = f"int8+float{count}"
        self.known[name] = Trial(
            name,
            recipe=request.recipe,
            purpose=request.purpose,
            parent=request.parent,
            float_nodes=request.float_nodes,
            path=f"{name}.tflite",
            size_bytes=250 + count,
            floor=FloorState.FAILED if self.crashes else kept,
            drop=max(0.0, 0.01 * (1 + self.needed - count)),
        )
        return self.known[name]

    def time_all(self) -> None:
        """Every mix gains something."""
        against = Comparison(Verdict.FASTER, 0.7, (0.69, 0.71), 0.01, 5)
        self.known.update({one.variant: replace(one, against=one.against or against) for one in self.trials})

    def forget_file(self, trial: Trial) -> None:
        """The file goes, the trial stays."""
        self.known[trial.variant] = replace(self.known[trial.variant], path="")

    @property
    def mixes(self) -> list[Trial]:
        """The mixes that were tried."""
        return [trial for trial in self.trials if trial.is_mix]


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sensitivities that fall from the last node to the first."""
    entries = [Sensitivity("static_int8", (node,), "CONV_2D", f"n{node}", node / 100, 0.05) for node in NODES]
    monkeypatch.setattr(mixing, "sensitivities", lambda store, trial, plan: iter(entries))
    monkeypatch.setattr(mixing, "Probe", lambda store, plan: SimpleNamespace(error_of=lambda path: math.inf))


@pytest.mark.usefixtures("known")
@pytest.mark.parametrize("goal", [Goal.LATENCY, Goal.SIZE])
@pytest.mark.parametrize("needed", [1, 7, 19])
def test_few_float_nodes_are_found_in_a_few_steps(goal: Goal, needed: int) -> None:
    search = Simulated(goal, needed)
    search.mix()
    (left,) = [trial for trial in search.mixes if trial.floor is FloorState.KEPT and trial.path]
    count = len(left.float_nodes)
    assert 0 <= count - needed <= 3
    assert left.float_nodes == NODES[-count:]
    assert left.purpose is (Purpose.FLOOR if goal is Goal.LATENCY else Purpose.FLOOR_AND_SIZE)
    assert len(search.tried) <= 6


@pytest.mark.usefixtures("known")
def test_what_seems_faster_with_the_kernels_of_the_choice_is_not_mixed() -> None:
    search = Simulated(Goal.LATENCY, 3)
    slower = Comparison(Verdict.FASTER, 0.55, (0.54, 0.56), 0.01, 5)
    name = "static_int8_corrected"
    kept = replace(search.trials[1], variant=name, recipe=name, floor=FloorState.KEPT, against=slower)
    search.known[name] = kept
    search.mix()
    assert search.tried == []
    search.known[name] = replace(kept, nodes=NODES[:10])
    search.mix()
    assert search.tried != []


@pytest.mark.usefixtures("known")
def test_where_only_float_keeps_the_floor_there_is_no_mix() -> None:
    search = Simulated(Goal.LATENCY, 20)
    search.mix()
    assert not any(trial.floor is FloorState.KEPT for trial in search.mixes)


@pytest.mark.usefixtures("known")
def test_mixes_that_crash_end_the_search_in_peace() -> None:
    search = Simulated(Goal.LATENCY, 5, crashes=True)
    search.mix()
    assert len(search.tried) <= 7


def test_nothing_is_mixed_where_no_broken_recipe_promises_anything() -> None:
    search = Simulated(Goal.LATENCY, 5)
    del search.known["static_int8"]
    search.mix()
    assert search.tried == []


@pytest.mark.usefixtures("known")
def test_a_mix_that_is_out_of_time_ends_with_what_it_has() -> None:
    search = Simulated(Goal.LATENCY, 5)
    late = replace(search.mixer, until=-math.inf)
    assert late.search(search.trials[1]) is None
    assert late.further(search.trials[1]) is None
    assert search.tried == []


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with a tiny model and inputs for it, without labels."""
    (tmp_path / "tiny.tflite").write_bytes(mobilenet_like(8, 1, 16))
    np.savez(tmp_path / "inputs.npz", x=np.random.default_rng(0).random((24, 16, 16, 3), np.float32))
    return tmp_path


def test_sensitivities_of_a_real_model_are_measured_once_and_kept(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data, settings = Data(str(place / "inputs.npz")), SearchSettings(goal=Goal.SIZE)
    search = begun(place / "tiny.tflite", place / "out", data, settings)
    trial = Trial("static_int8", recipe="static_int8", nodes=(0, 1, 2))
    found = list(sensitivities(search.store, trial, Plan()))
    assert [entry.nodes for entry in found] == [(0,), (1,), (2,)]
    assert all(0 < entry.error < 1 for entry in found)
    assert found[0].op == "CONV_2D"
    search.store.close()

    monkeypatch.setattr(VariantMaker, "make", None)
    again = begun(place / "tiny.tflite", place / "out", data, settings)
    assert list(sensitivities(again.store, trial, Plan())) == found
    again.folder.close()


def test_a_node_whose_variant_cannot_be_made_is_the_first_to_stay_float(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, only: tuple[int, ...], **__: Any) -> None:
        raise (NothingToChangeError if only == (1,) else ModelError)("it cannot be done")

    monkeypatch.setattr(VariantMaker, "make", fail)
    work = begun(place / "tiny.tflite", place / "out", settings=SearchSettings(goal=Goal.SIZE)).store
    found = list(sensitivities(work, Trial("static_int8", recipe="static_int8", nodes=(0, 1)), Plan()))
    work.close()
    assert [entry.error for entry in found] == [math.inf, 0]


def test_a_variant_is_probed_on_as_many_samples_as_are_next_to_nothing(place: Path) -> None:
    work = begun(place / "tiny.tflite", place / "out", Data(str(place / "inputs.npz"))).store
    probe = Probe(work, Plan())
    assert len(probe.outputs_of(place / "tiny.tflite")) == 12  # all of the choosing half
    assert probe.error_of(place / "tiny.tflite") == 0
    (place / "broken.tflite").write_bytes(b"TFL3")
    assert probe.error_of(place / "broken.tflite") == math.inf
    work.close()


def test_shares_of_the_weights_add_up(place: Path) -> None:
    shares = weight_shares_by_node(read_graph(place / "tiny.tflite"))
    assert sum(shares.values()) == pytest.approx(1)


@pytest.mark.slow
def test_a_mix_of_a_real_model_runs_and_is_chosen(place: Path) -> None:
    """Random weights hardly suffer; the floor that no sample may differ makes int4 break it, as a rule."""
    settings = SearchSettings(recipes=("weight_only_int4",), goal=Goal.SIZE, max_drop=0.001)
    told: list[tuple[float, str]] = []
    found = quantize(
        place / "tiny.tflite",
        place / "out",
        data=Data(str(place / "inputs.npz"), metric="cosine"),
        settings=settings,
        effort=Effort(0.1, progress=lambda share, text: told.append((share, text))),
    )
    assert found.trials[1].floor is FloorState.BROKEN
    assert found.sensitivity
    kept = [trial for trial in found.trials if trial.is_mix and trial.floor is FloorState.KEPT and trial.path]
    assert found.chosen == (kept[0].variant if kept else ORIGINAL)
    assert (place / "out" / "chosen.tflite").is_file()
    searching = [share for share, text in told if "sensitivity" in text]
    assert len(searching) == len(set(searching)) > 2, "the bar moves while a mix is looked for"
    assert searching[0] < 0.7
    assert sorted(share for share, _ in told) == [share for share, _ in told]
