"""The generated C++: compiled, linked with libLiteRt.so and run, it gives the outputs that Python gives."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from generated import bundle_of
from tests import example_models
from tests.model_builder import ModelBuilder

import hasten
from hasten.bundle.code import snippet_in
from hasten.bundle.record import Bundle, BundleTensor
from hasten.core.plan import Plan, Workload
from hasten.demo import MODEL
from hasten.engine.accelerators import process_environment
from hasten.engine.library import load

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="g++ is not installed")
_COMPILE = ("g++", "-std=c++17", "-Wall", "-Wextra", "-Wpedantic", "-Werror")


def _compiled(bundle: Bundle) -> Path:
    source, program = bundle.folder / "code" / "fast_model.cpp", bundle.folder / "fast_model"
    folder = load().folder
    libraries = [f"-L{folder}", "-lLiteRt", f"-Wl,-rpath,{folder}", "-ldl"]
    command = [*_COMPILE, "-DFAST_MODEL_MAIN", str(source), "-o", str(program), *libraries]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return program


def _vectors(bundle: Bundle) -> tuple[list[Path], dict[str, np.ndarray]]:
    """Files with values for the inputs, and the outputs that Python computes from them."""
    random, paths = np.random.default_rng(1), []
    with hasten.Runner(bundle.folder, Plan(threads=bundle.plan.threads, kernel=bundle.plan.kernel)) as runner:
        for number, array in enumerate(runner.inputs.values()):
            array[...] = random.random(array.shape) if array.dtype.kind == "f" else random.integers(0, 100, array.shape)
            paths.append(bundle.folder / f"input{number}.bin")
            array.tofile(paths[-1])
        runner.run()
        return paths, {name: array.copy() for name, array in runner.outputs.items()}


def _run(program: Path, *arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [str(program), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, **environment})


def _outputs(bundle: Bundle, inputs: list[Path], **environment: str) -> list[np.ndarray]:
    paths = [bundle.folder / f"output{number}.bin" for number in range(len(bundle.outputs))]
    done = _run(_compiled(bundle), bundle.model_path, *inputs, *paths, **environment)
    assert done.returncode == 0, done.stderr
    return [
        np.fromfile(path, tensor.dtype).reshape(tensor.shape)
        for path, tensor in zip(paths, bundle.outputs, strict=True)
    ]


@pytest.mark.parametrize(
    ("content", "plan", "workload"),
    [
        pytest.param(MODEL.read_bytes(), Plan(), Workload(), id="demo"),
        pytest.param(example_models.one_operator(), Plan(kernel="builtin"), Workload(), id="two inputs"),
        pytest.param(
            example_models.mobilenet_like(dtype="int8"), Plan(threads=2), Workload(), id="int8 on two threads"
        ),
        pytest.param(example_models.two_signatures(), Plan(), Workload(signature="multiply"), id="second signature"),
        pytest.param(example_models.no_signature(), Plan(cores=(0,)), Workload(), id="no signature, pinned"),
        pytest.param(example_models.dynamic_batch(), Plan(), Workload(shapes=(("x", (5, 8, 8, 3)),)), id="other shape"),
        pytest.param(example_models.branch(), Plan(), Workload(), id="bool and scalar"),
    ],
)
def test_outputs_equal_those_of_python(tmp_path: Path, content: bytes, plan: Plan, workload: Workload) -> None:
    bundle = bundle_of(tmp_path, content, plan, workload)
    inputs, expected = _vectors(bundle)
    for found, values in zip(_outputs(bundle, inputs), expected.values(), strict=True):
        np.testing.assert_array_equal(found, values)


@pytest.mark.parametrize("accelerator", ["gpu", "npu"])
def test_an_accelerator_computes_the_same_or_is_missed(tmp_path: Path, accelerator: str) -> None:
    if accelerator == "npu" and importlib.util.find_spec("openvino") is None:
        pytest.skip("OpenVINO is an extra, and not installed")
    if accelerator == "gpu" and not Path("/usr/lib/chromium/vk_swiftshader_icd.json").exists():
        pytest.skip("no GPU, and no software device for Vulkan")
    plan = Plan(accelerator=accelerator, cache=str(tmp_path / "cache"))
    bundle = bundle_of(tmp_path, example_models.mobilenet_like(), plan)
    inputs, expected = _vectors(bundle)
    (found,) = _outputs(bundle, inputs, **process_environment(plan))
    np.testing.assert_allclose(found, next(iter(expected.values())), atol=1e-2)


def test_what_is_wrong_is_said_and_gives_an_exit_code(tmp_path: Path) -> None:
    bundle = bundle_of(tmp_path, example_models.one_operator())
    inputs, _ = _vectors(bundle)
    program, output, other, torn = _compiled(bundle), tmp_path / "y", tmp_path / "other.tflite", tmp_path / "torn"
    other.write_bytes(example_models.pass_through("int8"))
    torn.write_bytes(bytes(100))
    (tmp_path / "short").write_bytes(b"1234")
    two = ModelBuilder()
    two.output(two.add(two.input("a", (1, 4)), two.input("b", (1, 8, 4))), "sum")
    (tmp_path / "shape.tflite").write_bytes(two.build())
    for arguments, code, said in (
        ((bundle.model_path,), 2, "MODEL INPUT0 INPUT1 OUTPUT0"),
        ((tmp_path / "gone.tflite", *inputs, output), 1, "gone.tflite cannot be opened."),
        ((torn, *inputs, output), 1, "Loading the model failed with LiteRT status"),
        ((other, *inputs, output), 1, "its number of inputs is 1."),
        ((tmp_path / "shape.tflite", *inputs, output), 1, 'is "b" (float32 1x8x4), not "b" (float32 1x4).'),
        ((bundle.model_path, tmp_path / "short", inputs[1], output), 1, "short has 4 bytes, not 16."),
        ((bundle.model_path, tmp_path / "gone", inputs[1], output), 1, "gone cannot be opened."),
        ((bundle.model_path, *inputs, tmp_path / "no" / "folder"), 1, "folder cannot be written."),
    ):
        done = _run(program, *arguments)
        assert done.returncode == code, done.stderr
        assert said in done.stderr


def test_names_of_any_kind_stay_inside_their_literals(tmp_path: Path) -> None:
    odd = BundleTensor('a"b\\c$d\n*/??/é', "float32", (1, 4))
    plan = Plan(options=(("cpu.flags", "1"),), cache='/tmp/"quoted"')
    bundle = Bundle(tmp_path, plan=plan, workload=Workload(signature='"'), inputs=(odd,), outputs=(odd,))
    source = tmp_path / "fast_model.cpp"
    source.write_text(snippet_in("cpp", bundle))
    done = subprocess.run([*_COMPILE, "-fsyntax-only", source], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert '"a\\042b\\134c\\044d\\n*/\\077\\077/\\303\\251"' in source.read_text()
