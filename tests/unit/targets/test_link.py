"""A link to a runner: whatever the other side does, the parent gets an answer in time and nothing is left behind."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests import example_models
from tests.processes import has_ended

from hasten.core.failure import Failure, RunnerFailed
from hasten.core.plan import Plan, Workload
from hasten.runner import agent
from hasten.runner.protocol import Message
from hasten.targets.client import RunnerClient
from hasten.targets.link import ProcessLink, Program
from hasten.targets.local import LocalTarget, local_program

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PATIENT, SHORT = 30.0, 0.3
HELLO = Message({"request": "hello"})
RUNNER = local_program("hasten.runner.__main__")


@contextmanager
def linked(*command: str) -> Iterator[ProcessLink]:
    link = ProcessLink(Program(command) if command else RUNNER)
    try:
        yield link
    finally:
        link.close()


@contextmanager
def nothing_left_behind() -> Iterator[None]:
    before = open_files(), children()
    yield
    assert (open_files(), children()) == before


def children() -> set[str]:
    """This process's children, zombies included; other tests may have left some that are theirs."""
    own = Path(f"/proc/{os.getpid()}/task")
    return {child for task in own.iterdir() for child in (task / "children").read_text().split()}


def open_files() -> list[str]:
    folder = Path("/proc/self/fd")
    return sorted(str(path.readlink()) for path in folder.iterdir() if path.is_symlink() and path.exists())


def failure_of(
    link: ProcessLink, *, seconds: float = PATIENT, request: Message = HELLO, stage: str = "start"
) -> Failure:
    with pytest.raises(RunnerFailed) as caught:
        link.ask(request, stage=stage, seconds=seconds)
    return caught.value.failure


def python(code: str) -> tuple[str, ...]:
    return (sys.executable, "-c", code)


def test_an_interpreter_that_is_missing() -> None:
    with nothing_left_behind():
        with pytest.raises(RunnerFailed) as caught:
            ProcessLink(Program(("/nowhere/python", "-m", "hasten.runner")))
        failure = caught.value.failure
    assert (failure.stage, failure.kind) == ("start", "target")
    assert "/nowhere/python" in failure.message


def test_a_runner_killed_from_outside() -> None:
    with nothing_left_behind(), linked() as link:
        link.ask(HELLO, stage="start", seconds=PATIENT)
        os.kill(link.pid, signal.SIGKILL)
        failure = failure_of(link, stage="run")
    assert (failure.stage, failure.kind) == ("run", "crash")
    assert "Another process killed the runner" in failure.message


