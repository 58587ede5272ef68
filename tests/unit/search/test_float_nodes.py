"""Variants that leave some nodes float: made by a recipe under a name of their own, and found again by a later run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from hasten.api import Data
from hasten.core.plan import Plan
from hasten.core.trial import Purpose
from hasten.search.workshop import Order
from tests.example_models import mobilenet_like
from tests.unit.search.searching import workshop as opened

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from hasten.search.workshop import Workshop


@pytest.fixture
def workshop(tmp_path: Path) -> Iterator[Workshop]:
    (tmp_path / "tiny.tflite").write_bytes(mobilenet_like(8, 1, 16))
    np.savez(tmp_path / "inputs.npz", x=np.random.default_rng(0).random((24, 16, 16, 3), np.float32))
    work = opened(tmp_path / "tiny.tflite", tmp_path / "out", Data(str(tmp_path / "inputs.npz")))
    yield work
    work.close()


def without(*nodes: int) -> Order:
    return Order("static_int8", nodes, Purpose.SLOW_NODES, "static_int8")


def test_the_nodes_stay_float_and_the_rest_does_not(workshop: Workshop) -> None:
    whole = workshop.make(Order("static_int8"))
    first, *_ = whole.nodes
    mixed = workshop.make(without(first))
    assert mixed.variant == "int8+float1"
    assert (mixed.recipe, mixed.parent, mixed.purpose) == ("static_int8", "static_int8", Purpose.SLOW_NODES)
    assert set(mixed.nodes) == set(whole.nodes) - {first}
    assert mixed.float_nodes == (first,)
    assert mixed.sha256 != whole.sha256


def test_a_variant_is_made_once_and_other_nodes_have_another_name(workshop: Workshop) -> None:
    first, second, *_ = workshop.make(Order("static_int8")).nodes
    made = workshop.make(without(first))
    before = workshop.folder.place_of(made.variant).stat().st_mtime_ns
    assert workshop.make(without(first)) == made
    assert workshop.folder.place_of(made.variant).stat().st_mtime_ns == before
    assert workshop.make(without(second)).variant == "int8+float1-2"


def test_slow_nodes_are_nodes_of_the_variant_and_never_all(workshop: Workshop) -> None:
    whole = workshop.make(Order("static_int8"))
    slow = workshop.slow_nodes(whole, Plan())
    assert set(slow) < set(whole.nodes) or not slow
