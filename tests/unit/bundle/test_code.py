"""The generated Python does what hasten.Runner does; what is written in which language."""

from __future__ import annotations

import importlib.util
import subprocess
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import hasten
from hasten.bundle.code import code_files, snippet_in
from hasten.bundle.folder import write_bundle, write_texts
from hasten.bundle.record import Bundle, BundleTensor
from hasten.core.errors import UsageError
from hasten.core.plan import Plan, Workload
from hasten.model import example_models

if TYPE_CHECKING:
    from pathlib import Path

_X = BundleTensor("x", "float32", (1, 32, 32, 3))
_Y = BundleTensor("probabilities", "float32", (1, 10))


def _bundle(folder: Path, plan: Plan, workload: Workload = Workload(), content: bytes = b"", **parts: Any) -> Bundle:
    model = folder / "some.tflite"
    model.write_bytes(content or example_models.mobilenet_like())
    tensors = {"inputs": (_X,), "outputs": (_Y,), **parts}
    bundle = write_bundle(model, Bundle(folder / "out", plan=plan, workload=workload, **tensors))
    write_texts(bundle.folder, code_files(bundle))
    return bundle


def _module(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(f"generated_{path.parent.parent.parent.name}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("plan", [Plan(threads=2), Plan(kernel="builtin"), Plan(kernel="reference"), Plan(cores=(0,))])
def test_the_python_needs_litert_only_and_gives_the_runners_outputs(tmp_path: Path, plan: Plan) -> None:
    import os

    before = os.sched_getaffinity(0)
    bundle = _bundle(tmp_path, plan)
    try:
        model = _module(bundle.folder / "code" / "run_model.py").FastModel()
    finally:
        os.sched_setaffinity(0, before)
    values = np.random.default_rng(1).random(_X.shape, np.float32)
    model.input("x")[...] = values
    model.run()
    assert "import hasten" not in (bundle.folder / "code" / "run_model.py").read_text()
    with hasten.Runner(bundle.folder) as runner:
        np.testing.assert_allclose(model.output("probabilities"), runner(values), rtol=1e-4, atol=1e-6)


def test_the_python_for_other_plans_goes_through_the_runner(tmp_path: Path) -> None:
    plan = Plan(threads=2, options=(("cpu.flags", "0"),))
    bundle = _bundle(tmp_path, plan)
    values = np.random.default_rng(1).random(_X.shape, np.float32)
    with _module(bundle.folder / "code" / "run_model.py").load() as model, hasten.Runner(bundle.folder) as runner:
        assert model.plan == plan
        np.testing.assert_array_equal(model(values), runner(values))


def test_shapes_of_the_workload_are_set(tmp_path: Path) -> None:
    content = example_models.dynamic_batch()
    path = tmp_path / "d.tflite"
    path.write_bytes(content)
    with hasten.Runner(path) as runner:
        ((name, array),) = runner.inputs.items()
    shape = (5, *array.shape[1:])
    given, read = BundleTensor(name, "float32", shape), BundleTensor("y", "float32", (5, 3))
    bundle = _bundle(tmp_path, Plan(), Workload(shapes=((name, shape),)), content, inputs=(given,), outputs=(read,))
    model = _module(bundle.folder / "code" / "run_model.py").FastModel()
    with hasten.Runner(bundle.folder) as runner:
        (result,) = runner.outputs
        values = np.random.default_rng(1).random(shape, np.float32)
        model.input(name)[...] = values
        model.run()
        np.testing.assert_allclose(model.output(result), runner(values), rtol=1e-4)
        assert model.output(result).shape[0] == 5


def test_a_model_without_signature_is_found_by_its_tensors(tmp_path: Path) -> None:
    content = example_models.no_signature()
    model_path = tmp_path / "n.tflite"
    model_path.write_bytes(content)
    with hasten.Runner(model_path) as runner:
        inputs = tuple(BundleTensor(n, str(a.dtype), a.shape) for n, a in runner.inputs.items())
        outputs = tuple(BundleTensor(n, str(a.dtype), a.shape) for n, a in runner.outputs.items())
        bundle = _bundle(tmp_path, Plan(), content=content, inputs=inputs, outputs=outputs)
        model = _module(bundle.folder / "code" / "run_model.py").FastModel()
        for tensor in inputs:
            model.input(tensor.name)[...] = 2
            runner.inputs[tensor.name][...] = 2
        model.run()
        runner.run()
        for tensor in outputs:
            np.testing.assert_allclose(model.output(tensor.name), runner.outputs[tensor.name], rtol=1e-4)


def test_the_python_runs_as_a_program(tmp_path: Path) -> None:
    import sys

    bundle = _bundle(tmp_path, Plan())
    command = [sys.executable, str(bundle.folder / "code" / "run_model.py")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("probabilities [")


def test_code_that_cannot_follow_a_plan_is_not_written(tmp_path: Path) -> None:
    for plan in (Plan(kernel="reference"), Plan(delegate="libdelegate.so")):
        bundle = Bundle(tmp_path, plan=plan, inputs=(_X,), outputs=(_Y,))
        assert list(code_files(bundle)) == ["code/run_model.py"]
        for language in ("cpp", "kotlin"):
            with pytest.raises(UsageError, match=f"no {language} code for the plan"):
                snippet_in(language, bundle)
    assert len(code_files(Bundle(tmp_path, inputs=(_X,), outputs=(_Y,)))) == 3


def test_a_snippet_names_the_model_where_it_lies(tmp_path: Path) -> None:
    bundle = _bundle(tmp_path, Plan())
    path = str(bundle.model_path)
    for through_runner in (False, True):
        text = snippet_in("python", bundle, path, runner=through_runner)
        assert f"Path({path!r})" in text
        assert ("import hasten" in text) == through_runner
        exec(compile(text, "snippet", "exec"), {"__name__": "__main__"})


def test_other_languages_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no code in 'fortran'"):
        snippet_in("fortran", _bundle(tmp_path, Plan()))
