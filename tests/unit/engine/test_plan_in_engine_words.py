"""A plan in the engine's own words: options, the process's environment, and shapes."""

from __future__ import annotations

import importlib.machinery
import importlib.util
from typing import TYPE_CHECKING, Any

import pytest

from hasten.core.errors import AcceleratorError, UsageError
from hasten.core.plan import Plan, Workload
from hasten.engine import abi, accelerators
from hasten.engine.options import hardware_bits, option_texts
from hasten.engine.shapes import check_shapes, closed_shape, shape_text

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("VK_DRIVER_FILES", "VK_ICD_FILENAMES", "LD_LIBRARY_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(accelerators, "_GPU_DEVICES", ())


def pretend_openvino(monkeypatch: pytest.MonkeyPatch, folder: Path | None) -> None:
    spec: Any = None
    if folder is not None:
        spec = importlib.machinery.ModuleSpec("openvino", None, is_package=True)
        spec.submodule_search_locations = [str(folder)]
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: spec)


def test_the_cpus_settings_are_toml() -> None:
    texts = option_texts(Plan(threads=3, kernel="reference"), profiling=True)
    assert texts["xnnpack"] == 'num_threads = 3\nkernel_mode = "reference"\n'
    assert "enable_profiling = true" in texts["runtime_options_string"]
    assert set(texts) == {"xnnpack", "runtime_options_string"}


def test_options_reach_their_group_and_win() -> None:
    options = (("cpu.flags", "4"), ("gpu.backend", "1"))
    texts = option_texts(Plan(accelerator="gpu", precision="fp16", options=options), profiling=False)
    assert "flags = 4" in texts["xnnpack"]
    assert texts["gpu_options"] == "precision = 1\nbackend = 1\n"


@pytest.mark.parametrize("key", ["tpu.speed", "cpu", "cpu."])
def test_an_option_of_no_group_is_a_wrong_usage(key: str) -> None:
    with pytest.raises(UsageError, match="no option group"):
        option_texts(Plan(options=((key, "1"),)), profiling=False)


def test_an_option_that_the_engine_would_ignore_is_a_wrong_usage() -> None:
    with pytest.raises(UsageError, match=r"no option 'cpu\.nosuch'"):
        option_texts(Plan(options=(("cpu.nosuch", "1"),)), profiling=False)


def test_what_nothing_else_takes_runs_on_the_cpu() -> None:
    assert hardware_bits(Plan()) == abi.CPU
    assert hardware_bits(Plan(accelerator="gpu")) == abi.CPU | abi.GPU
    assert hardware_bits(Plan(accelerator="npu")) == abi.CPU | abi.NPU
    assert hardware_bits(Plan(accelerator="npu", delegate="lib.so")) == abi.CPU


def test_the_cpu_needs_nothing_and_neither_does_a_delegate() -> None:
    assert accelerators.process_environment(Plan()) == {}
    assert accelerators.process_environment(Plan(accelerator="npu", delegate="lib.so")) == {}


@pytest.mark.parametrize("has_package", [False, True], ids=["no package", "another release"])
def test_an_npu_without_its_library_names_the_command(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, has_package: bool
) -> None:
    pretend_openvino(monkeypatch, tmp_path if has_package else None)
    with pytest.raises(AcceleratorError, match="OpenVINO") as caught:
        accelerators.process_environment(Plan(accelerator="npu"))
    assert caught.value.hint == "Install it: pip install openvino==2026.3.1"


def test_an_npus_library_comes_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "libs").mkdir()
    (tmp_path / "libs/libopenvino.so.2631").touch()
    pretend_openvino(monkeypatch, tmp_path)
    monkeypatch.setenv("LD_LIBRARY_PATH", "/mine")
    assert accelerators.process_environment(Plan(accelerator="npu")) == {"LD_LIBRARY_PATH": f"{tmp_path}/libs:/mine"}


@pytest.mark.usefixtures("no_gpu")
def test_a_machine_without_gpu_names_the_command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(accelerators, "_SWIFTSHADER", tmp_path / "none.json")
    with pytest.raises(AcceleratorError, match="no visible GPU") as caught:
        accelerators.process_environment(Plan(accelerator="gpu"))
    assert "apt-get install chromium" in caught.value.hint


@pytest.mark.usefixtures("no_gpu")
def test_a_machine_without_gpu_gets_the_software_device(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    device = tmp_path / "device.json"
    device.touch()
    monkeypatch.setattr(accelerators, "_SWIFTSHADER", device)
    found = accelerators.process_environment(Plan(accelerator="gpu"))
    assert found["VK_DRIVER_FILES"] == found["VK_ICD_FILENAMES"] == str(device)
    assert found["LD_LIBRARY_PATH"] == str(tmp_path)


@pytest.mark.usefixtures("no_gpu")
def test_the_users_own_choice_of_device_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VK_DRIVER_FILES", "/mine.json")
    assert "VK_DRIVER_FILES" not in accelerators.process_environment(Plan(accelerator="gpu"))


def test_open_dimensions_become_one() -> None:
    assert closed_shape((-1, 8, 0, 3)) == (1, 8, 0, 3)
    assert shape_text((-1, 224, 224, 3)) == "?x224x224x3"
    assert shape_text(()) == "scalar"


@pytest.mark.parametrize("shape", [(1,), (1, 0), (1, -1), (1, 2**31), (1, 2, 3)])
def test_shapes_that_no_model_could_take(shape: tuple[int, ...]) -> None:
    with pytest.raises(UsageError, match="Input 'x'"):
        check_shapes(Workload(shapes=(("x", shape),)), {"x": (-1, 4)})
