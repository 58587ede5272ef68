"""The bar of a search for variants: it moves with each step, and is not nearly full while much is still to come."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np
import pytest

from hasten.core.quantization import BROKEN, SIZE
from hasten.library import quantize
from hasten.model.example_models import mobilenet_like
from hasten.practices.quantize_course import Course
from hasten.practices.quantize_records import QuantizeSettings

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("mixes", [True, False])
def test_each_step_moves_the_bar_and_none_but_the_last_fills_it(mixes: bool) -> None:
    course = Course(mixes=mixes)
    # Recipes, timing, a search for a mix, the other half, and another search as the first did not hold there.
    shares = [0.0, 0.1, 0.1, 0.4, 0.5, *[0.75] * 60, 0.8, 0.9, *[0.75] * 60, 0.8, 0.9]
    places = [course.step(share) for share in shares]
    assert all(later > earlier for earlier, later in itertools.pairwise(places))
    assert places[-1] < 1
    assert course.step(1.0) == 1


def test_a_race_moves_it_by_its_time() -> None:
    course = Course(mixes=True)
    begin = course.step(0.5)
    places = [course.timing(begin, spent) for spent in (0.0, 0.5, 1.0, 7.0)]
    assert places[0] == begin < places[1] < places[2] == places[3] < course.step(0.75)


def test_it_moves_during_a_real_search_for_a_mix(tmp_path: Path) -> None:
    (tmp_path / "tiny.tflite").write_bytes(mobilenet_like(8, 1, 16))
    np.savez(tmp_path / "inputs.npz", x=np.random.default_rng(0).random((24, 16, 16, 3), np.float32))
    told: list[tuple[float, str]] = []
    found = quantize(
        tmp_path / "tiny.tflite",
        tmp_path / "out",
        data=str(tmp_path / "inputs.npz"),
        metric="cosine",
        settings=QuantizeSettings(recipes=("weight_only_int4",), goal=SIZE, seconds=0.1, max_drop=0.001),
        progress=lambda share, text: told.append((share, text)),
    )
    assert found.rows[1].floor == BROKEN, "or else there is no search"
    searching = [share for share, text in told if "sensitivity" in text]
    assert len(searching) == len(set(searching)) > 2
    assert searching[0] < 0.7
    assert sorted(share for share, _ in told) == [share for share, _ in told]
