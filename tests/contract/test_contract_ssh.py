"""What can go wrong between here and a device, on a real ssh server: each trouble is told as what it is, and whatever
happens, nothing is left running on the device."""

from __future__ import annotations

import contextlib
import os
import select
import shlex
import shutil
import signal
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hasten.core.comparison import Verdict
from hasten.core.contention import compare_measurements
from hasten.core.failure import CONNECTION_LOST, IN_USE, NO_ROOM, NOT_INSTALLED, RunnerFailed
from hasten.core.measurement import Measurement, Model
from hasten.core.plan import Plan, Workload
from hasten.measure.rounds import Candidate, Rounds
from hasten.runner.background_load import KINDS
from hasten.targets import ssh, ssh_diagnosis
from hasten.targets.base import Limits
from hasten.targets.device_agent import DeviceAgent, agent_preamble
from hasten.targets.local import LocalTarget
from hasten.targets.ssh import SshDevice, SshTarget
from tests import example_models

from .loopback_sshd import HOST, LoopbackSshd, is_running, listening_addresses, running_sshd

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hasten.core.block import Block
    from hasten.core.failure import Failure
    from hasten.targets.client import RunnerClient

    WriteModel = Callable[[bytes], Path]

LIMITS = Limits(answer_seconds=60.0)
SECONDS = 30.0
# A hasten whose runner on the device is stuck in native code.
PARENT = """
import sys
from pathlib import Path
from hasten.core.plan import Plan, Workload
from hasten.targets.ssh import SshDevice, SshTarget
host, config, folder, model, delegate = sys.argv[1:]
target = SshTarget("device", SshDevice(host, python=sys.executable, folder=folder, config=config))
runner = target.start(Plan(delegate=delegate))
runner.hello()
print(runner._link._pid_there, target.transport._agent._link._pid_there, flush=True)
runner.load(Path(model), Workload())
"""


@pytest.fixture(scope="module")
def there(sshd: LoopbackSshd, tmp_path_factory: pytest.TempPathFactory) -> SshDevice:
    """A device that has hasten's runner after the first test."""
    return sshd.device(tmp_path_factory.mktemp("there") / "device", sys.executable)


@pytest.fixture
def empty(there: SshDevice, tmp_path: Path) -> SshDevice:
    """A device on which nothing of hasten's is yet."""
    return replace(there, folder=str(tmp_path / "device"))


@pytest.fixture
def target(there: SshDevice) -> Iterator[SshTarget]:
    with contextlib.closing(SshTarget("device", there, LIMITS)) as made:
        yield made


@pytest.fixture
def model(write_model: WriteModel) -> Path:
    return write_model(example_models.mobilenet_like(8))


def failure_of(device: SshDevice, limits: Limits = LIMITS) -> Failure:
    """How a first use of the device fails."""
    with contextlib.closing(SshTarget("device", device, limits)) as target, pytest.raises(RunnerFailed) as caught:
        target.machine()
    return caught.value.failure


def agent_pid(target: SshTarget) -> int:
    agent = target.transport._agent
    assert agent is not None
    pid = agent._link._pid_there
    assert pid is not None
    return pid


def runner_pid(runner: RunnerClient) -> int:
    pid = runner._link._pid_there  # type: ignore[attr-defined]
    assert isinstance(pid, int)
    return pid


def connection(target: SshTarget) -> int:
    """The client that holds the connection."""
    agent = target.transport._agent
    assert agent is not None
    return agent._link.pid


def ends(pid: int, seconds: float = SECONDS) -> bool:
    """Wait for a process that is not our child."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([descriptor], [], [], seconds)[0])
    finally:
        os.close(descriptor)


def changed_config(sshd: LoopbackSshd, folder: Path, name: str, value: str) -> str:
    """The client's configuration with another value for one setting."""
    lines = [line for line in sshd.config.read_text().splitlines() if not line.startswith(f"{name} ")]
    path = folder / "other_config"
    path.write_text("\n".join([*lines, f"{name} {value}", ""]))
    return str(path)


def new_key(path: Path) -> Path:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)], check=True, timeout=60)
    return path


