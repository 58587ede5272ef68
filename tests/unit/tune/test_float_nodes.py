"""Variants that leave some nodes float: made by a recipe under a name of their own, and found again by a later run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from hasten.core.plan import Plan
from hasten.library import study_tune
from hasten.model.example_models import mobilenet_like
from hasten.tune.settings import TuneSettings

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from hasten.tune.workshop import Workshop

NAME = "static_int8_but_slow_1"


@pytest.fixture
def workshop(tmp_path: Path) -> Iterator[Workshop]:
    (tmp_path / "tiny.tflite").write_bytes(mobilenet_like(8, 1, 16))
    np.savez(tmp_path / "inputs.npz", x=np.random.default_rng(0).random((24, 16, 16, 3), np.float32))
    tuning = study_tune(
        tmp_path / "tiny.tflite", tmp_path / "out", data=str(tmp_path / "inputs.npz"), settings=TuneSettings()
    )
    yield tuning.workshop
    tuning.close()


def test_the_nodes_stay_float_and_the_rest_does_not(workshop: Workshop) -> None:
    whole = workshop.make("static_int8")
    first, *_ = whole.nodes
    mixed = workshop.make(NAME, "static_int8", (first,))
    assert mixed.recipe == NAME
    assert set(mixed.nodes) == set(whole.nodes) - {first}
    assert mixed.float_nodes == (first,)
    assert mixed.sha256 != whole.sha256


def test_a_variant_is_made_once(workshop: Workshop) -> None:
    [first, *_] = workshop.make("static_int8").nodes
    made = workshop.make(NAME, "static_int8", (first,))
    file = workshop.folder.place_of(NAME)
    before = file.stat().st_mtime_ns
    assert workshop.make(NAME, "static_int8", (first,)) == made
    assert file.stat().st_mtime_ns == before


def test_slow_nodes_are_nodes_of_the_variant_and_never_all(workshop: Workshop) -> None:
    row = workshop.make("static_int8")
    slow = workshop.slow_nodes("static_int8", Plan())
    assert set(slow) < set(row.nodes) or not slow
