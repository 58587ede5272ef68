"""Kernels: what hasten's own kernels bring against LiteRT's built-in ones, and what a call of a custom kernel costs.

Each kind runs on 262,144 floats, on one thread, in blocks that take turns in one process. Wanted: at least 10 times
faster on the seven kinds that only copy or divide, with equal bits; layer normalization in at most 0.65 of XNNPACK's
time for the chain; at most 1 µs for LiteRT and the glue around a kernel that does nothing; and `hasten operators`
refuses a SiLU kernel that is right, but splits a network of convolutions into a partition for each of them.
"""

from __future__ import annotations

import statistics
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from tests.model_builder import ModelBuilder
from tests.unit.custom_kernels import kernel_models as models

from benchmarks.common import record
from hasten import api
from hasten.core.failure import Failure
from hasten.core.plan import Plan, Workload
from hasten.custom_kernels.build import build, build_own
from hasten.custom_kernels.cases import values_for
from hasten.engine.compiled import CompiledModel

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    Inputs = Mapping[str, NDArray[Any]]

_ROUNDS, _BLOCK_S = 15, 0.04
_TIMES_FASTER: Final = 10.0
_LAYER_NORM: Final = 0.65
_MOST_GLUE_US: Final = 1.0
_CHAIN: Final = 64
_NOTHING: Final = b"""
#include "hasten_kernel.h"
static int shapes(HastenCall* call) { hasten_same_shape(&call->outputs[0], &call->inputs[0]); return 0; }
static int run(HastenCall* call) { (void)call; return 0; }
const HastenKernel hasten_kernel_table[] = {{"nothing", NULL, shapes, run, NULL}, {NULL, NULL, NULL, NULL, NULL}};
"""
_SILU: Final = """
#include "hasten_kernel.h"
#include <string.h>
static int shapes(HastenCall* call) { hasten_same_shape(&call->outputs[0], &call->inputs[0]); return 0; }
/* e^x by a polynomial, which the compiler makes vectors of. */
static inline float power(float x) {
  x = x > 87.0f ? 87.0f : x;
  x = x < -87.0f ? -87.0f : x;
  const float shifted = x * 1.44269504f + 0x1.8p23f, whole = shifted - 0x1.8p23f;
  const float rest = x - whole * 0.693359375f + whole * 2.12194440e-4f;
  float sum = 1.9875691500e-4f * rest + 1.3981999507e-3f;
  sum = (sum * rest + 8.3334519073e-3f) * rest + 4.1665795894e-2f;
  sum = (sum * rest + 1.6666665459e-1f) * rest + 5.0000001201e-1f;
  uint32_t bits;
  memcpy(&bits, &shifted, sizeof bits);
  bits = (bits + 127u) << 23;
  float scale;
  memcpy(&scale, &bits, sizeof scale);
  return (sum * rest * rest + rest + 1.0f) * scale;
}
static int run(HastenCall* call) {
  const HastenTensor* input = &call->inputs[0];
  const float* restrict x = input->data;
  float* restrict y = call->outputs[0].data;
  const size_t count = hasten_elements(input, 0, input->rank);
  for (size_t i = 0; i < count; ++i) y[i] = x[i] / (1.0f + power(-x[i]));
  return 0;
}
const HastenKernel hasten_kernel_table[] = {{"silu", NULL, shapes, run, NULL}, {NULL, NULL, NULL, NULL, NULL}};
"""


