"""Ctrl-C, runners that are killed or stopped, readers that go away: an end that is quick, clean and explained."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import signal
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest
from commandline import QUICK, finish, hasten, interrupt, model_file, start, wait_for_runners, wait_until_gone

from hasten.core.session import read_session
from hasten.demo import MODEL

# The first of about six processes of a bench is done after half a second, and the rest is still to come.
LONG = ("--seconds", "6")
QUICKLY_SECONDS = 15


@pytest.mark.parametrize("runners", [1, 2], ids=["starting", "measuring"])
@pytest.mark.parametrize("command", ["bench", "compare"])
def test_control_c_ends_it_at_once(command: str, runners: int) -> None:
    models = (MODEL,) if command == "bench" else (MODEL, "@threads=2")
    process = start(command, *models, *LONG)
    seen = wait_for_runners(process, runners)
    interrupt(process)
    output, errors = finish(process, QUICKLY_SECONDS)
    assert process.returncode == 130
    *progress, last = errors.splitlines()
    # The first process of a bench has measured something, the first of a pair nothing to compare.
    is_measured = (command, runners) == ("bench", 2)
    assert last == (
        "hasten: Interrupted. This is what was measured until then." if is_measured else "hasten: Interrupted."
    )
    assert all(line.startswith(("hasten: timing", "hasten: comparing")) for line in progress)
    assert ("latency" in output) == is_measured
    wait_until_gone(seen)


@pytest.mark.parametrize("module", ["hasten.cli.main", "argparse", "hasten.cli.bench", "hasten.core.plan"])
def test_control_c_while_modules_are_loading(module: str) -> None:
    """The signal comes at the moment when this module is asked for."""
    press = f"""
