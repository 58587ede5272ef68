"""Custom kernels on every target: staged, registered, right; and whatever one does wrong is a Failure."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

import hasten.custom_kernels
from hasten.core.failure import UNSUPPORTED, Failure
from hasten.core.plan import Plan, Workload
from hasten.custom_kernels.build import build_delegate
from hasten.custom_kernels.offer import encoded
from hasten.model.build_graph import Spec
from tests.model_builder import ModelBuilder

if TYPE_CHECKING:
    from collections.abc import Callable

    from hasten.targets.base import Target

    Fails = Callable[..., Failure]
    WriteModel = Callable[[bytes], Path]
    BuildLibrary = Callable[..., Path]

LIBRARY = Path(hasten.custom_kernels.__file__).parent / "library"
SOURCE = Path(__file__).with_name("planted_kernel.c")
FAIL_IN_INIT, FAIL_IN_SHAPES, FAIL_IN_RUN, CRASH_IN_RUN = 1, 2, 3, 4
X = np.array([[0.5, 1, 2, -3]], np.float32)
ADDED = np.array([[1, 2, 3, 4]], np.float32)


@pytest.fixture(scope="session")
def planted(build_library: BuildLibrary) -> Plan:
    """A plan with the planted kernel."""
    flags = (f"-I{LIBRARY}", str(LIBRARY / "hasten_glue.c"))
    return Plan(kernels=(str(build_library(SOURCE, "planted_kernel", *flags)),))


def doubled(*options: bytes, name: str = "planted") -> bytes:
    """ADD, then a custom operator for each of the options, then MUL: XNNPACK has a part before and one behind."""
    g = ModelBuilder()
    value = g.add(x := g.input("x", (1, 4)), x)
    for number, option in enumerate(options):
        value = g.custom(f"{name}#{number}" if len(options) > 1 else name, [value], (1, 4), options=option)
    g.output(g.mul(value, value), "y")
    return g.build()


def with_fault(fault: int) -> bytes:
    return doubled(encoded(struct.pack("<i", fault)))


def test_a_kernel_computes_its_part(target: Target, write_model: WriteModel, planted: Plan) -> None:
    with target.start(planted) as runner:
        report = runner.load(write_model(doubled(b"")), Workload())
        (output,) = runner.evaluate([X.tobytes()])
        assert len(runner.block(30.0, 3).nanoseconds) == 3
    np.testing.assert_array_equal(np.frombuffer(output, np.float32), ((4 * X) ** 2)[0])
    assert report.placement is not None
    assert report.placement.left == ((0, 1),), "the custom operator is left to its kernel"
    assert [part.nodes for part in report.placement.partitions] == [(0,), (2,)]


def test_constants_travel_with_the_operator(target: Target, write_model: WriteModel, planted: Plan) -> None:
    model = doubled(encoded(struct.pack("<i", 0), {1: ADDED}), encoded(struct.pack("<i", 0), {1: 2 * ADDED}))
    with target.start(planted) as runner:
        runner.load(write_model(model), Workload())
        (output,) = runner.evaluate([X.tobytes()])
    expected = (2 * (2 * (2 * X) + ADDED) + 2 * ADDED) ** 2
    np.testing.assert_array_equal(np.frombuffer(output, np.float32), expected[0])


def test_operators_of_one_name_share_a_kernel(target: Target, write_model: WriteModel, planted: Plan) -> None:
    g = ModelBuilder()
    value = g.input("x", (1, 4))
    for _ in range(3):
        value = g.custom("planted", [value], (1, 4))
    g.output(value, "y")
    with target.start(planted) as runner:
        runner.load(write_model(g.build()), Workload())
        (output,) = runner.evaluate([X.tobytes()])
    np.testing.assert_array_equal(np.frombuffer(output, np.float32), (8 * X)[0])


def test_a_kernel_can_be_profiled(target: Target, write_model: WriteModel, planted: Plan) -> None:
    with target.start(planted) as runner:
        runner.load(write_model(doubled(b"")), Workload(), profiling=True)
        (run,) = runner.profile(1)
    assert 1 in [event.index for event in run.events if event.kind == "operator"]


def test_other_shapes_are_worked_out_anew(target: Target, write_model: WriteModel, planted: Plan) -> None:
    g = ModelBuilder()
    x = g.input("x", (1, 4))
    g.output(g.custom("planted", [x], (1, 4)), "y")
    workload = Workload(shapes=(("x", (3, 4)),))
    values = np.arange(12, dtype=np.float32).reshape(3, 4)
    with target.start(planted) as runner:
        report = runner.load(write_model(g.build()), workload)
        (output,) = runner.evaluate([values.tobytes()])
    assert report.outputs[0].shape == (3, 4)
    np.testing.assert_array_equal(np.frombuffer(output, np.float32).reshape(3, 4), 2 * values)


@pytest.mark.parametrize(("fault", "said"), [(FAIL_IN_INIT, "init"), (FAIL_IN_SHAPES, "shapes"), (FAIL_IN_RUN, "run")])
def test_a_kernel_that_fails(fails: Fails, write_model: WriteModel, planted: Plan, fault: int, said: str) -> None:
    failure = fails(write_model(with_fault(fault)), planted)
    assert failure.kind == "accelerator"
    assert f"planted: planted in {said}." in failure.message
    assert failure.hint


def test_a_kernel_that_crashes(target: Target, fails: Fails, write_model: WriteModel, planted: Plan) -> None:
    path = write_model(with_fault(CRASH_IN_RUN))
    assert fails(path, planted).kind == "crash"
    with target.start(planted) as runner:
        runner.load(write_model(doubled(b"")), Workload())


def test_one_name_for_different_options_is_refused(fails: Fails, write_model: WriteModel, planted: Plan) -> None:
    g = ModelBuilder()
    value = g.input("x", (1, 4))
    for factor in (1, 2):
        value = g.custom("planted", [value], (1, 4), options=encoded(b"", {1: factor * ADDED}))
    g.output(value, "y")
    assert "two operators of this name have different options" in fails(write_model(g.build()), planted).message


@pytest.mark.parametrize("length", [17, 60, 80])
def test_damaged_options_are_refused(fails: Fails, write_model: WriteModel, planted: Plan, length: int) -> None:
    whole = encoded(struct.pack("<i", 0), {1: ADDED})
    assert len(whole) > length
    failure = fails(write_model(doubled(whole[:length])), planted)
    assert "its options are damaged" in failure.message


def test_a_kernel_that_no_library_has(fails: Fails, write_model: WriteModel, planted: Plan) -> None:
    failure = fails(write_model(doubled(b"", name="Elsewhere")), planted)
    assert "Elsewhere" in failure.message
    assert failure.kind == "model"


def test_a_library_that_is_missing_or_another_one(
    fails: Fails, write_model: WriteModel, build_library: BuildLibrary, tmp_path: Path
) -> None:
    path = write_model(doubled(b""))
    assert "There is no kernel library at /nowhere.so" in fails(path, Plan(kernels=("/nowhere.so",))).message
    source = tmp_path / "other.c"
    source.write_text("int other(void) { return 1; }\n")
    failure = fails(path, Plan(kernels=(str(build_library(source, "other_kernel")),)))
    assert "is not a library of kernels" in failure.message


def test_a_library_of_another_release(
    fails: Fails, write_model: WriteModel, build_library: BuildLibrary, tmp_path: Path
) -> None:
    source = tmp_path / "newer.c"
    names = ("kernel_name", "add_kernel", "register_kernels", "kernel_failure")
    others = "".join(f"void hasten_{name}(void) {{}}\n" for name in names)
    source.write_text(f"int hasten_kernel_abi(void) {{ return 9; }}\n{others}")
    failure = fails(write_model(doubled(b"")), Plan(kernels=(str(build_library(source, "newer_kernel")),)))
    assert "has version 9 of the kernel interface" in failure.message


def test_the_classic_interface_takes_no_kernels(fails: Fails, write_model: WriteModel, planted: Plan) -> None:
    failure = fails(write_model(doubled(b"")), Plan(kernel="reference", kernels=planted.kernels))
    assert failure.code == UNSUPPORTED
    assert "takes no custom kernels" in failure.message


@pytest.fixture(scope="session")
def kernel_delegate(build_library: BuildLibrary, tmp_path_factory: pytest.TempPathFactory) -> Plan:
    """hasten's own kernels as an external delegate."""
    built = build_delegate(tmp_path_factory.mktemp("delegate"))
    assert not isinstance(built, Failure), built
    return Plan(delegate=str(built.path))


