"""An accelerator whose libraries are missing: the failure names them and the command that installs them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests import example_models

from hasten.core.failure import NOT_INSTALLED, Failure, RunnerFailed
from hasten.core.plan import Plan, Workload
from hasten.targets.local import LocalTarget

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model.tflite"
    path.write_bytes(example_models.one_operator())
    return path


def failure_on(accelerator: str, model: Path) -> Failure:
    with LocalTarget().start(Plan(accelerator=accelerator)) as runner, pytest.raises(RunnerFailed) as caught:
        runner.load(model, Workload())
    return caught.value.failure


def test_openvino_of_another_release(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "packages/openvino/libs").mkdir(parents=True)
    (tmp_path / "packages/openvino/__init__.py").touch()
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "packages"))
    failure = failure_on("npu", model)
    assert (failure.stage, failure.kind) == ("load", "accelerator")
    assert "libopenvino.so.2631" in failure.message
    assert failure.hint == "Install it: pip install openvino==2026.3.1"
    assert failure.code == NOT_INSTALLED


def test_a_vulkan_device_that_is_missing(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("VK_DRIVER_FILES", "VK_ICD_FILENAMES"):
        monkeypatch.setenv(name, str(tmp_path / "none.json"))
    failure = failure_on("gpu", model)
    assert (failure.stage, failure.kind) == ("load", "accelerator")
    assert failure.code == NOT_INSTALLED
