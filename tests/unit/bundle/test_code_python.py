"""The generated Python gives the outputs of hasten.Runner, as a module and as a program."""

from __future__ import annotations

import ast
import importlib.util
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from generated import bundle_of
from tests import example_models

import hasten
from hasten.bundle.code import snippet_in
from hasten.bundle.record import Bundle, BundleTensor
from hasten.core.plan import Plan, Workload

if TYPE_CHECKING:
    from pathlib import Path


def _module(bundle: Bundle) -> Any:
    path = bundle.folder / "code" / "run_model.py"
    spec = importlib.util.spec_from_file_location("generated_model", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("content", "plan", "workload"),
    [
        pytest.param(example_models.mobilenet_like(), Plan(threads=2), Workload(), id="two threads"),
        pytest.param(example_models.mobilenet_like(), Plan(kernel="builtin"), Workload(), id="built-in kernels"),
        pytest.param(example_models.mobilenet_like(), Plan(kernel="reference"), Workload(), id="reference kernels"),
        pytest.param(example_models.one_operator(), Plan(cores=(0,)), Workload(), id="two inputs, pinned"),
        pytest.param(example_models.mobilenet_like(dtype="int8"), Plan(), Workload(), id="int8"),
        pytest.param(example_models.no_signature(), Plan(), Workload(), id="no signature"),
        pytest.param(example_models.dynamic_batch(), Plan(), Workload(shapes=(("x", (5, 8, 8, 3)),)), id="other shape"),
    ],
)
def test_litert_alone_gives_the_outputs_of_the_runner(
    tmp_path: Path, content: bytes, plan: Plan, workload: Workload
) -> None:
    bundle, before = bundle_of(tmp_path, content, plan, workload), os.sched_getaffinity(0)
    try:
        model = _module(bundle).FastModel()
    finally:
        os.sched_setaffinity(0, before)
    random = np.random.default_rng(1)
    with hasten.Runner(bundle.folder) as runner:
        for name, array in runner.inputs.items():
            array[...] = random.random(array.shape) if array.dtype.kind == "f" else random.integers(0, 9, array.shape)
            model.input(name)[...] = array
        runner.run()
        model.run()
        for name, array in runner.outputs.items():
            np.testing.assert_allclose(model.output(name), array, rtol=1e-4, atol=1e-6)
    assert "import hasten" not in (bundle.folder / "code" / "run_model.py").read_text()


def test_other_plans_go_through_the_runner(tmp_path: Path) -> None:
    plan = Plan(threads=2, options=(("cpu.flags", "0"),))
    bundle = bundle_of(tmp_path, example_models.two_signatures(), plan, Workload(signature="multiply"))
    one, two = (np.full((1, 4), value, np.float32) for value in (1, 2))
    with _module(bundle).load() as model:
        assert (model.plan, model.workload) == (plan, bundle.workload)
        assert model(a=one, b=two)["sum"].tolist() == [[3.0] * 4]


def test_it_runs_as_a_program(tmp_path: Path) -> None:
    bundle = bundle_of(tmp_path, example_models.mobilenet_like())
    command = [sys.executable, str(bundle.folder / "code" / "run_model.py")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("probabilities [")


def test_a_snippet_names_the_model_where_it_lies(tmp_path: Path) -> None:
    bundle = bundle_of(tmp_path, example_models.one_operator())
    path = str(bundle.model_path)
    for through_runner in (False, True):
        text = snippet_in("python", bundle, path, runner=through_runner)
        assert f"Path({path!r})" in text
        assert ("import hasten" in text) == through_runner
        exec(compile(text, "snippet", "exec"), {"__name__": "__main__"})


def test_names_of_any_kind_stay_inside_their_literals(tmp_path: Path) -> None:
    odd = BundleTensor('a"b\\c$d\n*/é', "float32", (1, 4))
    bundle = Bundle(tmp_path, 'odd """ name\n.tflite', inputs=(odd,), outputs=(odd,))
    for through_runner in (False, True):
        tree = ast.parse(snippet_in("python", bundle, runner=through_runner))
        literals = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)]
        assert any(isinstance(value, str) and odd.name in value for value in literals)
