"""The runner as a process: it dies with its parent, ignores Ctrl-C, and does not care where it is started."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from subprocess import PIPE
from typing import TYPE_CHECKING

import pytest
from tests.processes import has_ended

from hasten.runner import serving
from hasten.runner.memory import memory_bytes
from hasten.runner.protocol import VERSION, Message, decode, encode
from hasten.targets.local import local_program

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    Runner = subprocess.Popen[bytes]

SECONDS = 30
# A parent that starts a runner, waits for its first answer, tells its number, and then does nothing.
PARENT = """
import signal
from hasten.core.plan import Plan
from hasten.targets.local import LocalTarget
runner = LocalTarget().start(Plan())
runner.hello()
print(runner._link.pid, flush=True)
signal.pause()
"""


def command() -> list[str]:
    return list(local_program("hasten.runner.__main__").command)


def ask(runner: Runner, **body: object) -> Message:
    assert runner.stdin is not None
    assert runner.stdout is not None
    output = runner.stdout
    runner.stdin.write(b"".join(encode(Message(dict(body)))))
    runner.stdin.flush()

    def read_exactly(count: int) -> bytes:
        data = output.read(count)
        if len(data) < count:
            raise EOFError
        return data

    return decode(read_exactly)


@pytest.fixture
def runner() -> Iterator[Runner]:
    with subprocess.Popen(command(), stdin=PIPE, stdout=PIPE, stderr=subprocess.DEVNULL) as process:
        yield process
        process.kill()


def test_it_says_hello(runner: Runner) -> None:
    body = ask(runner, request="hello").body
    assert body["ok"]
    assert body["protocol"] == VERSION
    assert body["machine"]["cores"] >= 1


def test_it_answers_an_unknown_request(runner: Runner) -> None:
    failure = ask(runner, request="sing").body["failure"]
    assert (failure["kind"], failure["message"]) == ("usage", "A runner has no request 'sing'.")


@pytest.mark.parametrize("body", [{"request": "load"}, {"request": "load", "plan": {"wings": 2}, "workload": {}}])
def test_it_answers_a_request_that_is_wrong(runner: Runner, body: dict[str, object]) -> None:
    assert not ask(runner, **body).body["ok"]
    assert ask(runner, request="hello").body["ok"]


def test_it_ends_when_told(runner: Runner) -> None:
    assert runner.stdin is not None
    runner.stdin.write(b"".join(encode(Message({"request": "close"}))))
    runner.stdin.flush()
    assert runner.wait(SECONDS) == 0


def test_it_ends_when_its_input_ends_or_is_garbage(runner: Runner) -> None:
    ask(runner, request="hello")
    assert runner.stdin is not None
    runner.stdin.write(b"garbage garbage")
    runner.stdin.flush()
    assert runner.wait(SECONDS) == 0


def test_it_leaves_ctrl_c_to_its_parent(runner: Runner) -> None:
    ask(runner, request="hello")
    runner.send_signal(signal.SIGINT)
    assert ask(runner, request="hello").body["ok"]


def test_it_dies_with_its_parent() -> None:
    with subprocess.Popen([sys.executable, "-c", PARENT], stdout=PIPE) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        parent.kill()
    assert has_ended(pid)


def test_ctrl_c_in_the_terminal_does_not_reach_it() -> None:
    """The signal goes to the parent's process group; the runner has one of its own."""
    with subprocess.Popen([sys.executable, "-c", PARENT], stdout=PIPE, stderr=subprocess.DEVNULL) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert os.getpgid(pid) != os.getpgid(parent.pid)
        assert os.getsid(pid) != os.getsid(parent.pid)
        parent.send_signal(signal.SIGINT)
    assert has_ended(pid), "and it ends with the parent that the signal ended"


@pytest.mark.parametrize("name", ["random", "json", "select", "hasten"])
def test_modules_in_the_working_directory_do_not_harm_it(tmp_path: Path, name: str) -> None:
    (tmp_path / f"{name}.py").write_text("raise SystemExit('wrong module')\n")
    with subprocess.Popen(command(), stdin=PIPE, stdout=PIPE, cwd=tmp_path) as process:
        assert ask(process, request="hello").body["ok"]
        process.kill()


def test_an_existing_lower_limit_of_memory_is_kept() -> None:
    """Raising a hard limit is refused by the system, and must not end the runner."""
    wanted = [*command(), "--memory-mb", "100000"]
    script = (
        "import os, resource; resource.setrlimit(resource.RLIMIT_DATA, (2**31, 2**31)); "
        f"os.execv({sys.executable!r}, {wanted!r})"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdin=PIPE, stdout=PIPE) as process:
        assert ask(process, request="hello").body["ok"]
        process.kill()


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="needs Linux's prlimit")
def test_the_memory_limit_is_three_quarters_of_the_runners_own_machine(runner: Runner) -> None:
    machine = ask(runner, request="hello").body["machine"]
    limit, _ = resource.prlimit(runner.pid, resource.RLIMIT_DATA)
    own, _ = resource.getrlimit(resource.RLIMIT_DATA)
    expected = 0.75 * machine["memory_mb"] * 2**20
    assert limit == pytest.approx(expected if own == resource.RLIM_INFINITY else min(own, expected), rel=1e-3)


def test_there_is_no_limit_where_the_system_does_not_report_its_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(name: str) -> int:
        raise ValueError(name)

    monkeypatch.setattr(os, "sysconf", refuse)
    before = resource.getrlimit(resource.RLIMIT_DATA)
    assert memory_bytes() == 0
    monkeypatch.setattr(resource, "setrlimit", lambda kind, _limits: applied.append(kind))
    applied: list[int] = []
    serving._limit(0)
    assert applied == [resource.RLIMIT_CORE]
    assert resource.getrlimit(resource.RLIMIT_DATA) == before
