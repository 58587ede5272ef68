"""A wrong kernel is refused with the input that shows it; a right one passes, and says how it was checked."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from hasten.core.failure import Failure
from hasten.core.phrases import Phrasebook
from hasten.custom_kernels.check import CheckRequest, KernelCheck, check_kernel
from hasten.custom_kernels.words import PHRASES, REFUSES, SHAPE, WRONG
from hasten.targets.local import LocalTarget
from tests.model_builder import ModelBuilder
from tests.unit.custom_kernels import kernel_models as models

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from hasten.custom_kernels.build import BuiltLibrary

    BuildKernel = Callable[[str, str], BuiltLibrary]

# HARD_SWISH, with a place for a fault.
SWISH = """
#include "hasten_kernel.h"
static int shapes(HastenCall* call) {{ {shapes} return 0; }}
static int run(HastenCall* call) {{
  const HastenTensor* input = &call->inputs[0];
  const float* x = input->data;
  float* y = call->outputs[0].data;
  const size_t count = hasten_elements(input, 0, input->rank);
  for (size_t i = 0; i < count; ++i) {{
    float gate = x[i] + 3.0f;
    {fault}
    if (gate > 6.0f) gate = 6.0f;
    y[i] = x[i] * gate / 6.0f;
  }}
  return {status};
}}
const HastenKernel hasten_kernel_table[] = {{{{"swish", NULL, shapes, run, NULL}}, {{NULL, NULL, NULL, NULL, NULL}}}};
"""
CLAMP = "if (!(gate > 0.0f)) gate = 0.0f;"
SAME = "hasten_same_shape(&call->outputs[0], &call->inputs[0]);"


def swish(*, fault: str = CLAMP, shapes: str = SAME, status: str = "0") -> str:
    return SWISH.format(fault=fault, shapes=shapes, status=status)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A convolution, HARD_SWISH, and a sum with the input: the kernel's node stands inside."""
    g = ModelBuilder()
    x = g.input("x", (-1, 6, 6, 3))
    g.output(g.add(g.hard_swish(g.relu(x)), x), "y")
    path = tmp_path / "model.tflite"
    path.write_bytes(g.build())
    return path


def checked(model: Path, library: BuiltLibrary, folder: Path) -> KernelCheck | Failure:
    (offer,) = models.user_offers(model, "swish", "HARD_SWISH")
    return check_kernel(model, offer, str(library.path), CheckRequest(LocalTarget(), folder))


def test_a_right_kernel_passes(model: Path, build_kernel: BuildKernel, tmp_path: Path) -> None:
    found = checked(model, build_kernel("right", swish()), tmp_path / "check")
    assert isinstance(found, KernelCheck), found
    assert found.passed, found
    assert found.cases > 10
    assert found.shapes > 1, "other shapes were checked as well"
    assert found.refused_shapes == 0
    assert found.largest_error < 1e-5
    assert not (tmp_path / "check").exists(), "there is nothing to show"


def test_a_wrong_kernel_is_refused_with_the_input(model: Path, build_kernel: BuildKernel, tmp_path: Path) -> None:
    found = checked(model, build_kernel("unclamped", swish(fault="")), tmp_path / "check")
    assert isinstance(found, KernelCheck), found
    assert not found.passed
    assert found.wrong is not None
    assert found.wrong.code == WRONG
    facts = found.wrong.facts
    saved = np.load(facts["file"])
    place = tuple(map(int, facts["place"].split(", ")))
    assert repr(float(saved["expected_0"][place])) == facts["expected"]
    assert repr(float(saved["got_0"][place])) == facts["got"]
    assert saved["input_0"][place] < -3, "the input shows the fault: the gate is not clamped there"
    assert "is wrong" in Phrasebook(PHRASES).text(found.wrong)


