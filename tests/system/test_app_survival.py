"""`hasten app` around programs that end in every way: what they print, their exit code, and what is still reported."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from commandline import Finished, hasten, interrupt, model_file, start

from hasten.practices.app.facts import COLD

APPS = Path(__file__).parent / "apps"
ENDS = APPS / "ends.py"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return model_file(tmp_path_factory.mktemp("model"), "one_operator")


def _watched(*program: str | Path, **options: Any) -> Finished:
    done = subprocess.run(
        [sys.executable, "-m", "hasten", "app", "--seconds", "0", "--json", "--", *map(str, program)],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
        **options,
    )
    return Finished(done.returncode, done.stdout, done.stderr)


@pytest.mark.parametrize(
    ("how", "code"), [("well", 0), ("exit", 7), ("os._exit", 9), ("exception", 1), ("crash", 128 + signal.SIGSEGV)]
)
def test_whatever_the_end_the_code_is_the_programs_and_the_runs_are_reported(how: str, code: int, model: Path) -> None:
    done = _watched(sys.executable, ENDS, how, model)
    assert done.code == code, done.errors
    found = done.json()
    assert found["exit_code"] == code
    assert found["models"][0]["runs"] >= 400
    assert found["split"]["inference_ms"] > 0
    assert Path(found["models"][0]["model"]) == model


def test_a_crash_before_the_first_run_still_names_the_model(model: Path) -> None:
    done = _watched(sys.executable, ENDS, "crash at once", model)
    assert done.code == 128 + signal.SIGSEGV
    assert [Path(entry["model"]) for entry in done.json()["models"]] == [model]


def test_a_traceback_is_the_one_that_the_program_would_print_unwatched(model: Path) -> None:
    plain = subprocess.run(
        [sys.executable, str(ENDS), "exception", str(model)], capture_output=True, text=True, check=False
    )
    watched = _watched(sys.executable, ENDS, "exception", model)
    assert plain.returncode == watched.code == 1
    assert plain.stderr.splitlines()[-5:] == watched.errors.splitlines()[-5:]
    assert "watcher" not in watched.errors


def test_output_passes_through_and_the_report_is_on_standard_error(model: Path) -> None:
    done = hasten("app", "--seconds", "0", "--", sys.executable, ENDS, "well", model)
    assert done.output == "out\n"
    assert done.errors.startswith("err\n")
    assert "is inference" in done.errors
    assert max(map(len, done.errors.splitlines())) <= 80


def test_with_json_the_document_alone_is_on_standard_output(model: Path) -> None:
    done = _watched(sys.executable, ENDS, "well", model)
    assert {"split", "findings", "trace", "overhead", "frames"} <= set(done.json())
    assert "out\n" in done.errors


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_processes_of_multiprocessing_are_seen(method: str, model: Path) -> None:
    found = _watched(sys.executable, ENDS, f"processes-{method}", model).json()
    assert found["exit_code"] == 0
    assert found["processes"] >= 3
    assert found["models"][0]["runs"] == 4 * 400


def test_threads_are_told_apart(model: Path) -> None:
    found = _watched(sys.executable, ENDS, "threads", model).json()
    runs = {row["thread"]: row["runs"] for row in found["threads"]}
    assert [runs[f"worker {number}"] for number in range(3)] == [20_000] * 3


def test_asyncio_with_an_executor_has_no_fault(model: Path) -> None:
    found = _watched(sys.executable, ENDS, "asyncio", model).json()
    assert found["models"][0]["runs"] == 800
    # Both threads load the model at once, so that a first run may wait for the other one: that one is late indeed.
    assert {fault["rule"] for fault in found["findings"]} <= {COLD}


def test_ctrl_c_ends_the_program_and_what_was_seen_is_reported(model: Path) -> None:
    process = start("app", "--seconds", "0", "--", sys.executable, ENDS, "forever", model)
    assert process.stdout is not None
    while process.stdout.readline() != "round\n":
        assert process.poll() is None
    interrupt(process)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "is inference" in errors
    assert "rounds, median" in errors


@pytest.mark.slow
def test_a_signal_to_hasten_reaches_the_program(model: Path) -> None:
    process = start("app", "--seconds", "0", "--", sys.executable, ENDS, "forever", model)
    assert process.stdout is not None
    while process.stdout.readline() != "round\n":
        assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGTERM
    assert "is inference" in errors


def test_a_module_and_a_console_script_are_programs_too(model: Path, tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(APPS)}
    found = _watched(sys.executable, "-m", "ends", "well", model, env=environment).json()
    assert found["models"][0]["runs"] == 400
    script = tmp_path / "tool"
    script.write_text(f"#!{sys.executable}\n" + ENDS.read_text())
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    assert _watched(script, "well", model).json()["models"][0]["runs"] == 400


@pytest.mark.parametrize("package", ["tflite_runtime.interpreter", "tensorflow"])
def test_other_packages_are_watched_under_their_own_names(package: str, model: Path) -> None:
    """With stand-ins for the packages; see apps/standins/README.md."""
    environment = {**os.environ, "PYTHONPATH": str(APPS / "standins")}
    found = _watched(sys.executable, ENDS, f"package:{package}", model, env=environment).json()
    assert found["models"][0]["runs"] == 400
    assert found["models"][0]["package"].startswith(package.split(".")[0])


def test_the_environments_own_sitecustomize_still_runs(model: Path, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import sys; print('customised', file=sys.stderr)\n")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = _watched(sys.executable, ENDS, "well", model, env=environment)
    assert "customised\nout\n" in done.errors
    assert done.json()["models"][0]["runs"] == 400


def test_a_program_without_litert_and_one_that_cannot_be_watched() -> None:
    found = _watched(sys.executable, "-c", "print(sum(range(10**6)))").json()
    assert found["models"] == [] == found["findings"]
    assert found["finding"]["verdict"] == "not examined"
    assert _watched("true").json()["threads"] == []


@pytest.mark.parametrize("words", [["app"], ["app", "--", "no-such-program"], ["app", "--seconds", "-1", "--", "true"]])
def test_wrong_usage(words: list[str]) -> None:
    assert hasten(*words).code == 2


def test_help_of_the_program_is_the_programs() -> None:
    assert "usage: hasten app" in hasten("app", "--help").output
    assert "usage: hasten" not in hasten("app", "--seconds", "0", "--", sys.executable, "-c", "pass", "--help").output