def padded_and_sliced() -> bytes:
    """MIRROR_PAD, STRIDED_SLICE, CUMSUM one after the other, between operators of XNNPACK."""
    g = ModelBuilder()
    value = g.relu(g.input("x", (1, 6, 6, 3)))
    paddings = g.constant(np.array([[0, 0], [2, 2], [1, 1], [0, 0]], np.int32))
    (value,) = g.operator(
        "MIRROR_PAD", [value, paddings], [Spec((1, 10, 8, 3))], options_type="MirrorPadOptions", mode=0
    )
    ends = [g.constant(np.array(entries, np.int32)) for entries in ((0, 0, 0, 0), (1, 10, 8, 3), (1, 2, 2, 1))]
    (value,) = g.operator("STRIDED_SLICE", [value, *ends], [Spec((1, 5, 4, 3))], options_type="StridedSliceOptions")
    axis = g.constant(np.array(1, np.int32))
    (value,) = g.operator("CUMSUM", [value, axis], [Spec((1, 5, 4, 3))], options_type="CumsumOptions", reverse=True)
    g.output(g.mul(value, value), "y")
    return g.build()


@pytest.mark.slow
def test_the_delegate_leaves_the_file_and_the_outputs_as_they_are(
    target: Target, write_model: WriteModel, kernel_delegate: Plan
) -> None:
    path = write_model(padded_and_sliced())
    x = np.random.default_rng(0).normal(size=(1, 6, 6, 3)).astype(np.float32)
    outputs = []
    for plan in (Plan(kernel="builtin"), kernel_delegate):
        with target.start(plan) as runner:
            report = runner.load(path, Workload())
            outputs += [bytes(frame) for frame in runner.evaluate([x.tobytes()])]
    assert outputs[0] == outputs[1]
    assert report.placement is not None
    taken = [part.nodes for part in report.placement.partitions if part.delegate == "HastenKernels"]
    assert taken == [(1, 2, 3)]


@pytest.mark.slow
def test_the_delegate_takes_nothing_that_is_not_its_own(
    fails: Fails, write_model: WriteModel, kernel_delegate: Plan
) -> None:
    g = ModelBuilder()
    x = g.input("x", (1, 4))
    g.output(g.add(x, x), "y")
    assert "took none of the model" in fails(write_model(g.build()), kernel_delegate).message