def main() -> int:
    """Every kind in turn."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        own = _library(build_own(folder))
        figures: dict[str, Any] = {}
        for kind, (content, inputs) in _kinds().items():
            figures[kind] = _against_builtin(content, inputs, own, folder)
            print(f"{kind}: {figures[kind]}", flush=True)
        copied = list(figures.values())
        figures["layer_norm_ratio"] = norm = _layer_norm(own, folder)
        figures["glue_us"] = glue = _glue(_library(build("nothing", {"nothing.c": _NOTHING}, folder)), folder)
        figures["silu"] = silu = _silu(folder)
    passed = all(entry["equal"] and entry["times_faster"] >= _TIMES_FASTER for entry in copied)
    passed = passed and norm <= _LAYER_NORM and glue <= _MOST_GLUE_US and silu["refused"]
    return record("kernels", figures, passed=passed)


def _kinds() -> dict[str, tuple[bytes, Inputs]]:
    image = values_for("normal", "float32", (1, 128, 128, 16), 0, 1)
    flat = values_for("normal", "float32", (512, 512), 0, 1)
    divisor = values_for("nonzero", "float32", (512, 512), 1, 1)
    indices = np.random.default_rng(0).permutation(512).astype(np.int32)
    paddings = np.array([[0, 0], [4, 4], [4, 4], [0, 0]], np.int32)
    ends = ((0, 0, 0, 0), (1, 128, 128, 16), (1, 1, 2, 1))
    return {
        "strided_slice": (models.strided_slice(image, *ends, (1, 128, 64, 16)), {"x": image}),
        "mirror_pad": (models.mirror_pad(image, paddings, symmetric=False), {"x": image}),
        "cumsum": (models.cumsum(flat, 0, exclusive=False, reverse=False), {"x": flat}),
        "arg_max": (models.arg_max(image, 1, "int32"), {"x": image}),
        "gather": (models.gather(flat, indices, constant=True), {"x": flat}),
        "floor_div": (models.floor_operator("FLOOR_DIV", flat, divisor), {"a": flat, "b": divisor}),
        "floor_mod": (models.floor_operator("FLOOR_MOD", flat, divisor), {"a": flat, "b": divisor}),
    }


def _against_builtin(content: bytes, inputs: Inputs, library: str, folder: Path) -> dict[str, Any]:
    path, changed = models.with_own_kernels(content, folder)
    plans = (Plan(), Plan(kernels=(library,)))
    outputs = [models.run_model(file, plan, inputs) for file, plan in zip((path, changed), plans, strict=True)]
    before, after = _medians_us((path, plans[0]), (changed, plans[1]), inputs=inputs)
    return {
        "builtin_us": round(before, 1),
        "kernel_us": round(after, 1),
        "times_faster": round(before / after, 1),
        "equal": models.same_bits(*outputs),
    }


def _layer_norm(library: str, folder: Path) -> float:
    """The kernel's time as a share of the chain's, which XNNPACK runs whole."""
    random = np.random.default_rng(0)
    gamma, beta = (random.normal(size=768).astype(np.float32) for _ in range(2))
    g = models.NormBuilder()
    g.output(g.keras(g.input("x", (1, 196, 768)), gamma, beta), "y")
    path, changed = models.with_own_kernels(g.build(), folder)
    before, after = _medians_us((path, Plan()), (changed, Plan(kernels=(library,))))
    return round(after / before, 3)


def _glue(library: str, folder: Path) -> float:
    """Microseconds that a call of a kernel that does nothing costs, from a chain of many."""
    paths = []
    for count in (1, 1 + _CHAIN):
        g = ModelBuilder()
        value = g.input("x", (1, 4))
        for _ in range(count):
            value = g.custom("nothing", [value], (1, 4))
        g.output(value, "y")
        paths.append(folder / f"chain{count}.tflite")
        paths[-1].write_bytes(g.build())
    plan = Plan(kernels=(library,))
    short, long = _medians_us(*((path, plan) for path in paths))
    return round((long - short) / _CHAIN, 3)


def _silu(folder: Path) -> dict[str, Any]:
    """What the tool says to a kernel for every activation of a network that is one partition without it."""
    g = ModelBuilder()
    value = g.input("x", (1, 32, 32, 16))
    for _ in range(24):
        value = g.swish(g.conv2d(value, 16, 3))
    g.output(value, "y")
    path, source = folder / "network.tflite", folder / "silu.c"
    path.write_bytes(g.build())
    source.write_text(_SILU)
    options = api.OperatorOptions(kernel_files=((str(source), "LOGISTIC,MUL"),))
    tried = next(one for one in api.operators(path, options=options).tried if one.what == "kernel-silu")
    ratio = tried.comparison.ratio if tried.comparison is not None else None
    return {"ratio": ratio and round(ratio, 3), "why": tried.why.code, "refused": tried.is_equal and not tried.kept}


def _medians_us(*candidates: tuple[Path, Plan], inputs: Inputs | None = None) -> list[float]:
    """The median latency of each, from blocks in turns; made-up inputs where none are given."""
    loaded = [CompiledModel(path, plan, Workload()) for path, plan in candidates]
    if inputs is not None:
        for tensor in (tensor for model in loaded for tensor in model.inputs):
            tensor.write(np.ascontiguousarray(inputs[tensor.name]).tobytes())
    blocks: list[list[float]] = [[] for _ in loaded]
    for model in loaded:
        model.time_runs(_BLOCK_S, 10_000)
    for _ in range(_ROUNDS):
        for model, found in zip(loaded, blocks, strict=True):
            found.append(statistics.median(model.time_runs(_BLOCK_S, 10_000)) / 1e3)
    for model in loaded:
        model.close()
    return [statistics.median(found) for found in blocks]


def _library(built: Any) -> str:
    if isinstance(built, Failure):
        raise RuntimeError(built.message)
    return str(built.path)


if __name__ == "__main__":
    raise SystemExit(main())
