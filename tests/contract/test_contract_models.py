"""Models of every shape and type: run rightly, or refused with a sentence that names the cause."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from hasten.core.failure import MEMORY_LIMIT, Failure, RunnerFailed
from hasten.core.plan import Plan, Workload
from hasten.model.build_graph import Spec
from hasten.targets.base import Limits
from tests import example_models
from tests.model_builder import ModelBuilder

if TYPE_CHECKING:
    from collections.abc import Callable

    from hasten.targets.base import Target
    from hasten.targets.client import LoadReport

    Fails = Callable[..., Failure]
    WriteModel = Callable[[bytes], Path]
    Loads = Callable[..., LoadReport]

CASES = Path(__file__).resolve().parents[3] / "shared" / "cases"
SIZES_IN_BITS = {
    "bool": 8,
    "int8": 8,
    "uint8": 8,
    "int16": 16,
    "uint16": 16,
    "int32": 32,
    "uint32": 32,
    "int64": 64,
    "uint64": 64,
    "float16": 16,
    "bfloat16": 16,
    "float32": 32,
    "float64": 64,
    "complex64": 64,
    "complex128": 128,
    "float8_e4m3fn": 8,
    "float8_e5m2": 8,
    "int4": 4,
    "uint4": 4,
    "int2": 2,
}


def cases_file(name: str) -> Path:
    path = CASES / name
    if not path.exists():
        pytest.skip(f"the real model {path} is not there")
    return path


def test_a_runner_says_what_it_is(target: Target) -> None:
    with target.start(Plan()) as runner:
        answer = runner.hello()
    assert answer.engine == "2.3.0"
    assert answer.cores >= 1
    assert answer.architecture
    changing = ("load_average", "timer_ns", "temperature_c", "held_back", "free_memory_mb")
    seen = {name: getattr(answer, name) for name in changing}
    assert replace(target.machine(), **seen) == answer


@pytest.mark.parametrize("dtype", SIZES_IN_BITS)
def test_every_element_type_passes_through_unchanged(target: Target, write_model: WriteModel, dtype: str) -> None:
    data = bytes(range(1, 4 * SIZES_IN_BITS[dtype] // 8 + 1)) if dtype != "bool" else bytes((1, 0, 0, 1))
    with target.start(Plan()) as runner:
        report = runner.load(write_model(example_models.pass_through(dtype)), Workload())
        (output,) = runner.evaluate([data])
    assert bytes(output) == data
    assert report.inputs[0].dtype == report.outputs[0].dtype == dtype
    assert report.inputs[0].bytes == len(data)
    assert (report.inputs[0].shape, report.outputs[0].shape) == ((1, 4), (4, 1))


@pytest.mark.parametrize("dtype", ["string", "resource", "variant"])
def test_types_that_cannot_be_fed_are_refused_by_name(fails: Fails, write_model: WriteModel, dtype: str) -> None:
    failure = fails(write_model(example_models.pass_through(dtype)), Plan())
    assert (failure.stage, failure.kind) == ("load", "model")
    assert "Tensor 'x'" in failure.message


def test_a_kernel_that_lacks_a_type_is_named(fails: Fails, write_model: WriteModel) -> None:
    failure = fails(write_model(example_models.cast_to_float("uint64")), Plan())
    assert failure.kind == "model"
    assert failure.message == "LiteRT's operator Cast does not take tensors of type UINT64."


@pytest.mark.parametrize("dtype", ["float16", "int8", "int64", "uint8", "bool"])
def test_conversion_gives_the_right_numbers(target: Target, write_model: WriteModel, dtype: str) -> None:
    values = np.array([[1, 0, 1, 1]]).astype(dtype)
    with target.start(Plan()) as runner:
        runner.load(write_model(example_models.cast_to_float(dtype)), Workload())
        (output,) = runner.evaluate([values.tobytes()])
    assert np.frombuffer(output, np.float32).tolist() == [1, 0, 1, 1]


def test_each_signature_has_inputs_and_outputs_of_its_own(target: Target, write_model: WriteModel) -> None:
    path = write_model(example_models.two_signatures())
    a, b = np.array([[1, 2, 3, 4]], np.float32), np.array([[5, 6, 7, 8]], np.float32)
    with target.start(Plan()) as runner:
        report = runner.load(path, Workload(signature="multiply"))
        product, total = runner.evaluate([a.tobytes(), b.tobytes()])
    assert [tensor.name for tensor in report.inputs] == ["a", "b"]
    assert [tensor.name for tensor in report.outputs] == ["product", "sum"]
    assert np.frombuffer(product, np.float32).tolist() == [5, 12, 21, 32]
    assert np.frombuffer(total, np.float32).tolist() == [6, 8, 10, 12]
    with target.start(Plan()) as runner:
        assert [tensor.name for tensor in runner.load(path, Workload()).outputs] == ["doubled"]


def test_an_unknown_signature_is_answered_with_the_known_ones(fails: Fails, write_model: WriteModel) -> None:
    failure = fails(write_model(example_models.two_signatures()), Plan(), Workload(signature="divide"))
    assert failure.kind == "usage"
    assert "double, multiply" in failure.hint


@pytest.mark.parametrize(
    "make",
    [example_models.no_signature, example_models.old_schema, example_models.counting_loop, example_models.branch],
)
def test_files_of_every_age_and_kind_run(loads: Loads, write_model: WriteModel, make: Callable[[], bytes]) -> None:
    assert loads(write_model(make())).api == "CompiledModel"


def test_state_lives_on_from_run_to_run(target: Target, write_model: WriteModel) -> None:
    one = np.ones((1, 4), np.float32).tobytes()
    with target.start(Plan()) as runner:
        runner.load(write_model(example_models.accumulator()), Workload())
        first, second = (np.frombuffer(runner.evaluate([one])[0], np.float32) for _ in range(2))
    np.testing.assert_allclose(second - first, 1, rtol=1e-5)


@pytest.mark.parametrize(
    ("asked", "inside", "outside"), [((), (1, 8, 8, 3), (1, 3)), ((4, 8, 8, 3), (4, 8, 8, 3), (4, 3))]
)
def test_an_open_batch_is_one_or_what_was_asked(
    loads: Loads, write_model: WriteModel, asked: tuple[int, ...], inside: tuple[int, ...], outside: tuple[int, ...]
) -> None:
    workload = Workload(shapes=(("x", asked),) if asked else ())
    report = loads(write_model(example_models.dynamic_batch()), workload=workload)
    assert (report.inputs[0].shape, report.outputs[0].shape) == (inside, outside)


@pytest.mark.parametrize(
    ("shape", "words"),
    [
        ((4, 8, 8), "4 dimensions, not 3"),
        ((), "4 dimensions, not 0"),
        ((0, 8, 8, 3), "a dimension of 0"),
        ((-1, 8, 8, 3), "a dimension of -1"),
        ((2**40, 8, 8, 3), "a dimension of 1099511627776"),
        ((1, 8, 8, 5), "1x8x8x5"),
        ((2**20, 1024, 1024, 3), "1048576x1024x1024x3"),
    ],
)
def test_impossible_shapes_are_a_wrong_usage(
    fails: Fails, write_model: WriteModel, shape: tuple[int, ...], words: str
) -> None:
    failure = fails(write_model(example_models.dynamic_batch()), Plan(), Workload(shapes=(("x", shape),)))
    assert (failure.stage, failure.kind) == ("load", "usage")
    assert words in failure.message


def test_a_shape_for_an_unknown_input_is_answered_with_the_known_ones(fails: Fails, write_model: WriteModel) -> None:
    failure = fails(write_model(example_models.one_operator()), Plan(), Workload(shapes=(("c", (1, 4)),)))
    assert (failure.kind, failure.hint) == ("usage", "Choose one of its inputs: a, b.")


def test_an_output_whose_size_hangs_on_the_data_can_be_run_again_and_again(
    target: Target, write_model: WriteModel
) -> None:
    g = ModelBuilder()
    (y,) = g.operator("WHERE", [g.input("x", (4,), "bool")], [Spec((4, 1), "int64")], options_type="WhereOptions")
    g.output(y, "y")
    with target.start(Plan()) as runner:
        runner.load(write_model(g.build()), Workload())
        found = [
            np.frombuffer(runner.evaluate([bytes(x)])[0], np.int64).tolist()
            for x in ((1, 0, 0, 1), (0, 1, 1, 1), (0,) * 4)
        ]
    assert found == [[0, 3], [1, 2, 3], []]


def test_data_of_the_wrong_size_is_refused_by_name(target: Target, write_model: WriteModel) -> None:
    with target.start(Plan()) as runner:
        runner.load(write_model(example_models.one_operator()), Workload())
        with pytest.raises(RunnerFailed, match="Tensor 'b' takes 16 bytes, not 3"):
            runner.evaluate([bytes(16), bytes(3)])
        with pytest.raises(RunnerFailed, match="takes 2 inputs, not 1") as caught:
            runner.evaluate([bytes(16)])
        assert (caught.value.failure.stage, caught.value.failure.kind) == ("evaluate", "data")
        assert len(runner.evaluate([bytes(16), bytes(16)])) == 1, "a refused request must not harm the next"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is empty"),
        (b"hello" * 99, "is not a TensorFlow Lite model"),
        (example_models.one_operator()[:-64], "is damaged"),
    ],
    ids=["empty", "garbage", "torn"],
)
def test_files_that_are_no_models_are_refused_without_a_crash(
    fails: Fails, write_model: WriteModel, content: bytes, words: str
) -> None:
    failure = fails(write_model(content), Plan())
    assert (failure.stage, failure.kind) == ("load", "model")
    assert words in failure.message


def test_a_missing_file_is_named(fails: Fails, tmp_path: Path) -> None:
    assert "There is no model file at" in fails(tmp_path / "none.tflite", Plan()).message


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (example_models.custom_operator, "needs the custom operator Unknown"),
        (example_models.flex_operator, "the TensorFlow operator FlexErf"),
    ],
)
def test_operators_that_are_missing_are_named(
    fails: Fails, write_model: WriteModel, make: Callable[[], bytes], words: str
) -> None:
    failure = fails(write_model(make()), Plan())
    assert (failure.stage, failure.kind) == ("load", "model")
    assert words in failure.message


def test_an_operator_of_the_future_is_named(fails: Fails, write_model: WriteModel) -> None:
    g = ModelBuilder()
    x = g.input("x", (1, 4))
    (y,) = g.operator("ADD", [x, x], [Spec((1, 4))], version=99, options_type="AddOptions")
    g.output(y, "y")
    assert "version 99 of the operator ADD" in fails(write_model(g.build()), Plan()).message


def test_a_model_that_aborts_the_engine_costs_its_runner_only(
    target: Target, fails: Fails, write_model: WriteModel
) -> None:
    failure = fails(write_model(example_models.aborting()), Plan())
    assert (failure.stage, failure.kind) == ("load", "crash")
    with target.start(Plan()) as runner:
        runner.load(write_model(example_models.one_operator()), Workload())


@pytest.mark.parametrize(("value", "kind"), [('"two', "usage"), ('"two"', "usage")])
def test_options_that_the_engine_refuses_are_a_wrong_usage(
    fails: Fails, write_model: WriteModel, value: str, kind: str
) -> None:
    failure = fails(write_model(example_models.one_operator()), Plan(options=(("cpu.num_threads", value),)))
    assert failure.kind == kind
    assert "cpu.num_threads" in failure.message


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_the_thread_setting_is_seen_to_take_effect(loads: Loads, write_model: WriteModel, threads: int) -> None:
    assert loads(write_model(example_models.mobilenet_like()), Plan(threads=threads)).extra_threads == threads - 1


@pytest.mark.parametrize("kernel", ["builtin", "reference"])
def test_kernels_agree(target: Target, write_model: WriteModel, kernel: str) -> None:
    path, outputs = write_model(example_models.mobilenet_like()), []
    x = np.random.default_rng(0).random((1, 32, 32, 3), np.float32).tobytes()
    for plan in (Plan(), Plan(kernel=kernel)):
        with target.start(plan) as runner:
            report = runner.load(path, Workload())
            outputs.append(np.frombuffer(runner.evaluate([x])[0], np.float32))
    assert report.placement is None
    np.testing.assert_allclose(outputs[1], outputs[0], atol=1e-5)


def test_memory_counts_what_the_model_takes(target: Target, write_model: WriteModel) -> None:
    megabytes = 32
    with target.start(Plan()) as runner:
        runner.load(write_model(example_models.stream(megabytes)), Workload())
        runner.block(0.0, 1)
        assert runner.peak_memory_mb is not None
        assert 3 * megabytes <= runner.peak_memory_mb < 6 * megabytes


@pytest.mark.parametrize(("memory_mb", "stage"), [(1, "start"), (10, "start"), (300, "load")])
def test_a_model_beyond_the_memory_limit_is_out_of_memory(
    fails: Fails, write_model: WriteModel, place: str, memory_mb: int, stage: str
) -> None:
    if place == "arm64":
        pytest.skip("the emulator does not limit memory")
    limits = Limits(answer_seconds=60.0, memory_mb=memory_mb)
    failure = fails(write_model(example_models.stream(200)), Plan(), limits=limits)
    assert (failure.stage, failure.kind, failure.code) == (stage, "out of memory", MEMORY_LIMIT)


def test_a_runner_holds_one_model_at_a_time(target: Target, write_model: WriteModel) -> None:
    path = write_model(example_models.one_operator())
    with target.start(Plan()) as runner:
        with pytest.raises(RunnerFailed, match="has not loaded a model"):
            runner.block(0.0, 1)
        runner.load(path, Workload())
        with pytest.raises(RunnerFailed, match="has loaded a model already"):
            runner.load(path, Workload())
        block = runner.block(0.0, 1)
        assert len(block.nanoseconds) == 1
        longer = runner.more_of(block, 30.0, 2, lead=1)
        assert longer.nanoseconds[:1] == block.nanoseconds
        assert len(longer.nanoseconds) == 3
        assert longer.conditions.wall_seconds > block.conditions.wall_seconds
        runner.unload()
        with pytest.raises(RunnerFailed, match="has not loaded a model"):
            runner.evaluate([bytes(16)])
        other = runner.load(write_model(example_models.no_signature()), Workload())
        values = np.arange(4, dtype=np.float32)
        (answer,) = runner.evaluate([values.data])
        assert np.frombuffer(answer, np.float32).tolist() == (2 * values).tolist(), other


@pytest.mark.parametrize("name", ["model_float.tflite", "model_int8.tflite"])
def test_variable_tensors_run_through_the_classic_interface(loads: Loads, name: str) -> None:
    report = loads(cases_file(f"06_mnist_lstm/{name}"), Plan(threads=2))
    assert (report.api, report.extra_threads, report.placement) == ("Interpreter", 1, None)


def test_samples_do_not_color_each_other_through_variable_tensors(target: Target) -> None:
    path = cases_file("06_mnist_lstm/model_float.tflite")
    x = np.random.default_rng(0).random((1, 28, 28), np.float32).tobytes()
    with target.start(Plan()) as runner:
        runner.load(path, Workload())
        runner.block(0.0, 3)
        assert runner.evaluate([x]) == runner.evaluate([x])


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("face_landmark_with_attention_unresolved_custom_op", "needs the custom operator Landmarks2TransformMatrix"),
        ("tflm_person_detect_rejected_by_litert", "quantized_dimension must be in range"),
        ("wiki40b_flex_op", "Tensor 'input_25' has the type string"),
    ],
)
def test_real_models_that_cannot_run_say_why(fails: Fails, name: str, words: str) -> None:
    failure = fails(cases_file(f"edge/{name}.tflite"), Plan())
    assert (failure.stage, failure.kind) == ("load", "model")
    assert words in failure.message
