"""A cache costs time or saves it, and never changes what a model computes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from hasten.core.failure import RunnerFailed
from hasten.core.plan import Plan, Workload
from tests.model_builder import ModelBuilder

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from hasten.targets.base import Target

X = np.linspace(-1, 1, 64, dtype=np.float32).reshape(1, 64)


def dense(path: Path, seed: int) -> Path:
    """A model of always the same structure, with other weights for another seed."""
    g = ModelBuilder(seed)
    g.output(g.fully_connected(g.input("x", (1, 64)), 64), "y")
    path.write_bytes(g.build())
    return path


def computed(target: Target, model: Path, cache: str) -> NDArray[np.float32]:
    with target.start(Plan(cache=cache)) as runner:
        runner.load(model, Workload())
        (output,) = runner.evaluate([X.tobytes()])
    return np.array(np.frombuffer(output, np.float32))


def test_models_of_one_structure_share_no_weights(target: Target, tmp_path: Path) -> None:
    first, second = dense(tmp_path / "first.tflite", 1), dense(tmp_path / "second.tflite", 2)
    expected = computed(target, second, "")
    cache = str(tmp_path / "cache")
    computed(target, first, cache)
    np.testing.assert_array_equal(computed(target, second, cache), expected)


def test_damaged_weights_are_packed_anew(target: Target, tmp_path: Path) -> None:
    model, cache = dense(tmp_path / "model.tflite", 1), tmp_path / "cache"
    expected = computed(target, model, str(cache))
    (weights,) = cache.rglob("*.xnnpack_cache")
    content = bytearray(weights.read_bytes())
    for place in range(len(content) // 3, 2 * len(content) // 3, 97):
        content[place] ^= 0x40
    weights.write_bytes(content)
    np.testing.assert_array_equal(computed(target, model, str(cache)), expected)
    assert weights.read_bytes() != bytes(content)


def test_a_cache_that_cannot_be_made_is_named(target: Target, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(RunnerFailed, match="cannot be used: Not a directory"):
        computed(target, dense(tmp_path / "model.tflite", 1), str(tmp_path / "file" / "cache"))
