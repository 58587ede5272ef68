"""Weights of dense layers rounded so that errors make up for each other on the samples."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.model_builder import ModelBuilder
from variant_models import answers

from hasten.core.errors import ModelError
from hasten.variants.make import make_variant

if TYPE_CHECKING:
    from pathlib import Path

WIDTH = 64


def dense(folder: Path) -> Path:
    g = ModelBuilder()
    y = g.fully_connected(g.fully_connected(g.input("x", (1, WIDTH)), WIDTH, activation="relu"), WIDTH)
    g.output(g.fully_connected(y, 10), "y")
    return g.write(folder / "dense.tflite")


def samples(count: int, seed: int) -> list[dict[str, Any]]:
    """Inputs that vary together, as those of real models do."""
    mixed = np.random.default_rng(0).standard_normal((8, WIDTH))
    random = np.random.default_rng(seed)
    return [{"x": (random.standard_normal((1, 8)) @ mixed).astype(np.float32)} for _ in range(count)]


def test_errors_are_smaller_than_those_of_plain_rounding(tmp_path: Path) -> None:
    model, asked = dense(tmp_path), samples(50, 2)
    right = np.stack([answer["y"] for answer in answers(model, asked)])
    errors = {}
    for recipe in ("weight_only_int4", "weight_only_int4_gptq"):
        made = make_variant(model, recipe, tmp_path / f"{recipe}.tflite", samples(64, 1))
        errors[recipe] = float(np.abs(np.stack([answer["y"] for answer in answers(made.path, asked)]) - right).mean())
    assert errors["weight_only_int4_gptq"] < 0.8 * errors["weight_only_int4"]


def test_a_dense_layer_that_is_too_wide_is_refused(tmp_path: Path) -> None:
    g = ModelBuilder()
    g.output(g.fully_connected(g.input("x", (1, 8193)), 2), "y")
    model, wide = g.write(tmp_path / "wide.tflite"), [{"x": np.zeros((1, 8193), np.float32)}]
    with pytest.raises(ModelError, match="8193"):
        make_variant(model, "weight_only_int4_gptq", tmp_path / "v.tflite", wide)
