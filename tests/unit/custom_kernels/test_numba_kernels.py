"""Kernels in Python: declared by their types, compiled by numba where it is installed, and right in the model."""

from __future__ import annotations

import builtins
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import hasten
from hasten.core.errors import AcceleratorError, UsageError
from hasten.core.failure import NOT_INSTALLED, Failure
from hasten.core.plan import Plan
from hasten.custom_kernels.build import build_python
from hasten.engine.kernel_libraries import KernelLibrary
from hasten.engine.numba_kernels import ArrayType, kernels_in, output_shapes
from tests.model_builder import ModelBuilder
from tests.unit.custom_kernels import kernel_models as models

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SOURCE = """
import hasten


@hasten.kernel("HARD_SWISH", "float32[:,:,:,:], float32[:,:,:,:]")
def swish(x, y):
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            for k in range(x.shape[2]):
                for c in range(x.shape[3]):
                    value = x[i, j, k, c]
                    y[i, j, k, c] = value * min(max(value + 3, 0), 6) / 6
"""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "kernels.py"
    path.write_text(SOURCE)
    return path


@pytest.fixture
def model(tmp_path: Path) -> Path:
    g = ModelBuilder()
    x = g.input("x", (1, 3, 4, 2))
    g.output(g.hard_swish(x), "y")
    path = tmp_path / "model.tflite"
    path.write_bytes(g.build())
    return path


def test_a_marked_function_is_found(source: Path) -> None:
    (found,) = kernels_in(source)
    assert (found.name, found.replaces) == ("swish", "HARD_SWISH")
    assert found.inputs == found.outputs == (ArrayType("float32", 4),)
    assert output_shapes(found, [(1, 2, 3, 4)]) == ((1, 2, 3, 4),)


@pytest.mark.parametrize(
    "types", ["", "float32", "float32[:,:]", "float32[:,:], float32", "text[:], float32[:]", "float32[3], float32[:]"]
)
def test_types_that_cannot_be_read(types: str) -> None:
    with pytest.raises(UsageError):
        hasten.kernel("ADD", types)


def test_shapes_of_outputs_are_the_users_to_give() -> None:
    def halved(shape: tuple[int, ...]) -> tuple[int, ...]:
        return (shape[0] // 2, *shape[1:])

    def function(x: Any, y: Any) -> None: ...

    found: Any = hasten.kernel("POOL", "float32[:,:], float32[:,:]", output_shape=halved)(function)
    assert output_shapes(found.hasten_kernel, [(6, 2)]) == ((3, 2),)
    wrong: Any = hasten.kernel("POOL", "float32[:,:], float32[:,:]", output_shape=lambda shape: (1,))(function)
    with pytest.raises(UsageError, match="returned"):
        output_shapes(wrong.hasten_kernel, [(6, 2)])


@pytest.mark.parametrize(
    ("text", "said"), [("x = 1\n", "has no kernel"), ("1 / 0\n", "ZeroDivisionError"), ("def\n", "SyntaxError")]
)
def test_files_without_a_kernel(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "kernels.py"
    path.write_text(text)
    with pytest.raises(UsageError, match=said):
        kernels_in(path)


def test_numba_that_is_missing_is_a_sentence(source: Path, shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    setting = build_python(source, shared)
    assert not isinstance(setting, Failure)
    true_import: Callable[..., Any] = builtins.__import__

    def without_numba(name: str, *arguments: Any, **more: Any) -> Any:
        if name == "numba":
            raise ImportError(name)
        return true_import(name, *arguments, **more)

    monkeypatch.setattr(builtins, "__import__", without_numba)
    with pytest.raises(AcceleratorError, match="need numba") as caught:
        KernelLibrary(setting)
    assert (caught.value.code, caught.value.hint) == (NOT_INSTALLED, "Run pip install 'hasten[numba]'.")


def test_a_kernel_in_python_runs_as_native_code(source: Path, model: Path, shared: Path, tmp_path: Path) -> None:
    pytest.importorskip("numba")
    setting = build_python(source, shared)
    assert not isinstance(setting, Failure)
    (found,) = kernels_in(source)
    offers = models.user_offers(model, found.name, found.replaces, (*found.inputs, *found.outputs))
    changed = models.with_kernels(model, offers, tmp_path / "changed.tflite")
    x = np.random.default_rng(0).normal(0, 4, (1, 3, 4, 2)).astype(np.float32)
    expected = models.run_model(model, models.BUILTIN, {"x": x})
    got = models.run_model(changed, Plan(kernels=(setting,)), {"x": x})
    np.testing.assert_allclose(got, expected, rtol=1e-6, atol=1e-6)


def test_what_numba_cannot_compile_is_named(shared: Path, tmp_path: Path) -> None:
    pytest.importorskip("numba")
    path = tmp_path / "kernels.py"
    path.write_text(SOURCE.replace("min(max(value + 3, 0), 6)", "unknown(value)"))
    setting = build_python(path, shared)
    assert not isinstance(setting, Failure)
    with pytest.raises(UsageError, match="numba cannot compile the kernel swish"):
        KernelLibrary(setting)
