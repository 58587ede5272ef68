"""hasten's own kernels give what LiteRT's built-in ones give, bit by bit, whatever the shapes, options and values."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import hasten
from hasten.core.errors import HastenError
from hasten.core.plan import Plan, Workload
from hasten.custom_kernels.cases import EXACT_CASES, values_for
from hasten.custom_kernels.offer import encoded
from hasten.model.build_graph import Spec
from tests.model_builder import ModelBuilder
from tests.unit.custom_kernels import kernel_models as models

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    Array = NDArray[Any]

EXAMPLES = settings(max_examples=60, deadline=None)
MOVED = ("float32", "int8", "uint8", "int16", "int32", "int64", "bool")


def shapes(most: int, largest: int = 6) -> st.SearchStrategy[tuple[int, ...]]:
    return st.lists(st.integers(1, largest), min_size=1, max_size=most).map(tuple)


def values(dtype: str, shape: tuple[int, ...], case: str = "special") -> Array:
    return values_for(case, dtype, shape, 1, 4)


def assert_equal(content: bytes, inputs: dict[str, Array], folder: Path, library: str) -> None:
    """The kernel is there, and its output is the builtin's."""
    path, changed = models.with_own_kernels(content, folder)
    assert changed != path, "no kernel is offered"
    expected = models.run_model(path, models.BUILTIN, inputs)
    got = models.run_model(changed, Plan(kernels=(library,)), inputs)
    assert models.same_bits(expected, got), (inputs, expected, got)


@EXAMPLES
@given(data=st.data(), shape=shapes(4), dtype=st.sampled_from(MOVED))
def test_strided_slice(data: st.DataObject, shape: tuple[int, ...], dtype: str, shared: Path, own_library: str) -> None:
    entries = data.draw(st.integers(1, len(shape)))
    index: list[Any] = []
    begin, end, strides = [], [], []
    masks = dict.fromkeys(("beginMask", "endMask", "shrinkAxisMask"), 0)
    for axis in range(entries):
        size = shape[axis]
        end.append(data.draw(st.integers(-size - 1, size + 1)))
        flags = data.draw(st.sets(st.sampled_from(("beginMask", "endMask"))) | st.just({"shrinkAxisMask"}))
        for name in flags:
            masks[name] |= 1 << axis
        if "shrinkAxisMask" in flags:  # one element: the builtin writes nothing where its stride is negative
            begin.append(data.draw(st.integers(-size, size - 1)))
            strides.append(data.draw(st.sampled_from((1, 2))))
            index.append(begin[axis])
        else:
            begin.append(data.draw(st.integers(-size - 1, size + 1)))
            strides.append(data.draw(st.sampled_from((1, 2, 3, -1, -2))))
            first = None if "beginMask" in flags else begin[axis]
            last = None if "endMask" in flags else end[axis]
            index.append(slice(first, last, strides[axis]))
    x = values(dtype, shape)
    expected = np.asarray(x[tuple(index)])
    assume(expected.size > 0 and any(stride != 1 for stride in strides))
    content = models.strided_slice(x, begin, end, strides, expected.shape, **masks)
    assert_equal(content, {"x": x}, shared, own_library)


@pytest.mark.parametrize(
    ("masks", "index"),
    [
        ({"ellipsisMask": 1}, (..., slice(0, 6, 2))),
        ({"ellipsisMask": 2}, (slice(0, 2, 1), ..., slice(0, 6, 2))),
        ({"newAxisMask": 2}, (slice(0, 2, 1), None, slice(0, 4, 2))),
    ],
)
def test_ellipsis_and_new_axes(masks: dict[str, int], index: tuple[Any, ...], shared: Path, own_library: str) -> None:
    x = np.arange(48, dtype=np.float32).reshape(2, 4, 6)
    entries = [entry if isinstance(entry, slice) else slice(0, 0, 1) for entry in index]
    columns = zip(*((entry.start, entry.stop, entry.step) for entry in entries), strict=True)
    begin, end, strides = (list(column) for column in columns)
    content = models.strided_slice(x, begin, end, strides, x[index].shape, **masks)
    assert_equal(content, {"x": x}, shared, own_library)


def test_a_file_cannot_ask_for_two_ellipses(tmp_path: Path, own_library: str) -> None:
    """No converter writes that, and the second one would lead beyond the input's axes."""
    entries = {place: np.ones(2, np.int32) for place in (1, 2, 3)}
    g = ModelBuilder()
    x = g.input("x", (2, 3, 4))
    y = g.custom("hasten.strided_slice", [x], (2, 3, 4), options=encoded(struct.pack("<5i", 0, 0, 3, 0, 0), entries))
    g.output(y, "y")
    with pytest.raises(HastenError, match="more than one ellipsis"):
        hasten.Runner(g.write(tmp_path / "m.tflite"), Plan(kernels=(own_library,)))