@contextlib.contextmanager
def server_that_does(folder: Path, *lines: str) -> Iterator[LoopbackSshd]:
    """A server whose logins run these lines of a shell script in place of their command."""
    script = folder / "login"
    script.write_text("\n".join(["#!/bin/sh", *lines, ""]))
    script.chmod(0o755)
    with running_sshd(folder, f"ForceCommand {script}") as server:
        yield server


# Connections that cannot be made.


def test_nobody_listens(there: SshDevice, sshd: LoopbackSshd, tmp_path: Path) -> None:
    failure = failure_of(replace(there, config=changed_config(sshd, tmp_path, "Port", "1")))
    assert (failure.stage, failure.kind, failure.code) == ("start", "target", ssh_diagnosis.REFUSED)


def test_a_host_that_nobody_knows(there: SshDevice) -> None:
    failure = failure_of(replace(there, host="nowhere.invalid", config=""))
    assert failure.code == ssh_diagnosis.UNKNOWN_HOST
    assert "nowhere.invalid" in failure.message


def test_another_host_key_than_before(there: SshDevice, sshd: LoopbackSshd, tmp_path: Path) -> None:
    other = new_key(tmp_path / "other_key").with_suffix(".pub").read_text()
    known = tmp_path / "known_hosts"
    known.write_text(f"[127.0.0.1]:{sshd.port} {other}")
    failure = failure_of(replace(there, config=changed_config(sshd, tmp_path, "UserKnownHostsFile", str(known))))
    assert failure.code == ssh_diagnosis.HOST_KEY_CHANGED
    assert "ssh-keygen -R" in failure.hint


def test_a_host_key_that_was_never_seen(there: SshDevice, sshd: LoopbackSshd, tmp_path: Path) -> None:
    config = changed_config(sshd, tmp_path, "UserKnownHostsFile", str(tmp_path / "empty"))
    failure = failure_of(replace(there, config=config))
    assert failure.code == ssh_diagnosis.HOST_KEY_UNKNOWN
    assert not (tmp_path / "empty").exists(), "hasten accepts no key by itself"


def test_a_key_that_the_device_does_not_know(there: SshDevice, sshd: LoopbackSshd, tmp_path: Path) -> None:
    key = new_key(tmp_path / "stranger")
    failure = failure_of(replace(there, config=changed_config(sshd, tmp_path, "IdentityFile", str(key))))
    assert failure.code == ssh_diagnosis.LOGIN_REFUSED


def test_no_python_there(there: SshDevice) -> None:
    failure = failure_of(replace(there, python="/nowhere/python3"))
    assert failure.code == ssh_diagnosis.NO_PYTHON


def test_no_litert_there(there: SshDevice, tmp_path: Path) -> None:
    """A Python that sees nothing but its own library."""
    python = tmp_path / "bare python"
    python.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -S "$@"\n')
    python.chmod(0o755)
    failure = failure_of(replace(there, python=str(python)))
    assert failure.code == NOT_INSTALLED
    assert failure.hint.endswith("hasten devices device --setup")


def test_a_folder_that_cannot_be_made(there: SshDevice) -> None:
    failure = failure_of(replace(there, folder="/proc/nothing/hasten"))
    assert failure.kind == "target"
    assert "folder" in failure.hint


def test_a_folder_with_other_files_is_left_alone(there: SshDevice, tmp_path: Path) -> None:
    (tmp_path / "samples").mkdir()
    (tmp_path / "samples" / "mine.wav").touch()
    device = replace(there, folder=str(tmp_path))
    failure = failure_of(device)
    assert failure.kind == "target"
    assert f'folder = "{tmp_path}/hasten"' in failure.hint
    with contextlib.closing(SshTarget("device", device)) as target, pytest.raises(RunnerFailed):
        target.transport.clean()
    assert [path.name for path in tmp_path.rglob("*")] == ["samples", "mine.wav"]


def test_a_login_that_starts_nothing(tmp_path: Path, there: SshDevice) -> None:
    with server_that_does(tmp_path, "echo This account is closed.", "exit 1") as server:
        failure = failure_of(replace(there, config=str(server.config)))
    assert failure.code == ssh_diagnosis.NO_PROGRAM
    assert failure.log == ("This account is closed.",)


