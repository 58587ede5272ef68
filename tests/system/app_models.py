"""The models that the applications run, made by hasten's own builder."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests import example_models
from tests.model_builder import ModelBuilder

if TYPE_CHECKING:
    from pathlib import Path


def make_models(folder: Path) -> Path:
    """Write all of them into a folder."""
    made = {
        "small": example_models.mobilenet_like(16, 3, 64),
        "threads": example_models.mobilenet_like(16, 3, 64, seed=1),
        "fight": example_models.mobilenet_like(16, 3, 64, seed=2),
        "conv": example_models.repeated(4, size=64),
        "deep": example_models.repeated(40, size=8, channels=16),
        "wide": _adds((1, 1 << 18)),
        "square": _adds((1 << 9, 1 << 9)),
        "two": _two_outputs(),
        "cold": example_models.stream(64),
    }
    for name, content in made.items():
        (folder / f"{name}.tflite").write_bytes(content)
    return folder


def _adds(shape: tuple[int, ...]) -> bytes:
    """A large input and output, and next to no work."""
    g = ModelBuilder()
    x = g.input("x", shape)
    g.output(g.add(x, x), "y")
    return g.build()


def _two_outputs() -> bytes:
    g = ModelBuilder()
    x = g.input("x", (1 << 9, 1 << 9))
    small = g.input("small", (1, 4))
    g.output(g.add(small, small), "score")
    g.output(g.add(x, x), "mask")
    return g.build()