@EXAMPLES
@given(data=st.data(), shape=shapes(4), dtype=st.sampled_from(("float32", "int8", "int32")), symmetric=st.booleans())
def test_mirror_pad(
    data: st.DataObject, shape: tuple[int, ...], dtype: str, symmetric: bool, shared: Path, own_library: str
) -> None:
    most = [size if symmetric else size - 1 for size in shape]
    paddings = np.array([[data.draw(st.integers(0, limit)) for _ in range(2)] for limit in most], np.int32)
    x = values(dtype, shape)
    assert_equal(models.mirror_pad(x, paddings, symmetric=symmetric), {"x": x}, shared, own_library)


@EXAMPLES
@given(
    data=st.data(),
    shape=shapes(4),
    dtype=st.sampled_from(("float32", "int32", "int64")),
    flags=st.tuples(st.booleans(), st.booleans()),
    case=st.sampled_from(EXACT_CASES),
)
def test_cumsum(
    data: st.DataObject,
    shape: tuple[int, ...],
    dtype: str,
    flags: tuple[bool, bool],
    case: str,
    shared: Path,
    own_library: str,
) -> None:
    assume(len(shape) > 1)
    axis = data.draw(st.integers(0, len(shape) - 2))
    x = values(dtype, shape, case)
    named = data.draw(st.sampled_from((axis, axis - len(shape))))
    content = models.cumsum(x, named, exclusive=flags[0], reverse=flags[1])
    assert_equal(content, {"x": x}, shared, own_library)


@EXAMPLES
@given(
    data=st.data(),
    shape=shapes(4, 9),
    dtype=st.sampled_from(("float32", "int8", "uint8", "int32")),
    largest=st.booleans(),
    case=st.sampled_from(EXACT_CASES),
)
def test_arg_max(
    data: st.DataObject, shape: tuple[int, ...], dtype: str, largest: bool, case: str, shared: Path, own_library: str
) -> None:
    assume(len(shape) > 1 and shape[-1] > 1)
    axis = data.draw(st.integers(0, len(shape) - 2))
    index_type = data.draw(st.sampled_from(("int32", "int64")))
    x = values(dtype, shape, case)
    assert_equal(models.arg_max(x, axis, index_type, largest=largest), {"x": x}, shared, own_library)


def test_arg_max_beside_nan_in_every_place(shared: Path, own_library: str) -> None:
    """LiteRT answers a number where there is one, wherever NaN stands."""
    random = np.random.default_rng(0)
    x = random.normal(size=(64, 7, 9)).astype(np.float32)
    x[random.uniform(size=x.shape) < 0.5] = np.nan
    for largest in (True, False):
        assert_equal(models.arg_max(x, 1, "int32", largest=largest), {"x": x}, shared, own_library)


def test_arg_max_with_nothing_behind_the_axis_stays_litert_s(shared: Path) -> None:
    """Its answer beside NaN hangs on the place there."""
    path, changed = models.with_own_kernels(models.arg_max(np.ones((2, 5, 1), np.float32), 1, "int32"), shared)
    assert changed == path


def test_arg_max_of_more_positions_than_are_followed_at_once(shared: Path, own_library: str) -> None:
    x = values("float32", (3, 5, 700), "wide")
    assert_equal(models.arg_max(x, 1, "int32"), {"x": x}, shared, own_library)


@EXAMPLES
@given(
    data=st.data(),
    shape=shapes(3),
    dtype=st.sampled_from(MOVED),
    index_type=st.sampled_from(("int32", "int64")),
    constant=st.booleans(),
)
def test_gather(
    data: st.DataObject,
    shape: tuple[int, ...],
    dtype: str,
    index_type: str,
    constant: bool,
    shared: Path,
    own_library: str,
) -> None:
    x = values(dtype, shape)
    picked = data.draw(st.lists(st.integers(0, shape[-1] - 1), min_size=1, max_size=8))
    indices = np.array(picked, index_type)
    inputs = {"x": x} if constant else {"x": x, "at": indices}
    assert_equal(models.gather(x, indices, constant=constant), inputs, shared, own_library)


def test_an_index_out_of_range_is_a_failure(shared: Path, own_library: str) -> None:
    x, indices = np.ones((2, 3), np.float32), np.array([0, 3], np.int32)
    path, changed = models.with_own_kernels(models.gather(x, indices, constant=False), shared)
    assert changed != path
    with hasten.Runner(changed, Plan(kernels=(own_library,))) as runner:
        with pytest.raises(HastenError, match="an index is out of range"):
            runner({"x": x, "at": indices})
        np.testing.assert_array_equal(runner({"x": 2 * x, "at": indices - 1 + (indices == 0)}), np.full((2, 2), 2))


