"""Variants made in a process of its own: what comes back, what trouble is told, and a crash that costs one variant."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import numpy as np
import pytest
from tests.example_models import mobilenet_like
from tests.unit.search.searching import store

from hasten.core.errors import DataError, ModelError
from hasten.core.failure import Failure
from hasten.core.floor import FloorState
from hasten.data.request import Data
from hasten.search.folder import QUANTIZE
from hasten.search.quantizing import run
from hasten.search.settings import SearchSettings
from hasten.variants.make import make_variant
from hasten.variants.maker_process import VariantMaker
from hasten.variants.selection import NodeChoice

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import numpy.typing as npt


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.tflite"
    path.write_bytes(mobilenet_like(8, 1, 16))
    return path


@pytest.fixture
def maker(model: Path) -> Iterator[VariantMaker]:
    made = VariantMaker(model)
    yield made
    made.close()


@pytest.fixture
def samples(model: Path) -> list[dict[str, npt.NDArray[np.float32]]]:
    from hasten.model.reader import read_graph

    signature = read_graph(model).signature(None)
    assert signature is not None
    values = np.random.default_rng(0).random((40, 1, 16, 16, 3), np.float32)
    return [dict.fromkeys(signature.inputs, value) for value in values]


def test_the_file_is_the_same_as_one_made_in_this_process(
    maker: VariantMaker, model: Path, samples: list[dict[str, npt.NDArray[np.float32]]], tmp_path: Path
) -> None:
    for recipe, given in (("float16", None), ("static_int8", samples), ("static_int8_min_max", samples)):
        there = maker.make(recipe, tmp_path / "there.tflite", given, but=[1])
        here = make_variant(model, recipe, tmp_path / "here.tflite", given, choice=NodeChoice(but=[1]))
        assert there.path.read_bytes() == here.path.read_bytes()
        assert (there.nodes, there.notes, there.recipe) == (here.nodes, here.notes, here.recipe)


def test_trouble_comes_back_as_the_error_that_it_was(maker: VariantMaker, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="needs calibration data"):
        maker.make("static_int8", tmp_path / "out.tflite", [])
    with pytest.raises(ModelError, match="changes nothing"):
        maker.make("float16", tmp_path / "out.tflite", only=[])
    assert maker.prune(0.5, tmp_path / "out.tflite", encode=False).recipe == "pruned_50"


def test_a_crash_is_told_and_the_next_variant_is_made(
    maker: VariantMaker, samples: list[dict[str, npt.NDArray[np.float32]]], tmp_path: Path
) -> None:
    maker.make("static_int8", tmp_path / "out.tflite", samples)
    assert maker.pid is not None
    os.kill(maker.pid, signal.SIGSEGV)
    with pytest.raises(ModelError, match="SIGSEGV"):
        maker.make("static_int8", tmp_path / "out.tflite", samples)
    assert maker.make("static_int8", tmp_path / "out.tflite", samples).nodes


@pytest.mark.slow
def test_a_crash_of_the_quantizer_costs_one_row_of_a_search(model: Path, tmp_path: Path) -> None:
    colors = np.random.default_rng(0).normal(0, 4, (24, 1, 1, 3))  # noise alone would always get the same answer
    np.savez(tmp_path / "inputs.npz", x=(colors * np.ones((1, 16, 16, 1))).astype(np.float32))
    recipes = ("float16", "dynamic_int8", "weight_only_int8")
    settings = SearchSettings(recipes=recipes, mix=False, max_drop=0.5)
    work = store(model, tmp_path / "out", Data(str(tmp_path / "inputs.npz")), settings, rules=QUANTIZE)

    def kill(share: float, text: str) -> None:
        if text.startswith("making dynamic_int8"):
            assert work.maker.pid is not None
            os.kill(work.maker.pid, signal.SIGKILL)

    found = run(work, 0.1, kill)
    assert not isinstance(found, Failure)
    trials = {trial.variant: trial for trial in found.trials}
    assert [trials[name].floor for name in recipes] == [FloorState.KEPT, FloorState.FAILED, FloorState.KEPT]
    assert "killed" in trials["dynamic_int8"].why.facts["message"]
    assert work.maker.pid is None
