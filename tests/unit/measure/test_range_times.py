"""Ranges of nodes that are cut out and timed: they add up to a run, and the one that takes long is found."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from tests.model_builder import ModelBuilder

from hasten.core.plan import Workload
from hasten.measure.opening import open_model
from hasten.measure.range_times import range_times
from hasten.measure.rounds import no_progress
from hasten.targets.local import LocalTarget

if TYPE_CHECKING:
    from pathlib import Path

    from hasten.measure.range_times import RangeTime

RUN_MS = 10.0
HEAVY = 5


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """Seven small operators, and a large one among them."""
    g = ModelBuilder()
    x = g.input("x", (1, 24, 24, 16))
    for number in range(8):
        x = g.conv2d(x, 16, 9) if number == HEAVY else g.tanh(x)
    g.output(x, "y")
    return g.write(tmp_path / "m.tflite")


def ranges(model: Path, workload: Workload = Workload()) -> tuple[RangeTime, ...]:
    candidate, graph = open_model(model)
    return range_times(LocalTarget(), replace(candidate, workload=workload), graph, RUN_MS, 4.0, no_progress)


def test_the_longest_range_has_the_large_operator(model: Path) -> None:
    found = ranges(model)
    assert sum(one.ms for one in found) == pytest.approx(RUN_MS)
    assert sum(one.share for one in found) == pytest.approx(1.0)
    nodes = [node for one in found for node in range(one.first, one.last + 1)]
    assert nodes == list(range(8))
    longest = max(found, key=lambda one: one.ms)
    assert longest.first <= HEAVY <= longest.last
    assert longest.last - longest.first < 4
    assert any("CONV_2D" in kind for kind in longest.operators)


def test_other_shapes_than_those_of_the_file_are_not_cut(model: Path) -> None:
    assert ranges(model, Workload(shapes=(("x", (2, 24, 24, 16)),))) == ()
