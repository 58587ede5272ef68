"""Models of one operator, or one chain, for each of hasten's own kernels; and runs of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from hasten.core.plan import Plan, Workload
from hasten.custom_kernels.own import OWN_KERNELS, own_kernels
from hasten.custom_kernels.rewrite import put_kernel
from hasten.custom_kernels.user import user_kernels
from hasten.engine.compiled import CompiledModel
from hasten.model.build_graph import Spec
from hasten.model.edit.model import EditedModel
from tests.model_builder import ModelBuilder

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from hasten.custom_kernels.offer import Offer
    from hasten.engine.numba_kernels import ArrayType
    from hasten.model.build_graph import Value

    Array = NDArray[Any]

BUILTIN = Plan(kernel="builtin")


def one_operator(
    op: str,
    inputs: Mapping[str, Array],
    output: tuple[tuple[int, ...], str],
    options_type: str = "",
    constants: Sequence[Array] = (),
    **options: Any,
) -> bytes:
    """A model of one operator: inputs first, then constants."""
    g = ModelBuilder()
    given = [g.input(name, values.shape, str(values.dtype)) for name, values in inputs.items()]
    fixed = [g.constant(values) for values in constants]
    (result,) = g.operator(op, [*given, *fixed], [Spec(*output)], options_type=options_type, **options)
    g.output(result, "y")
    return g.build()


def strided_slice(
    values: Array,
    begin: Sequence[int],
    end: Sequence[int],
    strides: Sequence[int],
    shape: tuple[int, ...],
    **masks: int,
) -> bytes:
    constants = [np.array(entries, np.int32) for entries in (begin, end, strides)]
    output = (shape, str(values.dtype))
    return one_operator("STRIDED_SLICE", {"x": values}, output, "StridedSliceOptions", constants, **masks)


def mirror_pad(values: Array, paddings: Array, *, symmetric: bool) -> bytes:
    shape = tuple(int(size) for size in np.array(values.shape) + paddings.sum(axis=1))
    mode = int(symmetric)
    return one_operator(
        "MIRROR_PAD", {"x": values}, (shape, str(values.dtype)), "MirrorPadOptions", [paddings], mode=mode
    )


def cumsum(values: Array, axis: int, *, exclusive: bool, reverse: bool) -> bytes:
    return one_operator(
        "CUMSUM",
        {"x": values},
        (values.shape, str(values.dtype)),
        "CumsumOptions",
        [np.array(axis, np.int32)],
        exclusive=exclusive,
        reverse=reverse,
    )


def arg_max(values: Array, axis: int, index_type: str, *, largest: bool = True) -> bytes:
    shape = tuple(size for place, size in enumerate(values.shape) if place != axis % values.ndim)
    code = {"int32": 2, "int64": 4}[index_type]  # TensorType of the schema
    name = "ARG_MAX" if largest else "ARG_MIN"
    options = "ArgMaxOptions" if largest else "ArgMinOptions"
    return one_operator(name, {"x": values}, (shape, index_type), options, [np.array(axis, np.int32)], outputType=code)


def gather(values: Array, indices: Array, *, constant: bool, axis: int = -1) -> bytes:
    place = axis % values.ndim
    shape = (*values.shape[:place], *indices.shape, *values.shape[place + 1 :])
    inputs = {"x": values} if constant else {"x": values, "at": indices}
    constants = [indices] if constant else []
    return one_operator("GATHER", inputs, (shape, str(values.dtype)), "GatherOptions", constants, axis=axis)


def floor_operator(op: str, a: Array, b: Array, *, constant: bool = False) -> bytes:
    options = {"FLOOR_DIV": "FloorDivOptions", "FLOOR_MOD": "FloorModOptions"}[op]
    shape = np.broadcast_shapes(a.shape, b.shape)
    inputs = {"a": a} if constant else {"a": a, "b": b}
    return one_operator(op, inputs, (shape, str(a.dtype)), options, [b] if constant else [])


class NormBuilder(ModelBuilder):
    """Draws layer normalization as converters do."""

    def keras(self, x: Value, gamma: Array | None, beta: Array | None, epsilon: float = 1e-3) -> Value:
        mean = self.mean(x, (len(x.shape) - 1,), keep_dims=True)
        scale = self._root("RSQRT", self._variance(self._two("SQUARED_DIFFERENCE", x, mean), epsilon))
        if gamma is not None:
            scale = self.mul(scale, self.constant(gamma))
        shift = self.mul(mean, scale)
        scaled = self.mul(x, scale)
        return self.sub(scaled, shift) if beta is None else self.add(scaled, self.sub(self.constant(beta), shift))

    def torch(self, x: Value, gamma: Array | None, beta: Array | None, epsilon: float = 1e-5) -> Value:
        mean = self.mean(x, (len(x.shape) - 1,), keep_dims=True)
        difference = self.sub(x, mean)
        root = self._root("SQRT", self._variance(self.mul(difference, difference), epsilon))
        result = self._two("DIV", difference, root, "DivOptions")
        result = result if gamma is None else self.mul(result, self.constant(gamma))
        return result if beta is None else self.add(result, self.constant(beta))

    def _variance(self, squares: Value, epsilon: float) -> Value:
        mean = self.mean(squares, (len(squares.shape) - 1,), keep_dims=True)
        return self.add(mean, self.constant(np.array(epsilon, np.float32)))

    def _root(self, op: str, x: Value) -> Value:
        (result,) = self.operator(op, [x], [Spec(x.shape)])
        return result

    def _two(self, op: str, a: Value, b: Value, options: str = "") -> Value:
        (result,) = self.operator(op, [a, b], [Spec(np.broadcast_shapes(a.shape, b.shape))], options_type=options)
        return result


def run_model(path: Path, plan: Plan, inputs: Mapping[str, Array]) -> Array:
    """The model's one output. Nothing runs before these inputs: made-up ones may be out of range or divide by 0."""
    model = CompiledModel(path, plan, Workload())
    try:
        for tensor in model.inputs:
            tensor.write(np.ascontiguousarray(inputs[tensor.name]).tobytes())
        model.run()
        (output,) = model.outputs
        result: Array = np.frombuffer(output.read(), output.dtype).reshape(output.shape)
        return result
    finally:
        model.close()


