"""Variants that leave some nodes float: made by a recipe under a name of their own, and found again by a later run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from hasten.api import Data
from hasten.core.plan import Plan
from hasten.core.trial import Purpose
from hasten.search.variant_store import VariantRequest
from tests.example_models import mobilenet_like
from tests.unit.search.searching import store as opened

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from hasten.search.variant_store import VariantStore


@pytest.fixture
def store(tmp_path: Path) -> Iterator[VariantStore]:
    (tmp_path / "tiny.tflite").write_bytes(mobilenet_like(8, 1, 16))
    np.savez(tmp_path / "inputs.npz", x=np.random.default_rng(0).random((24, 16, 16, 3), np.float32))
    work = opened(tmp_path / "tiny.tflite", tmp_path / "out", Data(str(tmp_path / "inputs.npz")))
    yield work
    work.close()


def without(*nodes: int) -> VariantRequest:
    return VariantRequest("static_int8", nodes, Purpose.SLOW_NODES, "static_int8")


def test_the_nodes_stay_float_and_the_rest_does_not(store: VariantStore) -> None:
    whole = store.make(VariantRequest("static_int8"))
    first, *_ = whole.nodes
    mixed = store.make(without(first))
    assert mixed.variant == "int8+float1"
    assert (mixed.recipe, mixed.parent, mixed.purpose) == ("static_int8", "static_int8", Purpose.SLOW_NODES)
    assert set(mixed.nodes) == set(whole.nodes) - {first}
    assert mixed.float_nodes == (first,)
    assert mixed.sha256 != whole.sha256


@pytest.mark.slow
def test_a_variant_is_made_once_and_other_nodes_have_another_name(store: VariantStore) -> None:
    first, second, *_ = store.make(VariantRequest("static_int8")).nodes
    made = store.make(without(first))
    before = store.folder.place_of(made.variant).stat().st_mtime_ns
    assert store.make(without(first)) == made
    assert store.folder.place_of(made.variant).stat().st_mtime_ns == before
    assert store.make(without(second)).variant == "int8+float1-2"


@pytest.mark.slow
def test_slow_nodes_are_nodes_of_the_variant_and_never_all(store: VariantStore) -> None:
    whole = store.make(VariantRequest("static_int8"))
    assert all(set(slow) < set(whole.nodes) for slow in store.slow_nodes(whole, Plan()))