def test_a_kernel_that_fails_where_the_original_does_not(
    model: Path, build_kernel: BuildKernel, tmp_path: Path
) -> None:
    found = checked(model, build_kernel("failing", swish(status='hasten_refuse(call, "no reason")')), tmp_path / "c")
    assert isinstance(found, Failure), "it does not survive its first run"
    assert "swish: no reason" in found.message


def test_a_kernel_that_fails_on_special_values_only(model: Path, build_kernel: BuildKernel, tmp_path: Path) -> None:
    status = 'x[0] != x[0] || x[count - 1] == 0.5f ? hasten_refuse(call, "equal values") : 0'
    found = checked(model, build_kernel("picky", swish(status=status)), tmp_path / "check")
    assert isinstance(found, KernelCheck), found
    assert found.wrong is not None
    assert found.wrong.code == REFUSES
    assert "equal values" in found.wrong.facts["why"]


def test_a_kernel_that_crashes_costs_the_check_only(model: Path, build_kernel: BuildKernel, tmp_path: Path) -> None:
    fault = CLAMP + " if (x[i] == 0.5f) *(volatile int*)0 = 1;"
    found = checked(model, build_kernel("crashing", swish(fault=fault)), tmp_path / "check")
    assert isinstance(found, KernelCheck), found
    assert found.wrong is not None
    assert found.wrong.code == REFUSES


def test_a_wrong_shape_is_named(model: Path, build_kernel: BuildKernel, tmp_path: Path) -> None:
    shapes = SAME + " call->outputs[0].shape[1] += 1;"
    found = checked(model, build_kernel("shape", swish(shapes=shapes)), tmp_path / "check")
    assert isinstance(found, KernelCheck), found
    assert found.wrong is not None
    assert found.wrong.code == SHAPE
    assert (found.wrong.facts["expected"], found.wrong.facts["got"]) == ([1, 6, 6, 3], [1, 7, 6, 3])


def test_a_kernel_for_one_shape_says_so(model: Path, build_kernel: BuildKernel, tmp_path: Path) -> None:
    shapes = 'if (call->inputs[0].shape[0] != 1) return hasten_refuse(call, "one image only"); ' + SAME
    found = checked(model, build_kernel("single", swish(shapes=shapes)), tmp_path / "check")
    assert isinstance(found, KernelCheck), found
    assert found.passed
    assert found.refused_shapes > 0


def test_a_sign_of_zero_counts_where_bits_must_be_equal(
    build_kernel: BuildKernel, tmp_path: Path, own_library: str
) -> None:
    """CUMSUM begins at +0, so that -0 becomes 0: a kernel that copies the first row is wrong by one bit."""
    x = np.ones((3, 5), np.float32)
    path = tmp_path / "cumsum.tflite"
    path.write_bytes(models.cumsum(x, 0, exclusive=False, reverse=False))
    (offer,) = models.own_offers(path)
    request = CheckRequest(LocalTarget(), tmp_path / "check")
    found = check_kernel(path, offer, own_library, request)
    assert isinstance(found, KernelCheck), found
    assert found.passed, found
    assert found.largest_error == 0
    planted = """
    #include "hasten_kernel.h"
    static int shapes(HastenCall* call) { hasten_same_shape(&call->outputs[0], &call->inputs[0]); return 0; }
    static int run(HastenCall* call) {
      const float* x = call->inputs[0].data;
      float* y = call->outputs[0].data;
      const int rows = call->inputs[0].shape[0], columns = call->inputs[0].shape[1];
      for (int i = 0; i < rows * columns; ++i) y[i] = i < columns ? x[i] : y[i - columns] + x[i];
      return 0;
    }
    const HastenKernel hasten_kernel_table[] = {
        {"hasten.cumsum", NULL, shapes, run, NULL}, {NULL, NULL, NULL, NULL, NULL}};
    """
    found = check_kernel(path, offer, str(build_kernel("copying", planted).path), request)
    assert isinstance(found, KernelCheck), found
    assert found.wrong is not None
    assert (found.wrong.facts["expected"], found.wrong.facts["got"]) == ("0.0", "-0.0")