def own_offers(path: Path) -> list[Offer]:
    """What hasten's own kernels could take over in a model."""
    graph = EditedModel.read(path).main
    return [found.offer for kernel in OWN_KERNELS for found in own_kernels(graph, kernel)]


def user_offers(path: Path, kernel: str, replaces: str, types: Sequence[ArrayType] = ()) -> list[Offer]:
    """What a kernel of that name could take over."""
    return [found.offer for found in user_kernels(EditedModel.read(path).main, kernel, replaces, types)]


def with_kernels(path: Path, offers: Sequence[Offer], out: Path) -> Path:
    """Write the model with these kernels in it."""
    model = EditedModel.read(path)
    for offer in offers:
        put_kernel(model.main, offer)
    model.clean()
    model.write(out)
    return out


def with_own_kernels(content: bytes, folder: Path) -> tuple[Path, Path]:
    """A model and its copy with every kernel that is offered for it; the same file where none is."""
    path, changed = folder / "model.tflite", folder / "changed.tflite"
    path.write_bytes(content)
    offers = own_offers(path)
    return (path, with_kernels(path, offers, changed)) if offers else (path, path)


def same_bits(a: Array, b: Array) -> bool:
    """Whether all elements are equal bit by bit; every NaN is one."""
    if (a.shape, a.dtype) != (b.shape, b.dtype):
        return False
    both_nan = np.isnan(a) & np.isnan(b) if a.dtype.kind == "f" else np.zeros(a.shape, bool)
    unsigned = f"u{a.dtype.itemsize}"
    flat = (np.ascontiguousarray(values).reshape(-1).view(unsigned) for values in (a, b))
    first, second = flat
    return bool(((first == second) | both_nan.reshape(-1)).all())
