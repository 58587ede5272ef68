"""hasten.Runner on accelerators, in a process that is running already; and on every type that a tensor can have."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tests import example_models

import hasten
from hasten.core.errors import AcceleratorError, HastenError
from hasten.core.plan import Plan
from hasten.deploy.runner import prepare_process
from hasten.engine import accelerators

_PROGRAM = """
import sys
import numpy as np
import hasten

x = np.random.default_rng(0).random((1, 32, 32, 3), np.float32)
with hasten.Runner(sys.argv[1]) as cpu:
    expected = cpu(x)
runner = hasten.Runner(sys.argv[1], hasten.Plan(accelerator=sys.argv[2]))
runner.inputs["x"][...] = x
runner.run()
print(np.allclose(runner.outputs["probabilities"], expected, atol=1e-2), runner.zero_copy, flush=True)
import os
os._exit(0)  # drivers crash on unloading now and then
"""


def _needs(accelerator: str) -> None:
    if accelerator == "npu" and importlib.util.find_spec("openvino") is None:
        pytest.skip("OpenVINO is an extra, and not installed")
    if accelerator == "gpu" and not Path("/usr/lib/chromium/vk_swiftshader_icd.json").exists():
        pytest.skip("no GPU, and no software device for Vulkan")


@pytest.mark.parametrize("accelerator", ["npu", "gpu"])
def test_an_accelerator_works_without_starting_the_program_anew(tmp_path: Path, accelerator: str) -> None:
    _needs(accelerator)
    path = tmp_path / "model.tflite"
    path.write_bytes(example_models.mobilenet_like())
    command = [sys.executable, "-c", _PROGRAM, str(path), accelerator]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout.splitlines()[-1:] == ["True False"], done.stderr[-2000:]


def test_what_an_accelerator_lacks_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(AcceleratorError, match="OpenVINO, which is not installed"):
        prepare_process(Plan(accelerator="npu"))


def test_a_library_that_will_not_load_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "libopenvino.so.1").write_text("no library")
    monkeypatch.setattr(accelerators, "_openvino_libraries", lambda: tmp_path)
    with pytest.raises(AcceleratorError, match=r"libopenvino.so.1 cannot be loaded") as caught:
        prepare_process(Plan(accelerator="npu"))
    assert "LD_LIBRARY_PATH" in caught.value.hint


@pytest.mark.parametrize(
    "dtype", ["float32", "float16", "float64", "int8", "uint8", "int16", "int32", "int64", "bool", "complex64"]
)
def test_every_type_goes_in_and_out(tmp_path: Path, dtype: str) -> None:
    path = tmp_path / "same.tflite"
    path.write_bytes(example_models.pass_through(dtype))
    try:
        runner = hasten.Runner(path)
    except HastenError as error:
        pytest.skip(f"LiteRT does not run it: {error.message}")
    with runner:
        (name,) = runner.inputs
        values = np.array([[0, 1, 1, 0]]).astype(runner.inputs[name].dtype)
        found = runner(values)
        assert found.dtype == values.dtype == np.dtype(dtype)
        assert found.ravel().tolist() == values.ravel().tolist()
