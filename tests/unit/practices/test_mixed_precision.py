"""Mixes of float and integers: sensitivities by real runs on a tiny model, and the search on one that is simulated."""

from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from hasten.core.comparison import Comparison, Verdict
from hasten.core.errors import ModelError
from hasten.core.mixing import Sensitivity
from hasten.core.quantization import BROKEN, FAILED, KEPT, ORIGINAL, SIZE, SPEED, VariantRow
from hasten.library import quantize, study_quantize
from hasten.model.example_models import mobilenet_like
from hasten.model.reader import read_graph
from hasten.practices import mixed_precision
from hasten.practices.mixed_precision import mix
from hasten.practices.quantize_records import QuantizeSettings
from hasten.practices.sensitivity import MOST_GROUPS, Probe, grouped, output_error, sensitivities, weight_shares_by_node
from hasten.variants.maker import VariantMaker

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

NODES = tuple(range(20))


def test_many_nodes_are_grouped_with_their_neighbours() -> None:
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


class Simulated:
    """A practice whose variants keep the floor once enough of the worst nodes are float."""

    def __init__(self, goal: str, needed: int, *, crashes: bool = False) -> None:
        self.settings = SimpleNamespace(goal=goal, max_drop=0.01)
        self.judges = SimpleNamespace(floor=lambda half: SimpleNamespace(allowed=0.01))
        self.needed, self.crashes = needed, crashes
        against = Comparison(Verdict.FASTER, 0.5, (0.49, 0.51), 0.01, 5)
        self.rows = [
            VariantRow(ORIGINAL, "m.tflite", "aa", 1000, 900, KEPT),
            VariantRow(
                "static_int8", "q.tflite", "bb", 250, 240, BROKEN, drop=self._drop(0), against=against, nodes=NODES
            ),
        ]
        self.tried: list[int] = []
        self.forgotten: list[str] = []

    def judge(self, name: str, recipe: Any, *, float_nodes: Collection[int], share: float) -> VariantRow:
        """As the practice does."""
        self.tried.append(len(float_nodes))
        floor = FAILED if self.crashes else KEPT if len(float_nodes) >= self.needed else BROKEN
        row = VariantRow(
            name,
            f"{name}.tflite",
            "cc",
            250 + len(float_nodes),
            1,
            floor,
            drop=self._drop(len(float_nodes)),
            float_nodes=tuple(float_nodes),
        )
        self.rows.append(row)
        return row

    def _drop(self, count: int) -> float:
        return max(0.0, 0.01 * (1 + self.needed - count))

    def time_all(self, share: float) -> None:
        """Every mix gains something."""
        against = Comparison(Verdict.FASTER, 0.7, (0.69, 0.71), 0.01, 5)
        self.rows = [replace(row, against=row.against or against) for row in self.rows]

    def forget_file(self, row: VariantRow) -> None:
        """The file goes, the row stays."""
        self.forgotten.append(row.recipe)
        self.rows = [replace(entry, path="") if entry.recipe == row.recipe else entry for entry in self.rows]


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sensitivities that fall from the last node to the first."""
    entries = [Sensitivity("static_int8", (node,), "CONV_2D", f"n{node}", node / 100, 0.05) for node in NODES]
    monkeypatch.setattr(mixed_precision, "sensitivities", lambda practice, row: entries)
    monkeypatch.setattr(mixed_precision, "Probe", lambda practice: SimpleNamespace(error_of=lambda path: math.inf))


@pytest.mark.usefixtures("known")
@pytest.mark.parametrize("goal", [SPEED, SIZE])
@pytest.mark.parametrize("needed", [1, 7, 19])
def test_few_float_nodes_are_found_in_a_few_steps(goal: str, needed: int) -> None:
    practice: Any = Simulated(goal, needed)
    mix(practice)
    left = [row for row in practice.rows if row.is_mix and row.floor == KEPT and row.path]
    assert len(left) == 1
    count = len(left[0].float_nodes)
    assert 0 <= count - needed <= 3
    assert left[0].float_nodes == NODES[-count:]
    assert len(practice.tried) <= 6


@pytest.mark.usefixtures("known")
def test_what_seems_faster_with_the_kernels_of_the_choice_is_not_mixed() -> None:
    practice: Any = Simulated(SPEED, 3)
    slower = Comparison(Verdict.FASTER, 0.55, (0.54, 0.56), 0.01, 5)
    kept = replace(practice.rows[1], recipe="static_int8_corrected", path="c.tflite", floor=KEPT, against=slower)
    practice.rows.append(kept)
    mix(practice)
    assert practice.tried == []
    practice.rows[2] = replace(kept, nodes=NODES[:10])
    mix(practice)
    assert practice.tried != []


@pytest.mark.usefixtures("known")
def test_where_only_float_keeps_the_floor_there_is_no_mix() -> None:
    practice: Any = Simulated(SPEED, 20)
    mix(practice)
    assert not any(row.floor == KEPT for row in practice.rows if row.is_mix)


@pytest.mark.usefixtures("known")
def test_mixes_that_crash_end_the_search_in_peace() -> None:
    practice: Any = Simulated(SPEED, 5, crashes=True)
    mix(practice)
    assert len(practice.tried) <= 7


def test_nothing_is_mixed_where_no_broken_recipe_promises_anything() -> None:
    practice: Any = Simulated(SPEED, 5)
    practice.rows = practice.rows[:1]
    mix(practice)
    assert practice.tried == []


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with a tiny model and inputs for it, without labels."""
    (tmp_path / "tiny.tflite").write_bytes(mobilenet_like(8, 1, 16))
    np.savez(tmp_path / "inputs.npz", x=np.random.default_rng(0).random((24, 16, 16, 3), np.float32))
    return tmp_path


