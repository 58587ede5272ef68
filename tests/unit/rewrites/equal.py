"""What every rewrite must keep: outputs, to the bit or within rounding, and all that a caller sees of them.

`small_graphs` draws models to try that on: few operators, of all kinds that rewrites look at, in any combination.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
from ai_edge_litert.interpreter import Interpreter, OpResolverType
from drawing import DRAWN, Drawing
from hypothesis import strategies as st
from litert_run import inputs_for, invoke

from hasten.model.edit.model import EditedModel
from hasten.rewrites.rewrite import apply

if TYPE_CHECKING:
    from hasten.rewrites.rewrite import Rewrite

SEEDS = (1, 2, 3)
# XNNPACK where it takes an operator, and kernels that compute one number after another.
RESOLVERS = (OpResolverType.AUTO, OpResolverType.BUILTIN_REF)
SEEN = ("name", "shape", "shape_signature", "dtype", "quantization")


def rewritten(data: bytes, *rewrites: Rewrite) -> bytes:
    """The model after these rewrites; all of them must find something."""
    model = EditedModel.from_bytes(data)
    found = apply(model, rewrites)
    assert set(found) == {rewrite.name for rewrite in rewrites}
    return model.to_bytes()


def assert_refuses(data: bytes, *rewrites: Rewrite) -> None:
    """The rewrites find nothing, and leave every byte as it was."""
    model = EditedModel.from_bytes(data)
    assert apply(model, rewrites) == {}
    assert model.to_bytes() == EditedModel.from_bytes(data).to_bytes()


def operators(data: bytes) -> Counter[str]:
    """How many operators of each kind the main graph has."""
    graph = EditedModel.from_bytes(data).main
    return Counter(graph.op(operator) for operator in graph.operators)


def assert_equal_outputs(before: bytes, after: bytes, tolerance: float) -> None:
    """Both models look alike from outside, and give the same on several inputs in XNNPACK and in reference kernels.

    Zero is equality of all bits; other tolerances are relative to the largest number of an output.
    """
    for resolver in RESOLVERS:
        first, second = loaded(before, resolver), loaded(after, resolver)
        assert seen_from_outside(first) == seen_from_outside(second)
        for seed in SEEDS:
            inputs = inputs_for(first.get_input_details(), seed)
            for expected, actual in zip(invoke(first, inputs), invoke(second, inputs), strict=True):
                assert_equal(expected, actual, tolerance)


def assert_equal(expected: Any, actual: Any, tolerance: float) -> None:
    assert expected.dtype == actual.dtype
    if tolerance == 0:
        np.testing.assert_array_equal(actual, expected)  # NaN is NaN; only zeros may change their sign
        return
    stored, expected, actual = expected.dtype, expected.astype(np.float64), actual.astype(np.float64)
    np.testing.assert_array_equal(np.isfinite(expected), np.isfinite(actual))
    if np.issubdtype(stored, np.integer):  # steps of a quantized range
        largest = float(np.iinfo(stored).max) - np.iinfo(stored).min
    else:
        largest = np.max(np.abs(expected), initial=0.0, where=np.isfinite(expected))
    np.testing.assert_allclose(actual, expected, rtol=0, atol=tolerance * largest)


def loaded(model: bytes, resolver: OpResolverType) -> Any:
    interpreter = Interpreter(model_content=model, experimental_op_resolver_type=resolver)
    interpreter.allocate_tensors()
    return interpreter


def seen_from_outside(interpreter: Any) -> Any:
    details = (interpreter.get_input_details(), interpreter.get_output_details())
    tensors = [[tuple(map(str, (detail[key] for key in SEEN))) for detail in found] for found in details]
    return tensors, interpreter.get_signature_list()


@st.composite
def small_graphs(draw: st.DrawFn) -> bytes:
    """A model of a few operators on a value of four dimensions, float32 or int8, with a fixed or an open batch."""
    dtype = draw(st.sampled_from(("float32", "float32", "int8")))
    sizes = draw(st.tuples(*[st.integers(1, 6)] * 3))
    has_open_batch = draw(st.booleans()) and dtype == "float32"
    drawing = Drawing(draw, dtype, (-1 if has_open_batch else draw(st.integers(1, 2)), *sizes))
    for _ in range(draw(st.integers(1, 8))):
        drawing.add(draw(st.sampled_from(DRAWN)))
    return drawing.build()