def test_a_runner_killed_where_the_system_does_not_tell_why(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(agent, "_VMSTAT", tmp_path / "none")
    with linked() as link:
        link.ask(HELLO, stage="start", seconds=PATIENT)
        os.kill(link.pid, signal.SIGKILL)
        failure = failure_of(link)
    assert failure.kind == "out of memory"
    assert "most likely" in failure.message


def test_a_runner_that_exits_brings_its_last_words() -> None:
    with nothing_left_behind(), linked(*python("import sys; sys.exit('no module named hasten')")) as link:
        failure = failure_of(link)
    assert (failure.stage, failure.kind) == ("start", "crash")
    assert "status 1" in failure.message
    assert failure.log == ("no module named hasten",)


def test_a_program_that_prints_garbage() -> None:
    code = "print('Usage: this is another program', flush=True); import time; time.sleep(100)"
    with nothing_left_behind(), linked(*python(code)) as link:
        failure = failure_of(link)
    assert (failure.stage, failure.kind) == ("start", "target")
    assert "Usage: t" in failure.message


@pytest.mark.parametrize("answer", ["{'frames': []}", "{'frames': [], 'ok': False, 'failure': {'stage': 'x'}}"])
def test_a_program_that_answers_something_else(answer: str) -> None:
    code = (
        "import json, struct, sys, time; "
        f"text = json.dumps({answer}).encode(); "
        "sys.stdout.buffer.write(struct.pack('<Q', len(text)) + text); sys.stdout.flush(); time.sleep(100)"
    )
    with nothing_left_behind(), linked(*python(code)) as link:
        assert failure_of(link).kind == "target"


@pytest.mark.parametrize(
    ("request_it", "frames"),
    [
        (lambda runner: runner.hello(), [1]),
        (lambda runner: runner.block(1.0, 1000), [1000] * 9),
        (lambda runner: runner.evaluate([b""]), [2**40]),
        (lambda runner: runner.evaluate_many([[b""]] * 4), [2**39] * 4),
    ],
)
def test_a_program_that_sends_more_than_was_asked_for(
    request_it: Callable[[RunnerClient], object], frames: list[int]
) -> None:
    """A device whose zeros never end must not fill this machine's memory."""
    code = (
        "import json, struct, sys; "
        f"text = json.dumps({{'ok': True, 'frames': {frames}}}).encode(); out = sys.stdout.buffer; "
        "out.write(struct.pack('<Q', len(text)) + text)\n"
        "while True: out.write(bytes(1 << 16))"
    )
    with nothing_left_behind(), linked(*python(code)) as link:
        with pytest.raises(RunnerFailed) as caught:
            request_it(RunnerClient(link, Plan(), PATIENT))
        assert caught.value.failure.kind == "target"
        assert f"{sum(frames)} bytes" in caught.value.failure.message
        # It was stopped when it announced them, not once they were here.
        assert link.has_ended


def test_a_program_that_closes_its_output_and_lives_on() -> None:
    code = "import os, time; os.close(1); time.sleep(100)"
    with nothing_left_behind(), linked(*python(code)) as link:
        failure = failure_of(link)
    assert failure.kind == "crash"
    assert "closed its output" in failure.message


def test_a_runner_that_stops_answering() -> None:
    with nothing_left_behind(), linked() as link:
        link.ask(HELLO, stage="start", seconds=PATIENT)
        os.kill(link.pid, signal.SIGSTOP)
        failure = failure_of(link, seconds=SHORT, stage="run")
    assert (failure.stage, failure.kind) == ("run", "hang")
    assert "0.3 s" in failure.message


def test_a_stopped_runner_cannot_block_the_parent_with_a_full_pipe() -> None:
    request = Message({"request": "evaluate"}, (bytes(8 << 20),))
    with nothing_left_behind(), linked() as link:
        link.ask(HELLO, stage="start", seconds=PATIENT)
        os.kill(link.pid, signal.SIGSTOP)
        assert failure_of(link, seconds=SHORT, request=request).kind == "hang"


def test_a_stopped_runner_can_be_closed() -> None:
    with nothing_left_behind(), linked() as link:
        os.kill(link.pid, signal.SIGSTOP)


def test_a_failed_link_stays_failed_and_a_closed_one_says_so() -> None:
    with linked() as link:
        link.kill()
        assert failure_of(link).stage == "start"
        assert failure_of(link).stage == "start"
        link.close()
        link.close()
        assert failure_of(link).message == "This runner is closed."


def test_whatever_the_runner_started_ends_with_it() -> None:
    code = (
        "import os, subprocess, sys, time; "
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(100)'], stdout=subprocess.DEVNULL); "
        "print(child.pid, file=sys.stderr, flush=True); print('done, this is no answer', flush=True); time.sleep(100)"
    )
    with linked(*python(code)) as link:
        (line,) = failure_of(link).log
        assert has_ended(int(line))


def test_large_data_passes_both_ways(tmp_path: Path) -> None:
    path = tmp_path / "model.tflite"
    path.write_bytes(example_models.stream(4))
    data = os.urandom(1024) * 4096
    with nothing_left_behind(), LocalTarget().start(Plan()) as runner:
        runner.load(path, Workload())
        (output,) = runner.evaluate([bytes(len(data)), bytes(len(data))])
        assert bytes(output) == bytes(len(data))


def test_many_runners_leave_nothing_behind(tmp_path: Path) -> None:
    path = tmp_path / "model.tflite"
    path.write_bytes(example_models.one_operator())
    with nothing_left_behind():
        for _ in range(5):
            with LocalTarget().start(Plan()) as first, LocalTarget().start(Plan()) as second:
                for runner in (first, second):
                    runner.load(path, Workload())


def test_the_log_is_kept_while_the_runner_goes_on_writing() -> None:
    """The child shares the position in the file of its log: reading must not move it."""
    code = (
        "import sys; from hasten.runner.protocol import *; "
        "read = lambda n: sys.stdin.buffer.read(n)\n"
        "for i in range(3):\n"
        "    decode(read); print('line', i, file=sys.stderr, flush=True)\n"
        "    body = {'ok': False, 'failure': {'stage': 'run', 'kind': 'engine', 'message': 'm'}}\n"
        "    sys.stdout.buffer.write(b''.join(encode(Message(body)))); sys.stdout.flush()\n"
    )
    with linked(*python(code)) as link:
        logs = [failure_of(link).log for _ in range(3)]
    assert logs[-1] == ("line 0", "line 1", "line 2")


class PlantedDevice:
    """A device that keeps what it was asked."""

    def __init__(self) -> None:
        self.ended: list[int] = []
        self.released = 0

    def cause_of_death(self, name: str, stage: str, status: int, log: tuple[str, ...]) -> Failure:
        return Failure(stage, "target", f"{name} {status}", log=log, code="planted")

    def end(self, pid: int) -> None:
        self.ended.append(pid)

    def release(self) -> None:
        self.released += 1


ANSWERING = (
    "import os, sys; from hasten.runner.protocol import *; from hasten.runner.serving import marker\n"
    "def read(n):\n"
    "    data = b''\n"
    "    while len(data) < n: data += os.read(0, n - len(data))\n"
    "    return data\n"
    "{first}\n"
    "os.write(1, {noise} + marker('runner'))\n"
    "while True:\n"
    "    request = decode(read)\n"
    "    if request.body['request'] == 'close': break\n"
    "    if request.body['request'] == 'hang': os.read(os.pipe()[0], 1)\n"
    "    os.write(1, b''.join(encode(Message({{'ok': True, 'pid': os.getpid()}}))))\n"
)


def answering(noise: str = "b''", first: str = "") -> tuple[str, ...]:
    return python(ANSWERING.format(noise=noise, first=first))


@pytest.mark.parametrize("noise", ["b''", r"b'Welcome!\n' * 30_000", r"b'\0hasten'", r"b'\0\0hasten runner x\0'"])
def test_what_a_login_prints_is_skipped(noise: str) -> None:
    device = PlantedDevice()
    with nothing_left_behind():
        link = ProcessLink(Program(answering(noise), is_here=False, device=device))
        first, second = (link.ask(HELLO, stage="start", seconds=PATIENT).body for _ in range(2))
        link.close()
    assert first == second
    assert (device.ended, device.released) == ([], 1)


def test_a_log_that_comes_after_its_answer_is_waited_for() -> None:
    code = (
        "import os, time; from hasten.runner.protocol import *; from hasten.runner.serving import LOG_END\n"
        "decode(lambda count: os.read(0, count))\n"
        "failure = {'stage': 'load', 'kind': 'engine', 'message': 'failed'}\n"
        "os.write(1, b''.join(encode(Message({'ok': False, 'failure': failure}))))\n"
        "time.sleep(0.1)\n"
        "os.write(2, f'Encountered unresolved custom op: Polish.\\n{LOG_END}\\n'.encode())\n"
        "os.read(0, 1)\n"
    )
    with linked(*python(code)) as link:
        failure = failure_of(link)
    assert failure.kind == "model"
    assert failure.log == ("Encountered unresolved custom op: Polish.",)


def test_a_preamble_is_read_once_and_before_requests() -> None:
    program = Program(answering(first="assert read(5) == b'first'"), device=PlantedDevice(), preamble=b"first")
    link = ProcessLink(program)
    assert link.ask(HELLO, stage="start", seconds=PATIENT).body["pid"] == link.pid
    assert link.ask(HELLO, stage="start", seconds=PATIENT).body["pid"] == link.pid
    link.close()


def test_a_hang_elsewhere_is_ended_there() -> None:
    device = PlantedDevice()
    link = ProcessLink(Program(answering(), is_here=False, device=device))
    link.ask(HELLO, stage="start", seconds=PATIENT)
    failure = failure_of(link, seconds=SHORT, request=Message({"request": "hang"}), stage="run")
    assert failure.kind == "hang"
    assert device.ended == [link.pid]
    link.close()


def test_a_login_without_a_program_leaves_what_it_printed() -> None:
    link = ProcessLink(Program(python("print('closed'); raise SystemExit(3)"), is_here=False, device=PlantedDevice()))
    failure = failure_of(link)
    assert (failure.code, failure.message) == ("planted", "runner 3")
    assert failure.log == ("closed",)
    link.close()


def test_a_message_that_wants_no_answer() -> None:
    link = ProcessLink(Program(python("import os; os.read(0, 1)")))
    assert link.tell(HELLO, PATIENT)
    assert has_ended(link.pid) or link.has_ended
    while link.tell(HELLO, PATIENT):
        pass
    assert link.has_ended
    link.close()
    assert link.has_ended


def test_a_runner_of_another_version_is_refused() -> None:
    class OtherVersion:
        def ask(self, _request: Message, *, stage: str, seconds: float, most_bytes: int = 0) -> Message:
            assert stage
            assert seconds
            return Message({"protocol": 99, "machine": {}})

        def close(self) -> None:
            pass

    with pytest.raises(RunnerFailed, match="uses version 99"):
        RunnerClient(OtherVersion(), Plan(), 1.0).hello()


def test_time_in_which_the_machine_slept_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock leaps by an hour while a request is under way, as after a suspension."""
    leaps = iter([0.0])
    monkeypatch.setattr("time.monotonic", lambda: next(leaps, 3600.0))
    with linked() as link:
        assert link.ask(HELLO, stage="start", seconds=PATIENT).body["machine"]