def test_what_a_login_prints_disturbs_nothing(tmp_path: Path, there: SshDevice, model: Path) -> None:
    noise = "i=0; while [ $i -lt 300 ]; do echo Welcome to the device number $i; i=$((i + 1)); done"
    with server_that_does(tmp_path, noise, 'exec /bin/sh -c "$SSH_ORIGINAL_COMMAND"') as server:
        device = replace(there, config=str(server.config))
        with contextlib.closing(SshTarget("noisy", device, LIMITS)) as target:
            with target.start(Plan()) as runner:
                runner.load(model, Workload())
                assert len(runner.block(30.0, 3).nanoseconds) == 3
            with target.start_load(KINDS[0], 1) as load:
                load.check()


@pytest.mark.slow
def test_more_runners_than_a_connection_carries(tmp_path: Path, there: SshDevice, model: Path) -> None:
    """Servers allow ten channels by default, and a race may have more runners: those get connections of their own."""
    with running_sshd(tmp_path, "MaxSessions 2") as server:
        device = replace(there, config=str(server.config))
        with contextlib.closing(SshTarget("device", device, LIMITS)) as target, contextlib.ExitStack() as stack:
            runners = [stack.enter_context(target.start(Plan())) for _ in range(4)]
            for runner in runners:
                runner.load(model, Workload())
            assert len({runner_pid(runner) for runner in runners}) == 4


# Names.


@pytest.mark.parametrize(
    "name",
    [
        "; touch harm",
        *(
            pytest.param(name, marks=pytest.mark.slow)
            for name in ("ü\n%d", "$(touch harm)", "`touch harm`", 'it\'s "a" name', "-rf")
        ),
    ],
)
def test_no_name_can_do_harm(there: SshDevice, model: Path, tmp_path: Path, name: str) -> None:
    """Names of the model, of the folder on the device and of the Python there."""
    hostile = model.with_name(f"{name}.tflite")
    model.rename(hostile)
    folder = tmp_path / f"device {name}"
    python = tmp_path / f"python {name}"
    python.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} "$@"\n')
    python.chmod(0o755)
    device = replace(there, folder=str(folder), python=str(python))
    with contextlib.closing(SshTarget("device", device, LIMITS)) as target, target.start(Plan()) as runner:
        runner.load(hostile, Workload())
        assert len(runner.block(30.0, 3).nanoseconds) == 3
    assert list((folder / "files").glob("*/*.tflite"))
    places = (tmp_path, folder, Path.home(), Path.cwd())
    assert not [path for place in places for path in place.glob("harm*")]


# Files.


