"""Kernels in a study of operators, by the real engine: kept if right and faster, refused if wrong or slower."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

import hasten
from hasten import api
from hasten.core.failure import Failure
from hasten.core.plan import Plan
from hasten.custom_kernels.build import native_toolchain
from hasten.model.build_graph import Spec
from hasten.practices.operators import run as study
from tests.model_builder import ModelBuilder

if TYPE_CHECKING:
    from pathlib import Path

    from hasten.practices.operators.facts import OperatorOptions, OperatorsFound, Tried

SHORT = api.Effort(4.0)
KERNEL = """
#include "hasten_kernel.h"
#include <math.h>
static int shapes(HastenCall* call) {{ hasten_same_shape(&call->outputs[0], &call->inputs[0]); return 0; }}
static int run(HastenCall* call) {{
  const HastenTensor* input = &call->inputs[0];
  const float* x = input->data;
  float* y = call->outputs[0].data;
  const size_t count = hasten_elements(input, 0, input->rank);
  for (size_t i = 0; i < count; ++i) {{ {body} }}
  return 0;
}}
const HastenKernel hasten_kernel_table[] = {{{{"mine", NULL, shapes, run, NULL}}, {{NULL, NULL, NULL, NULL, NULL}}}};
"""
SLOW = "volatile double t = x[i]; for (int k = 0; k < 50; ++k) t = t + 0.0; y[i] = tanhf((float)t);"


@pytest.fixture(autouse=True)
def _only_kernels(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    if isinstance(native_toolchain(), Failure):
        pytest.skip("there is no C compiler to build kernels with")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(study, "rewrites_for", lambda accelerator: ())


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """TANH, and a MIRROR_PAD that takes nearly all of the time."""
    g = ModelBuilder()
    x = g.input("x", (1, 64, 64, 16))
    paddings = g.constant(np.array([[0, 0], [8, 8], [8, 8], [0, 0]], np.int32))
    inputs, spec = [g.tanh(x), paddings], Spec((1, 80, 80, 16))
    (padded,) = g.operator("MIRROR_PAD", inputs, [spec], options_type="MirrorPadOptions", mode=0)
    g.output(padded, "y")
    return g.write(tmp_path / "m.tflite")


def studied(model: Path, options: OperatorOptions, out: Path | str = "") -> OperatorsFound:
    return api.operators(model, options=options, out=out, effort=SHORT)


def with_file(model: Path, folder: Path, body: str) -> Tried:
    source = folder / "mine.c"
    source.write_text(KERNEL.format(body=body))
    (tried,) = studied(model, api.OperatorOptions(kernel_files=((str(source), "TANH"),))).tried
    assert tried.what == "kernel-mine"
    return tried


@pytest.mark.slow
def test_an_own_kernel_that_is_faster_is_kept_with_its_library(model: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    found = studied(model, api.OperatorOptions(kernels=True), out)
    (kept,) = found.kept
    assert (kept.what, kept.nodes, kept.max_error) == ("kernel-mirror-pad", (1,), 0.0)
    assert found.final is not None
    assert found.final.ratio < 1
    (library,) = found.kernels
    assert library.startswith(str(out.resolve() / "kernels"))
    x = np.random.default_rng(0).normal(size=(1, 64, 64, 16)).astype(np.float32)
    with hasten.Runner(model) as original, hasten.Runner(out / "model.tflite", Plan(kernels=(library,))) as changed:
        np.testing.assert_array_equal(original(x), changed(x))


@pytest.mark.slow
def test_a_wrong_kernel_is_refused_with_the_input(model: Path, tmp_path: Path) -> None:
    tried = with_file(model, tmp_path, "y[i] = x[i] < 2.0f ? tanhf(x[i]) : 1.0f;")
    assert not tried.kept
    assert tried.why.code == "kernel.wrong"
    assert tried.of_user
    assert tried.is_faulty
    assert tried.comparison is None, "it was not even timed"
    shown = np.load(tried.why.facts["file"])
    assert {"input_0", "expected_0", "got_0"} <= set(shown)


@pytest.mark.slow
def test_a_right_kernel_that_is_slower_is_not_kept(model: Path, tmp_path: Path) -> None:
    tried = with_file(model, tmp_path, SLOW)
    assert not tried.kept
    assert tried.is_equal
    assert tried.comparison is not None
    assert not tried.is_faster


def test_a_kernel_file_says_what_it_replaces(model: Path, tmp_path: Path) -> None:
    source = tmp_path / "mine.c"
    source.write_text(KERNEL.format(body="y[i] = x[i];"))
    with pytest.raises(hasten.UsageError, match=r"which nodes mine\.c replaces"):
        studied(model, api.OperatorOptions(kernel_files=((str(source), ""),)))


def test_nodes_that_the_model_has_not_are_named(model: Path, tmp_path: Path) -> None:
    source = tmp_path / "mine.c"
    source.write_text(KERNEL.format(body="y[i] = x[i];"))
    with pytest.raises(hasten.UsageError, match=r"m\.tflite has no nodes that mine\.c could replace"):
        studied(model, api.OperatorOptions(kernel_files=((str(source), "GELU"),)))


def test_without_a_compiler_it_is_a_sentence(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "/nowhere/cc")
    with pytest.raises(hasten.TargetError, match="/nowhere/cc was not found"):
        studied(model, api.OperatorOptions(kernels=True))