@EXAMPLES
@given(
    data=st.data(),
    shape=shapes(4),
    dtype=st.sampled_from(("float32", "int32", "int8", "int16")),
    op=st.sampled_from(("FLOOR_DIV", "FLOOR_MOD")),
    case=st.sampled_from(EXACT_CASES),
    constant=st.booleans(),
)
def test_floor(
    data: st.DataObject,
    shape: tuple[int, ...],
    dtype: str,
    op: str,
    case: str,
    constant: bool,
    shared: Path,
    own_library: str,
) -> None:
    other = tuple(data.draw(st.sampled_from((1, size))) for size in shape)
    a, b = values(dtype, shape, case), values(dtype, other, case)
    is_checked = dtype != "float32" or op == "FLOOR_DIV"
    b = np.where(b == 0, np.ones(1, dtype), b).astype(dtype) if is_checked else b
    # The smallest integer divided by -1 has no result.
    assume(dtype == "float32" or not ((b == -1).any() and (a == np.iinfo(dtype).min).any()))
    inputs = {"a": a} if constant else {"a": a, "b": b}
    assert_equal(models.floor_operator(op, a, b, constant=constant), inputs, shared, own_library)


@pytest.mark.parametrize("op", ["FLOOR_DIV", "FLOOR_MOD"])
@pytest.mark.parametrize("seed", range(4))
def test_floor_of_quotients_of_every_size(op: str, seed: int, shared: Path, own_library: str) -> None:
    """At integers, beside them, around the largest quotient that single precision does, and with denormal numbers."""
    random = np.random.default_rng(seed)
    size = 4096
    b = (random.uniform(0.5, 2, size) * 10.0 ** random.uniform(-40, 20, size)).astype(np.float32)
    quotient = 2.0 ** random.uniform(-3, 34, size) * random.choice([-1, 1], size)
    a = (b.astype(np.float64) * quotient).astype(np.float32)
    a[::3] = (b.astype(np.float64) * np.rint(quotient))[::3].astype(np.float32)
    a[::6] = np.nextafter(a[::6], np.float32(0))
    b *= random.choice(np.array([-1, 1], np.float32), size)
    b[b == 0] = 1
    content = models.floor_operator(op, a, b)
    assert_equal(content, {"a": a, "b": b}, shared, own_library)


def test_a_division_by_zero_is_a_failure(shared: Path, own_library: str) -> None:
    a, b = np.ones((4,), np.int32), np.array([1, 0, 2, 3], np.int32)
    _, changed = models.with_own_kernels(models.floor_operator("FLOOR_DIV", a, b), shared)
    with pytest.raises(HastenError, match="a division by 0"):
        models.run_model(changed, Plan(kernels=(own_library,)), {"a": a, "b": b})


@pytest.mark.parametrize("form", ["keras", "torch"])
@pytest.mark.parametrize("has_gamma", [True, False])
@pytest.mark.parametrize("has_beta", [True, False])
def test_layer_norm(form: str, has_gamma: bool, has_beta: bool, shared: Path, own_library: str) -> None:
    random = np.random.default_rng(3)
    channels = 37
    gamma = random.normal(size=channels).astype(np.float32) if has_gamma else None
    beta = random.normal(size=channels).astype(np.float32) if has_beta else None
    g = models.NormBuilder()
    x = g.input("x", (2, 5, channels))
    g.output(getattr(g, form)(x, gamma, beta), "y")
    path, changed = models.with_own_kernels(g.build(), shared)
    (offer,) = models.own_offers(path)
    assert (offer.kernel, offer.tolerance > 0) == ("hasten.layer_norm", True)
    given_values = {"x": random.normal(2.0, 3.0, (2, 5, channels)).astype(np.float32)}
    expected = models.run_model(path, Plan(), given_values)
    got = models.run_model(changed, Plan(kernels=(own_library,)), given_values)
    np.testing.assert_allclose(got, expected, rtol=0, atol=2e-6 * np.abs(expected).max())


def test_the_batch_may_be_another_one(shared: Path, own_library: str) -> None:
    """Shapes are worked out when the model is loaded, not when the kernel is chosen."""
    g = ModelBuilder()
    x = g.input("x", (-1, 6, 4))
    paddings = g.constant(np.array([[0, 0], [2, 1], [0, 0]], np.int32))
    spec = Spec((1, 9, 4), "float32", None, True)
    (y,) = g.operator("MIRROR_PAD", [x, paddings], [spec], options_type="MirrorPadOptions", mode=0)
    g.output(y, "y")
    path, changed = models.with_own_kernels(g.build(), shared)
    values_of_x = np.random.default_rng(0).normal(size=(3, 6, 4)).astype(np.float32)
    workload = Workload(shapes=(("x", (3, 6, 4)),))
    results = []
    for file, plan in ((path, models.BUILTIN), (changed, Plan(kernels=(own_library,)))):
        with hasten.Runner(file, plan, workload) as runner:
            results.append(runner(values_of_x))
    assert models.same_bits(*results)