def test_sensitivities_of_a_real_model_are_measured_once_and_kept(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data, settings = str(place / "inputs.npz"), QuantizeSettings(goal=SIZE)
    practice = study_quantize(place / "tiny.tflite", place / "out", data=data, settings=settings)
    practice._begin()
    row = VariantRow("static_int8", nodes=(0, 1, 2))
    found = sensitivities(practice, row)
    assert [entry.nodes for entry in found] == [(0,), (1,), (2,)]
    assert all(0 < entry.error < 1 for entry in found)
    assert found[0].op == "CONV_2D"
    practice.close()

    monkeypatch.setattr(VariantMaker, "make", None)
    again = study_quantize(place / "tiny.tflite", place / "out", data=data, settings=settings)
    again._begin()
    assert sensitivities(again, row) == found
    again.folder.close()


def test_a_node_whose_variant_cannot_be_made_is_the_first_to_stay_float(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, only: tuple[int, ...], **__: Any) -> None:
        raise ModelError("static_int8 changes nothing" if only == (1,) else "it cannot be done")

    monkeypatch.setattr(VariantMaker, "make", fail)
    practice = study_quantize(place / "tiny.tflite", place / "out", settings=QuantizeSettings(goal=SIZE))
    practice._begin()
    found = sensitivities(practice, VariantRow("static_int8", nodes=(0, 1)))
    practice.close()
    assert [entry.error for entry in found] == [math.inf, 0]


def test_a_variant_is_probed_on_as_many_samples_as_are_next_to_nothing(place: Path) -> None:
    practice = study_quantize(place / "tiny.tflite", place / "out", data=str(place / "inputs.npz"))
    practice._begin()
    probe = Probe(practice)
    assert len(probe.outputs_of(place / "tiny.tflite")) == 12  # all of the choosing half
    assert probe.error_of(place / "tiny.tflite") == 0
    (place / "broken.tflite").write_bytes(b"TFL3")
    assert probe.error_of(place / "broken.tflite") == math.inf
    practice.close()


def test_shares_of_the_weights_add_up(place: Path) -> None:
    shares = weight_shares_by_node(read_graph(place / "tiny.tflite"))
    assert sum(shares.values()) == pytest.approx(1)


def test_a_mix_of_a_real_model_runs_and_is_chosen(place: Path) -> None:
    """Random weights hardly suffer; the floor that no sample may differ makes int4 break it, as a rule."""
    settings = QuantizeSettings(recipes=("weight_only_int4",), goal=SIZE, seconds=0.1, max_drop=0.001)
    found = quantize(
        place / "tiny.tflite", place / "out", data=str(place / "inputs.npz"), metric="cosine", settings=settings
    )
    assert found.rows[1].floor == BROKEN
    assert found.sensitivity
    kept = [row for row in found.rows if row.is_mix and row.floor == KEPT and row.path]
    assert found.chosen == (kept[0].recipe if kept else ORIGINAL)
    assert (place / "out" / "chosen.tflite").is_file()