def test_what_is_there_is_not_sent_again(
    empty: SshDevice, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[str] = []
    put = DeviceAgent.put

    def counted(self: DeviceAgent, content: bytes, name: str, digest: str, seconds: float) -> None:
        sent.append(name.rpartition("/")[2])
        put(self, content, name, digest, seconds)

    monkeypatch.setattr(DeviceAgent, "put", counted)
    for _ in range(2):
        with contextlib.closing(SshTarget("device", empty, LIMITS)) as target:
            for _ in range(2):
                with target.start(Plan()) as runner:
                    runner.load(model, Workload())
    assert sent == ["runner.zip", "model.tflite"]
    assert not list((tmp_path / "device").rglob("*.part"))


def test_a_device_without_room(empty: SshDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    """The agent as it is sent, but for the room that it leaves to others."""
    greedy = agent_preamble()[8:].replace(b"_SPARE_BYTES = 16 << 20", b"_SPARE_BYTES = 1 << 60")
    monkeypatch.setattr(ssh, "agent_preamble", lambda: b"%08d" % len(greedy) + greedy)
    failure = failure_of(empty)
    assert (failure.stage, failure.code) == ("start", NO_ROOM)
    assert "--clean" in failure.hint


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a small file system")
def test_a_disk_that_is_full(there: SshDevice, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the system says while a file is written, where the agent had thought that it fits."""
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "none", str(disk)], check=False).returncode:
        pytest.skip("this machine mounts nothing")
    try:
        bold = agent_preamble()[8:].replace(b"    return max(0, status", b"    return 1 << 50 or max(0, status")
        monkeypatch.setattr(ssh, "agent_preamble", lambda: b"%08d" % len(bold) + bold)
        large = model.with_name("large.tflite")
        large.write_bytes(model.read_bytes() + bytes(16 << 20))
        made = SshTarget("device", replace(there, folder=str(disk / "it")), LIMITS)
        with contextlib.closing(made) as target, target.start(Plan()) as runner:
            with pytest.raises(RunnerFailed) as caught:
                runner.load(large, Workload())
            runner.load(model, Workload())
        assert caught.value.failure.code == NO_ROOM
        assert not list(disk.rglob("*.part"))
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)


@pytest.mark.slow
def test_clean_leaves_nothing(empty: SshDevice, model: Path, tmp_path: Path) -> None:
    with contextlib.closing(SshTarget("device", empty, LIMITS)) as target, target.start(Plan()) as runner:
        runner.load(model, Workload())
    with contextlib.closing(SshTarget("device", empty)) as again:
        assert again.transport.clean() >= model.stat().st_size
    assert [path.name for path in (tmp_path / "device").iterdir()] == ["lock"]


# Lost connections.


def stuck(target: SshTarget, model: Path) -> tuple[RunnerClient, threading.Thread, list[Failure]]:
    """A runner inside one long native call, and how it fails."""
    runner = target.start(Plan())
    failures: list[Failure] = []
    runner.load(model, Workload())

    def run() -> None:
        try:
            runner.block(600.0, 10**9)
        except RunnerFailed as failed:
            failures.append(failed.failure)

    thread = threading.Thread(target=run)
    thread.start()
    return runner, thread, failures


def test_a_connection_that_is_cut(target: SshTarget, sshd: LoopbackSshd, model: Path) -> None:
    before = set(sshd.connections())
    runner, thread, failures = stuck(target, model)
    pids = runner_pid(runner), agent_pid(target)
    for pid in set(sshd.connections()) - before:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    assert all(map(ends, pids))
    thread.join(SECONDS)
    runner.close()
    assert [(failure.stage, failure.code) for failure in failures] == [("run", CONNECTION_LOST)]
    with target.start(Plan()) as another:
        another.load(model, Workload())


def test_a_silent_connection_ends_all_there(there: SshDevice, model: Path) -> None:
    """Nothing is closed: the client just says no more, as a machine that lost its network would."""
    target = SshTarget("device", there, LIMITS)
    runner, thread, failures = stuck(target, model)
    pids, client = (runner_pid(runner), agent_pid(target)), connection(target)
    os.kill(client, signal.SIGSTOP)
    try:
        assert all(map(ends, pids))
    finally:
        os.kill(client, signal.SIGCONT)
    thread.join(SECONDS)
    runner.close()
    target.close()
    assert [failure.code for failure in failures] == [CONNECTION_LOST]


def test_background_load_ends_with_the_connection(there: SshDevice) -> None:
    target = SshTarget("device", there, LIMITS)
    load = target.start_load(KINDS[0], 2)
    pids = _pids_with(load._device._lifeline)  # type: ignore[union-attr]
    assert len(pids) >= 3, "the program and its two workers"
    os.kill(connection(target), signal.SIGSTOP)
    try:
        assert all(map(ends, pids))
    finally:
        os.kill(connection(target), signal.SIGCONT)
    load.close()
    target.close()


def _pids_with(word: str) -> list[int]:
    """The processes with this word on their command line."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if word.encode() in path.read_bytes().split(b"\0"):
                found.append(int(path.parent.name))
    return found


def test_hasten_is_killed(there: SshDevice, tmp_path: Path, model: Path, planted: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    delegate = f"{planted}:at=invoke;fault=hang;pipe={pipe}"
    words = [HOST, there.config, there.folder, str(sums(model)), delegate]
    with subprocess.Popen([sys.executable, "-c", PARENT, *words], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        pids = [int(word) for word in parent.stdout.readline().split()]
        pipe.read_bytes()  # returns when the delegate is about to hang
        parent.kill()
    assert len(pids) == 2
    assert all(map(ends, pids))


def sums(path: Path) -> Path:
    """A model that the planted delegate takes."""
    from tests.model_builder import ModelBuilder

    g = ModelBuilder()
    x = g.input("x", (1, 4))
    g.output(g.add(x, x), "y")
    path.write_bytes(g.build())
    return path


def test_a_hung_runner_is_ended_on_the_device(there: SshDevice, model: Path, planted: Path) -> None:
    with contextlib.closing(SshTarget("device", there, Limits(answer_seconds=2.0))) as target:
        runner = target.start(Plan(delegate=f"{planted}:at=invoke;fault=hang"))
        runner.hello()
        pid = runner_pid(runner)
        with pytest.raises(RunnerFailed) as caught:
            runner.load(sums(model), Workload())
        assert caught.value.failure.kind == "hang"
        assert ends(pid)
        runner.close()
        assert is_running(agent_pid(target)), "the session goes on"


def test_nothing_runs_there_after_close(there: SshDevice, model: Path) -> None:
    target = SshTarget("device", there, LIMITS)
    runner = target.start(Plan())
    runner.load(model, Workload())
    pids = runner_pid(runner), agent_pid(target)
    folder = Path(target.transport._socket_folder)
    assert folder.stat().st_mode & 0o777 == 0o700
    assert not listening_addresses([os.getpid(), connection(target), *pids])
    target.close()
    assert all(map(ends, pids))
    assert not folder.exists()
    runner.close()


def test_a_round_that_was_cut_is_run_again(target: SshTarget, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The connection breaks in the second block of the second round: all rounds are there, and whole."""
    from hasten.targets.client import RunnerClient

    block, cuts = RunnerClient.block, iter([False, True])

    def cut(self: RunnerClient, seconds: float, most: int, *, runner: int = 0, lead: int = 0) -> Block:
        if runner == 1 and next(cuts, False):
            os.kill(connection(target), signal.SIGKILL)
        return block(self, seconds, most, runner=runner, lead=lead)

    monkeypatch.setattr(RunnerClient, "block", cut)
    told = Model(str(model), model.stat().st_size, "")
    rounds = Rounds(target, [Candidate("a", model, told), Candidate("b", model, told)])
    for _ in range(2):
        rounds.run_one(0.1)
    for track in rounds.tracks:
        assert isinstance(track.result(), Measurement)
        assert track.failure is None
        assert [len(found) > 0 for found in track.rounds] == [True] * 2
        assert len(track.loads) == len(track.warm_ups) == 2


def test_a_device_that_does_not_come_back(target: SshTarget, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The session gets a failure, not an exception, in a few seconds."""
    monkeypatch.setattr(ssh, "_RETURN_SECONDS", 0.5)
    rounds = Rounds(target, [Candidate("a", model, Model(str(model), 0, ""))])
    rounds.run_one(0.1)
    os.kill(connection(target), signal.SIGKILL)
    assert ends(agent_pid(target))
    target.transport.device = replace(target.transport.device, host="127.0.0.1", port=1)
    rounds.run_one(0.1)
    (track,) = rounds.tracks
    assert track.failure is not None
    assert track.failure.kind == "target"
    assert isinstance(track.result(), Measurement), "what was measured before stands"


# Two sessions at once.


def test_a_second_session_says_who_has_the_device(
    there: SshDevice, target: SshTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ssh, "_SHORT_WAIT_SECONDS", 0.1)
    target.machine()
    failure = failure_of(there)
    assert failure.code == IN_USE
    assert f"@{os.uname().nodename}" in failure.message
    target.close()
    with contextlib.closing(SshTarget("device", there, LIMITS)) as next_one:
        assert next_one.machine().cores >= 1


@pytest.mark.slow
def test_a_second_session_waits_if_asked(there: SshDevice, target: SshTarget, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ssh, "_SHORT_WAIT_SECONDS", 0.1)
    target.machine()
    waiting = SshTarget("device", there, Limits(answer_seconds=60.0, wait_seconds=120.0))
    found: list[int] = []
    thread = threading.Thread(target=lambda: found.append(waiting.machine().cores))
    thread.start()
    thread.join(0.5)
    assert thread.is_alive()
    target.close()
    thread.join(SECONDS)
    waiting.close()
    assert found


@pytest.mark.slow
def test_a_look_at_a_device_takes_no_lock(there: SshDevice, target: SshTarget) -> None:
    with contextlib.closing(SshTarget("device", there, LIMITS, keeps_lock=False)) as looking:
        assert looking.transport.facts().holder is None
        target.machine()
    with contextlib.closing(SshTarget("device", there, LIMITS, keeps_lock=False)) as looking:
        holder = looking.transport.facts().holder
        assert holder is not None
        assert holder["pid"] == os.getpid()


@pytest.mark.slow
def test_one_machine_is_as_fast_by_ssh(target: SshTarget, model: Path) -> None:
    """Rounds here and there in turns: neither is called faster."""
    told = Model(str(model), model.stat().st_size, "")
    both = [Rounds(place, [Candidate("model", model, told)]) for place in (LocalTarget(LIMITS), target)]
    for number in range(10):
        for rounds in both if number % 2 == 0 else reversed(both):
            rounds.run_one(0.3)
    here, there = (rounds.tracks[0].result() for rounds in both)
    assert isinstance(here, Measurement)
    assert isinstance(there, Measurement)
    assert compare_measurements(here, there).verdict in (Verdict.SAME, Verdict.UNDECIDED)


# Installing.


def failed_installation(there: SshDevice, tmp_path: Path, venv: str) -> tuple[Failure, list[str]]:
    """How an installation fails, and what was told, on a device whose python3 does this to make an environment."""
    folder = tmp_path / "bin"
    folder.mkdir()
    python = folder / "python3"
    python.write_text(f'#!/bin/sh\ncase "$*" in *venv*) {venv}; exit;; esac\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    lines = (f'PATH={shlex.quote(str(folder))}:"$PATH"', "export PATH", 'exec /bin/sh -c "$SSH_ORIGINAL_COMMAND"')
    server_folder = tmp_path / "server"
    server_folder.mkdir()
    with server_that_does(server_folder, *lines) as server:
        # The agent says which Python it is: that behind the script. So the script must answer for it as well.
        device = replace(there, python="", config=str(server.config))
        with contextlib.closing(SshTarget("device", device, LIMITS)) as target:
            target.transport._facts = replace(target.transport.facts(), python=str(python))
            told: list[str] = []
            with pytest.raises(RunnerFailed) as caught:
                target.transport.install(told.append)
    return caught.value.failure, told


def test_an_installation_that_fails_brings_what_pip_said(there: SshDevice, tmp_path: Path) -> None:
    failure, told = failed_installation(there, tmp_path, "echo no module named venv >&2; exit 1")
    assert failure.log == ("no module named venv",)
    assert told == ["no module named venv"]
    assert "python3-venv" in failure.hint


def test_an_installation_leaves_no_downloads_in_the_account(empty: SshDevice, tmp_path: Path) -> None:
    """An environment whose Python says what it was asked to do, and does nothing."""
    speaking = "mkdir -p venv/bin; (echo '#!/bin/sh'; echo 'echo \"$@\"; exit 1') > venv/bin/python"
    _, told = failed_installation(empty, tmp_path, f"{speaking}; chmod 755 venv/bin/python")
    assert "--no-cache-dir" in told[0].split()


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_litert_is_installed_into_an_environment_of_its_own(empty: SshDevice, tmp_path: Path, model: Path) -> None:
    if shutil.which("python3", path="/usr/bin:/usr/local/bin") is None:
        pytest.skip("there is no python3 of the system")
    device = replace(empty, python="")
    with contextlib.closing(SshTarget("device", device, LIMITS)) as target:
        if target.transport.facts().engine is not None:
            pytest.skip("the system's Python has LiteRT already")
        target.transport.install(lambda line: None)
        with target.start(Plan()) as runner:
            runner.load(model, Workload())
    assert (tmp_path / "device" / "venv" / "bin" / "python").exists()


def test_a_python_that_the_user_named_is_not_changed(target: SshTarget) -> None:
    with pytest.raises(RunnerFailed) as caught:
        target.transport.install(lambda line: None)
    assert caught.value.failure.kind == "usage"


# Beats.


@pytest.mark.slow
def test_beats_keep_an_idle_session_alive(there: SshDevice) -> None:
    device = replace(there, patience_s=1.0)
    with contextlib.closing(SshTarget("device", device, LIMITS)) as target:
        target.machine()
        pid = agent_pid(target)
        assert not ends(pid, 3 * device.patience_s)
        with target.start(Plan()) as runner:
            runner.hello()
        assert agent_pid(target) == pid, "it is the same session"
