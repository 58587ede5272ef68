"""What is said to ssh and to a device's shell, and which devices are of no use; without a connection."""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hasten.core.failure import NOT_INSTALLED, RunnerFailed
from hasten.targets import ssh
from hasten.targets.base import ATTEMPTS, holder_words, with_connection
from hasten.targets.device_agent import DeviceFacts
from hasten.targets.ssh import SshDevice, SshTransport

if TYPE_CHECKING:
    from hasten.core.failure import Failure

FACTS = DeviceFacts("/home/pi/.cache", "/usr/bin/python3", (3, 11, 2), "aarch64", 64, "2.3.0")
WORDS = st.lists(st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=20), max_size=5)


@pytest.fixture(scope="module")
def transport() -> SshTransport:
    return SshTransport("kitchen", SshDevice("board", "pi", 2222, config="~/lab/config"))


@given(WORDS)
def test_every_word_reaches_the_device_as_it_is(words: list[str]) -> None:
    transport = SshTransport("kitchen", SshDevice("board"))
    remote = transport._command("script", *words)[-1]
    assert shlex.split(remote) == ["exec", "sh", "-c", "script", "hasten", *words]


@pytest.mark.parametrize("name", ["; touch harm", "$(touch harm)", "`touch harm`", "a'b\"c", "-x", "~", "a\nb", "ü"])
def test_a_shell_takes_them_as_they_are(transport: SshTransport, tmp_path: Path, name: str) -> None:
    remote = transport._command('printf "%s|" "$@"', name, "end")[-1]
    done = subprocess.run(["sh", "-c", remote], capture_output=True, check=True, cwd=tmp_path, timeout=60)
    assert done.stdout.decode() == f"{name}|end|"
    assert list(tmp_path.iterdir()) == []


def test_a_command_that_a_signal_ends_has_its_number(transport: SshTransport, tmp_path: Path) -> None:
    """And what the shell says about it stays out of the log."""
    program = "echo told >&2; kill -SEGV $$"
    remote = transport._command(ssh._RUN, str(tmp_path), "sh", "-c", program)[-1]
    done = subprocess.run(["sh", "-c", remote], capture_output=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (128 + 11, b"told\n")


@pytest.mark.parametrize(
    ("python", "folder", "expected"),
    [
        ("", "", "{home}/.cache/hasten/device/venv/bin/python"),
        ("", "~/other place", "{home}/other place/venv/bin/python"),
        ("~/my python", "", "{home}/my python"),
        ("{home}/my python", "/nowhere", "{home}/my python"),
    ],
)
def test_the_python_that_is_taken(
    transport: SshTransport, tmp_path: Path, python: str, folder: str, expected: str
) -> None:
    chosen = Path(expected.format(home=tmp_path))
    chosen.parent.mkdir(parents=True, exist_ok=True)
    chosen.write_text('#!/bin/sh\necho "$0" "$@"\n')
    chosen.chmod(0o755)
    remote = transport._command(ssh._START_AGENT, python.format(home=tmp_path), folder, "code")[-1]
    environment = {"HOME": str(tmp_path), "PATH": os.defpath}
    done = subprocess.run(["sh", "-c", remote], env=environment, capture_output=True, check=True, timeout=60)
    assert done.stdout.decode() == f"{chosen} -E -c code\n"


def test_no_python_has_a_status_of_its_own(transport: SshTransport) -> None:
    remote = transport._command(ssh._START_AGENT, "/nowhere/python", "", "code")[-1]
    assert subprocess.run(["sh", "-c", remote], check=False, timeout=60).returncode == 97


def test_the_users_own_client_is_asked_for_nothing(transport: SshTransport) -> None:
    command = transport._command("script")
    assert command[0] == "ssh"
    options = set(command)
    assert {"BatchMode=yes", "ForwardAgent=no", "ClearAllForwardings=yes", "RemoteCommand=none"} <= options
    assert command[-3:-1] == ("--", "board")
    assert str(Path("~/lab/config").expanduser()) in options
    assert not [word for word in command if "StrictHostKeyChecking" in word], "keys are the user's matter"


def test_sockets_find_a_short_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    long = tmp_path / ("x" * 100)
    spaced = tmp_path / "a b"
    for folder in (long, spaced):
        folder.mkdir()
        monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder))
        monkeypatch.setattr("tempfile.gettempdir", lambda folder=folder: str(folder))
        made = Path(ssh._new_socket_folder())
        assert made.parent == Path("/tmp")
        assert made.stat().st_mode & 0o777 == 0o700
        made.rmdir()


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"version": (3, 9, 2)}, "Python 3.9.2"),
        ({"engine": None, "architecture": "armv7l", "bits": 32}, "32 bit armv7l"),
        ({"engine": None, "architecture": "aarch64", "bits": 32}, "32 bit aarch64"),
        ({"engine": None, "architecture": "riscv64"}, "64 bit riscv64"),
    ],
)
def test_devices_of_no_use(facts: dict[str, object], words: str) -> None:
    failure = ssh._unfit("kitchen", _changed(facts))
    assert failure is not None
    assert words in failure.message
    assert failure.code != NOT_INSTALLED


def test_nothing_is_installed_where_no_package_fits(transport: SshTransport, monkeypatch: pytest.MonkeyPatch) -> None:
    told = _changed({"engine": None, "architecture": "armv7l", "bits": 32})
    monkeypatch.setattr(SshTransport, "facts", lambda self: told)
    with pytest.raises(RunnerFailed) as caught:
        transport.install(lambda line: None)
    assert "no package" in caught.value.failure.message


def test_what_is_installed_ends_with_the_call(tmp_path: Path) -> None:
    """After Ctrl-C nothing of it is left on this machine."""
    told = tmp_path / "pid"

    def interrupt(line: str) -> None:
        told.write_text(line)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ssh._run(("sh", "-c", "echo $$; exec sleep 600"), interrupt)
    with pytest.raises(ProcessLookupError):
        os.kill(int(told.read_text()), 0)
    assert ssh._run(("sh", "-c", "echo a; echo b >&2; exit 3"), lambda line: None) == 3


def test_a_device_that_can_be_set_up() -> None:
    failure = ssh._unfit("my pi", _changed({"engine": None}))
    assert failure is not None
    assert failure.code == NOT_INSTALLED
    assert failure.hint.endswith("hasten devices 'my pi' --setup")
    assert ssh._unfit("kitchen", FACTS) is None


def _changed(facts: dict[str, object]) -> DeviceFacts:
    from dataclasses import replace

    return replace(FACTS, **facts)  # type: ignore[arg-type]


def test_who_holds_a_device() -> None:
    assert holder_words({}) == ""
    assert holder_words({"who": "me@desk"}) == " (me@desk)"
    assert holder_words({"who": "me@desk", "since": 0.0}).startswith(" (me@desk")
    assert holder_words({"who": "me@desk", "since": 1e9}).startswith(" (me@desk, since ")


def test_lost_connections_are_tried_again_and_other_failures_are_not() -> None:
    def fail_with(failure: Failure) -> int:
        tries: list[int] = []

        def work() -> None:
            tries.append(1)
            raise RunnerFailed(failure)

        with pytest.raises(RunnerFailed):
            with_connection(work)
        return len(tries)

    lost = ssh._lost("kitchen", "run")
    assert fail_with(lost) == ATTEMPTS
    unfit = ssh._unfit("kitchen", _changed({"engine": None}))
    assert unfit is not None
    assert fail_with(unfit) == 1
    results = iter([lost, None])

    def work() -> str:
        if failure := next(results):
            raise RunnerFailed(failure)
        return "done"

    assert with_connection(work) == "done"
