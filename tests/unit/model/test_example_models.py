"""The ready-made models run in LiteRT, in both of its interfaces, and have the feature that they are for."""

from __future__ import annotations

import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.compiled_model import CompiledModel
from ai_edge_litert.interpreter import Interpreter
from litert_run import inputs_for, invoke, loaded, run
from tests import example_models

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


NETWORKS = {
    "one_operator": example_models.one_operator,
    "mobilenet_like": example_models.mobilenet_like,
    "mobilenet_like_int8": lambda: example_models.mobilenet_like(dtype="int8"),
    "efficientnet_like": example_models.efficientnet_like,
    "efficientnet_like_int8": lambda: example_models.efficientnet_like(dtype="int8"),
    "matmul_chain": lambda: example_models.matmul_chain(64, 128, 3),
    "matmul_chain_int8": lambda: example_models.matmul_chain(64, 128, 3, dtype="int8"),
    "stream": lambda: example_models.stream(1, 2),
    "stream_int8": lambda: example_models.stream(1, 2, dtype="int8"),
    "repeated": lambda: example_models.repeated(4),
    "repeated_int8": lambda: example_models.repeated(4, dtype="int8"),
    "accumulator": example_models.accumulator,
    "branch": example_models.branch,
    "counting_loop": example_models.counting_loop,
    "dynamic_batch": example_models.dynamic_batch,
    "no_signature": example_models.no_signature,
    "old_schema": example_models.old_schema,
    "two_signatures": example_models.two_signatures,
}


@pytest.mark.parametrize("name", NETWORKS)
def test_samples_run_in_both_apis_and_answer_something(name: str, tmp_path: Path) -> None:
    path = tmp_path / "model.tflite"
    path.write_bytes(NETWORKS[name]())
    _, outputs = run(path.read_bytes())
    for output in outputs:
        assert np.isfinite(output.astype(np.float64)).all()
        assert np.std(output) > 0
    compiled = CompiledModel.from_file(str(path))
    for index in range(compiled.get_num_signatures()):
        compiled.run_by_index(index, compiled.create_input_buffers(index), compiled.create_output_buffers(index))


def test_both_apis_compute_the_same() -> None:
    model = example_models.mobilenet_like()
    (x,), (expected,) = run(model)
    compiled = CompiledModel.from_buffer(model)
    feeds, answers = compiled.create_input_buffers(0), compiled.create_output_buffers(0)
    feeds[0].write(x)
    compiled.run_by_index(0, feeds, answers)
    np.testing.assert_allclose(answers[0].read(expected.size, np.float32), expected.reshape(-1), rtol=1e-5)


def test_int8_sample_is_the_float_sample_quantized() -> None:
    _, (expected,) = run(example_models.mobilenet_like())
    _, (stored,) = run(example_models.mobilenet_like(dtype="int8"))
    np.testing.assert_allclose((stored.astype(np.float64) + 128) / 256, expected, atol=0.05)


def test_accumulator_remembers() -> None:
    interpreter = loaded(example_models.accumulator())
    answers = [invoke(interpreter, [np.full((1, 4), n, dtype=np.float32)])[0][0, 0] for n in (1, 2, 3)]
    assert answers == [1, 3, 6]


def test_control_flow() -> None:
    x = np.arange(4, dtype=np.float32).reshape(1, 4)
    assert invoke(loaded(example_models.counting_loop(3)), [x])[0].tolist() == (8 * x).tolist()
    branch = loaded(example_models.branch())
    assert invoke(branch, [np.array(True), x])[0].tolist() == (x + x).tolist()
    assert invoke(branch, [np.array(False), x])[0].tolist() == (x * x).tolist()


def test_signatures_name_inputs_and_outputs() -> None:
    interpreter = loaded(example_models.two_signatures())
    assert interpreter.get_signature_list() == {
        "double": {"inputs": ["x"], "outputs": ["doubled"]},
        "multiply": {"inputs": ["a", "b"], "outputs": ["product", "sum"]},
    }
    ones = np.ones((1, 4), dtype=np.float32)
    answers = interpreter.get_signature_runner("multiply")(a=3 * ones, b=2 * ones)
    assert {name: array[0, 0] for name, array in answers.items()} == {"product": 6, "sum": 5}
    assert loaded(example_models.no_signature()).get_signature_list() == {}


def test_dynamic_batch_is_resized() -> None:
    interpreter = Interpreter(model_content=example_models.dynamic_batch())
    (detail,) = interpreter.get_input_details()
    assert detail["shape"].tolist() == [1, 8, 8, 3]
    assert detail["shape_signature"].tolist() == [-1, 8, 8, 3]
    interpreter.resize_tensor_input(detail["index"], (5, 8, 8, 3), strict=True)
    interpreter.allocate_tensors()
    (y,) = invoke(interpreter, inputs_for(interpreter.get_input_details()))
    assert y.shape == (5, 3)


def test_old_schema_has_no_new_operator_code() -> None:
    codes = schema.ModelT.InitFromPackedBuf(example_models.old_schema(), 0).operatorCodes
    assert [code.builtinCode for code in codes] == [0, 0, 0]
    names = schema.BuiltinOperator
    assert [code.deprecatedBuiltinCode for code in codes] == [names.CONV_2D, names.RESHAPE, names.SOFTMAX]


@pytest.mark.parametrize(
    ("model", "message"),
    [(example_models.custom_operator, "custom op: Unknown"), (example_models.flex_operator, "Flex")],
)
def test_operators_without_kernel_are_refused_by_name(model: Callable[[], bytes], message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        loaded(model())


def test_aborting_model_kills_its_process(tmp_path: Path) -> None:
    path = tmp_path / "model.tflite"
    path.write_bytes(example_models.aborting())
    program = (
        "import sys; from ai_edge_litert.interpreter import Interpreter;"
        "i = Interpreter(sys.argv[1]); i.allocate_tensors(); i.invoke()"
    )
    ended = subprocess.run([sys.executable, "-c", program, str(path)], capture_output=True, check=False)
    assert ended.returncode == -signal.SIGABRT


@pytest.mark.parametrize("dtype", example_models.PASS_THROUGH_TYPES)
def test_every_element_type_passes_through(dtype: str) -> None:
    interpreter = loaded(example_models.pass_through(dtype))
    data = [[b"a", b"", b"bc", b"d"]] if dtype == "string" else [[1, 0, 1, 3]]
    x = np.array(data, dtype=None if dtype == "string" else dtype)
    (y,) = invoke(interpreter, [x])
    assert y.shape == (4, 1)
    assert y.reshape(-1).tolist() == x.reshape(-1).tolist()
    if dtype not in {"string", "complex128"}:
        compiled = CompiledModel.from_buffer(example_models.pass_through(dtype))
        compiled.run_by_index(0, compiled.create_input_buffers(0), compiled.create_output_buffers(0))


@pytest.mark.parametrize("dtype", sorted({*example_models.PASS_THROUGH_TYPES} - {"string", "uint64", "complex128"}))
def test_casts_to_float(dtype: str) -> None:
    (y,) = invoke(loaded(example_models.cast_to_float(dtype)), [np.array([[1, 0, 1, 1]], dtype=dtype)])
    assert y.tolist() == [[1, 0, 1, 1]]