import os, signal, sys
class Press:
    def find_spec(self, name, path, target=None):
        if name == {module!r}:
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Press())
sys.argv = ["hasten", "bench", "nothing.tflite"]
from hasten.cli.start import entry_point
entry_point()
"""
    done = subprocess.run([sys.executable, "-c", press], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "hasten: Interrupted.\n")


def test_control_c_with_json_is_json(tmp_path: Path) -> None:
    process = start("trace", MODEL, *LONG, "--json", "-o", tmp_path / "trace.json")
    wait_for_runners(process, 2)
    interrupt(process)
    output, _ = finish(process, QUICKLY_SECONDS)
    assert json.loads(output)["error"]["exit_code"] == process.returncode == 130
    assert list(tmp_path.iterdir()) == []


def test_an_impatient_user(tmp_path: Path) -> None:
    session = tmp_path / "session.jsonl"
    process = start("bench", MODEL, *LONG, "--session", session)
    wait_for_runners(process, 2)
    for _ in range(3):
        if process.poll() is None:
            interrupt(process)
    _, errors = finish(process, QUICKLY_SECONDS)
    assert process.returncode in (130, -signal.SIGINT)
    assert "Traceback" not in errors
    assert read_session(session).lost_lines == 0


def test_a_killed_parent_leaves_no_runner() -> None:
    process = start("bench", MODEL, *LONG)
    seen = wait_for_runners(process, 2)
    process.kill()
    finish(process, QUICKLY_SECONDS)
    wait_until_gone(seen)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_the_system_ends_a_search_as_control_c_does(tmp_path: Path, number: signal.Signals) -> None:
    place = tmp_path / "temporary"
    place.mkdir()
    environment = {**os.environ, "TMPDIR": str(place)}
    process = start("quantize", MODEL, "-o", tmp_path / "out", env=environment)
    children: list[str] = []
    while not (children and any(place.glob("hasten-*/hasten-*"))):  # the quantizer is at work
        assert process.poll() is None
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    for _ in range(2):  # as `timeout` and a closed terminal do
        process.send_signal(number)
    _, errors = finish(process, QUICKLY_SECONDS)
    assert process.returncode == 128 + number
    assert "Interrupted" in errors
    assert "Traceback" not in errors
    assert list(place.iterdir()) == []
    assert not [pid for pid in children if Path(f"/proc/{pid}").exists()]


def test_a_signal_that_is_ignored_stays_ignored() -> None:
    process = start("bench", MODEL, *QUICK, preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    wait_for_runners(process, 1)
    process.send_signal(signal.SIGHUP)
    finish(process, 60)
    assert process.returncode == 0


@pytest.mark.parametrize("runners", [1, 2], ids=["the first", "a later one"])
def test_a_killed_runner_is_a_failure_or_a_doubt(runners: int) -> None:
    process = start("bench", MODEL, "--seconds", "5", "--json")
    os.kill(wait_for_runners(process, runners)[-1], signal.SIGKILL)
    output, errors = finish(process, 60)
    assert "Traceback" not in errors
    found = json.loads(output)
    if process.returncode == 0:
        assert found["latency"]["samples"] > 0
        assert any("killed" in doubt["evidence"] for doubt in found["doubts"])
    else:
        assert process.returncode in (3, 4)
        assert "killed" in found["error"]["message"]


def test_a_runner_that_stops_answering_is_stopped() -> None:
    process = start("bench", MODEL, "--seconds", "5", "--time-limit", "2", "--json")
    (runner,) = wait_for_runners(process, 1)
    os.kill(runner, signal.SIGSTOP)
    output, _ = finish(process, 60)
    assert process.returncode in (3, 4)
    assert "did not answer within" in json.loads(output)["error"]["message"]
    wait_until_gone([runner])


def test_a_time_limit_too_short_is_explained(tmp_path: Path) -> None:
    shown = hasten("bench", model_file(tmp_path, "one_operator"), "--time-limit", "0.001")
    assert shown.code in (3, 4)
    assert "--time-limit" in shown.errors


def test_a_memory_limit_too_low_is_explained(tmp_path: Path) -> None:
    shown = hasten("bench", model_file(tmp_path, "one_operator"), "--memory-limit", "1")
    assert shown.code in (3, 4)
    assert "memory" in shown.errors.splitlines()[0]


@pytest.mark.parametrize(
    "arguments", [("--help",), ("bench", "--help"), ("bench", MODEL, *QUICK, "--json"), ("doctor",)]
)
def test_a_reader_that_goes_away_is_no_error(arguments: tuple[str | Path, ...]) -> None:
    command = [sys.executable, "-m", "hasten", *map(str, arguments)]
    writer = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert writer.stdout is not None
    assert writer.stderr is not None
    with writer:
        writer.stdout.close()  # as `head` does once it has its lines
        errors = writer.stderr.read()
        assert writer.wait(timeout=60) in (0, 141)
    # A slow machine sees progress.
    assert [line for line in errors.splitlines() if " %, " not in line] == []


def test_a_full_disk_is_a_sentence(tmp_path: Path) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")
    for extra in ((), ("--json",)):
        with Path("/dev/full").open("w") as full:
            process = start("bench", model_file(tmp_path, "one_operator"), *QUICK, *extra, stdout=full)
            _, errors = finish(process, 60)
        assert process.returncode == 3
        assert errors.startswith("hasten: The output cannot be written")
        assert "Traceback" not in errors


def test_a_bar_on_the_terminal_and_nothing_of_it_on_standard_output() -> None:
    parent, child = pty.openpty()
    fcntl.ioctl(child, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    process = start("bench", MODEL, "--seconds", "2", "--json", stderr=child)
    os.close(child)
    seen = _read_all(parent)
    output, _ = finish(process, 60)
    assert process.returncode == 0
    assert "timing" in seen
    assert "process 2" in seen
    assert "━" in seen
    json.loads(output)


def _read_all(descriptor: int) -> str:
    """What arrives on a terminal until its other side is closed, which Linux reports as an input/output error."""
    pieces = []
    with os.fdopen(descriptor, "rb", buffering=0) as stream:
        try:
            while piece := stream.read(4096):
                pieces.append(piece)
        except OSError:
            pass
    return b"".join(pieces).decode()
