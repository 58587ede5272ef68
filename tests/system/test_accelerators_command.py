"""`hasten accelerators` as a user calls it: rows of real runs, a delegate of one's own, wrong usage, Ctrl-C."""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
from commandline import CASES, finish, hasten, interrupt, model_file, start, wait_for_runners, wait_until_gone

from hasten.core.errors import AcceleratorError
from hasten.core.plan import Plan
from hasten.core.session import read_session
from hasten.engine.accelerators import process_environment
from hasten.targets.local import LocalTarget

if TYPE_CHECKING:
    from pathlib import Path

KEYS = {
    "name",
    "status",
    "placed_ops",
    "total_ops",
    "partitions",
    "max_error",
    "latency",
    "init_ms",
    "break_even_runs",
    "why",
}


def rows_of(found: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {row["name"]: row for row in found["rows"]}


def is_there(accelerator: str) -> bool:
    try:
        process_environment(Plan(accelerator=accelerator))
    except AcceleratorError:
        return False
    return True


def test_every_accelerator_has_a_row_from_real_runs(tmp_path: Path) -> None:
    session = tmp_path / "session.jsonl"
    shown = hasten("accelerators", "demo", "--seconds", "4", "--json", "--session", session)
    assert shown.code == 0, shown.errors
    found = shown.json()
    rows = rows_of(found)
    cores = LocalTarget().machine().cores
    all_cores = [f"xnnpack {cores} threads"] if cores > 1 else []
    assert list(rows) == ["xnnpack", *all_cores, "builtin", "reference", "ynnpack", "gpu", "npu"]
    assert all(set(row) >= KEYS for row in rows.values())
    for name in ("xnnpack", *all_cores, "builtin", *(name for name in ("gpu", "npu") if is_there(name))):
        row = rows[name]
        assert (row["status"], row["placed_ops"], row["total_ops"]) == ("runs", 66, 66)
        assert row["max_error"] < 0.1
        assert row["latency"]["ci95_ms"][0] is None or row["latency"]["ci95_ms"][0] <= row["latency"]["median_ms"]
    assert found["recommended"] in rows
    assert found["finding"]["practice"] == "accelerators"
    trials = read_session(session).lines
    assert [trial.kind for trial in trials[-2:]] == ["accelerators", "finding"]
    assert any(trial.kind == "measurement" and trial.label == "builtin" for trial in trials)


def test_what_is_missing_says_what_installs_it(tmp_path: Path) -> None:
    (tmp_path / "openvino").mkdir()
    (tmp_path / "openvino" / "__init__.py").touch()
    nowhere = str(tmp_path / "none.json")
    hidden = {"PYTHONPATH": str(tmp_path), "VK_DRIVER_FILES": nowhere, "VK_ICD_FILENAMES": nowhere}
    shown = hasten("accelerators", model_file(tmp_path, "one_operator"), "--seconds", "1", "--json", environment=hidden)
    rows = rows_of(shown.json())
    for name in ("gpu", "npu"):
        assert rows[name]["status"] == "missing"
        assert "install" in rows[name]["why"]
    assert shown.json()["finding"]["verdict"] == "not examined"


@pytest.mark.slow
def test_the_text_fits_a_terminal_and_names_other_vendors(tmp_path: Path) -> None:
    shown = hasten("accelerators", model_file(tmp_path, "counting_loop"), "--seconds", "1", "--all")
    assert shown.code == 0, shown.errors
    assert max(map(len, shown.output.splitlines())) <= 80
    assert "npu qualcomm" in shown.output
    assert "libLiteRtDispatch*.so" in shown.output


@pytest.mark.slow
def test_a_delegate_of_ones_own_from_nothing_to_a_row(tmp_path: Path) -> None:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler")
    shown = hasten("accelerators", "--new-delegate", "mine", cwd=tmp_path)
    assert shown.code == 0, shown.errors
    assert "hasten accelerators demo --delegate mine/build/libmydelegate.so" in shown.output
    library, source = tmp_path / "mine" / "libmydelegate.so", tmp_path / "mine" / "delegate.c"
    subprocess.run([compiler, "-O2", "-shared", "-fPIC", "-o", str(library), str(source)], check=True)
    found = hasten("accelerators", "demo", "--seconds", "1", "--json", "--delegate", library).json()
    row = rows_of(found)["libmydelegate.so"]
    assert (row["status"], row["placed_ops"], row["total_ops"]) == ("partial", 8, 66)
    assert row["max_error"] < 1e-5
    again = hasten("accelerators", "--new-delegate", "mine", cwd=tmp_path)
    assert again.code == 2
    assert "not an empty folder" in again.errors


@pytest.mark.slow
def test_the_size_from_which_on_it_pays(tmp_path: Path) -> None:
    found = hasten(
        "accelerators", model_file(tmp_path, "one_operator"), "--seconds", "20", "--pays-from", "--json"
    ).json()
    for name, row in rows_of(found).items():
        if name in ("gpu", "npu") and row["latency"]:
            assert len(row["ladder"]) == 4
            assert row["pays_from_macs"] in (None, *(point["macs"] for point in row["ladder"]))
        else:
            assert "ladder" not in row


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        ([], 2, "No model was given."),
        (["demo", "--seconds", "0"], 2, "must be a number above 0"),
        (["missing.tflite"], 3, "missing.tflite"),
    ],
)
def test_wrong_usage(words: list[str], code: int, message: str) -> None:
    shown = hasten("accelerators", *words)
    assert shown.code == code
    assert message in shown.errors


def test_a_model_that_nothing_runs_is_the_models_trouble(tmp_path: Path) -> None:
    shown = hasten("accelerators", model_file(tmp_path, "custom_operator"), "--seconds", "1")
    assert shown.code == 3
    assert "the custom operator Unknown" in shown.errors
    assert shown.output == ""


def test_control_c_leaves_what_was_found(tmp_path: Path) -> None:
    session = tmp_path / "session.jsonl"
    process = start("accelerators", model_file(tmp_path, "one_operator"), "--session", session)
    while process.poll() is None and not (session.exists() and b'"measurement"' in session.read_bytes()):
        pass
    interrupt(process)
    output, errors = finish(process, 15)
    assert process.returncode == 130
    assert "Interrupted." in errors
    assert "XNNPACK" in output
    assert read_session(session).lines[-1].kind == "finding"


@pytest.mark.parametrize("runners", [1, 4], ids=["checking", "later"])
def test_control_c_ends_it_and_every_runner(runners: int) -> None:
    process = start("accelerators", "demo")
    seen = wait_for_runners(process, runners)
    interrupt(process)
    output, errors = finish(process, 15)
    assert process.returncode == 130
    assert errors.splitlines()[-1] == "hasten: Interrupted."
    assert output == ""
    wait_until_gone(seen)


@pytest.mark.slow
def test_a_real_network_that_the_gpu_takes_in_part() -> None:
    path = CASES / "01_mobilenet_v1_025_imagenet" / "model_float.tflite"
    if not path.exists() or not is_there("gpu"):
        pytest.skip("the real model or the GPU is not there")
    row = rows_of(hasten("accelerators", path, "--seconds", "1", "--json").json())["gpu"]
    assert (row["status"], row["placed_ops"], row["total_ops"]) == ("partial", 29, 31)
    assert row["refused"] == ["SQUEEZE x1", "SOFTMAX x1"]
    assert row["placed_macs"] == 1.0
    assert row["max_error"] < 0.01
