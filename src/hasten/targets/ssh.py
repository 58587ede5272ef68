"""A device behind ssh: any Linux machine that the system's ssh client reaches and that has a Python with LiteRT.

One connection carries everything: the `agent` of the session holds it open (ControlMaster), and each runner is a
channel of it. The client is the system's own: its configuration, agent and jump hosts work as they do in a terminal,
and no password or key is ever seen here. Every word of a remote command is quoted; names of files never pass through a
shell.

What ends a runner on the device, whatever happens here, is told in `runner.agent`.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import secrets
import shlex
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from hasten.core.errors import UsageError
from hasten.core.failure import CONNECTION_LOST, IN_USE, NOT_INSTALLED, Failure, RunnerFailed
from hasten.engine.library import KNOWN_RELEASES
from hasten.runner.agent import BUSY, CHANGED, FOREIGN
from hasten.targets.base import holder_words
from hasten.targets.device_agent import BOOTSTRAP, DeviceAgent, Refused, agent_preamble
from hasten.targets.exit_cause import STAGE_WORDS, cause_of_death
from hasten.targets.link import Program, understood
from hasten.targets.ssh_diagnosis import REFUSED, SSH_STATUS, UNREACHABLE, connection_failure
from hasten.targets.staged import NoRoomError, StagedTarget

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hasten.targets.base import Limits
    from hasten.targets.device_agent import DeviceFacts

SCHEME: Final = "ssh://"
PATIENCE_S: Final = 1.7
"""How long a device goes on without a sign of life: everything there has ended two seconds after the last one."""
_CONNECT_SECONDS: Final = 20.0
# How long a device that was there may be away before a trial counts as failed.
_RETURN_SECONDS: Final = 10.0
_PAUSE_SECONDS: Final = 0.3
# Who asks for the lock's holder has it for a moment, and a session of ours that broke off keeps it for its patience.
_SHORT_WAIT_SECONDS: Final = 2.5
_SLOWEST_BYTES_A_SECOND: Final = 100_000
_SECONDS_TO_CLEAN: Final = 300.0
_SECONDS_TO_INSTALL: Final = 1800.0
_PROBE_SECONDS: Final = 1.0
_OLDEST_PYTHON: Final = (3, 10)
_ARCHITECTURES: Final = ("aarch64", "arm64", "x86_64", "amd64")
# Unix sockets have 104 bytes for their path on some systems, and ssh adds 17 while it makes one.
_LONGEST_SOCKET: Final = 104 - 17 - 1
_OPTIONS: Final = tuple(
    word
    for option in (
        "BatchMode=yes",
        "ConnectTimeout=5",
        "ServerAliveInterval=1",
        "ServerAliveCountMax=3",
        "ControlPersist=no",
        "ClearAllForwardings=yes",
        "ForwardAgent=no",
        "ForwardX11=no",
        "PermitLocalCommand=no",
        "RemoteCommand=none",
        "RequestTTY=no",
        "LogLevel=ERROR",
    )
    for word in ("-o", option)
)
# $1 is a Python or nothing, $2 hasten's folder or nothing, $3 what Python shall run. No single quotes: not every login
# shell reads them as POSIX does once they are quoted again.
_START_AGENT: Final = (
    'f=$2; case "$f" in "") f="${XDG_CACHE_HOME:-$HOME/.cache}/hasten/device";; "~/"*) f="$HOME/${f#??}";; esac; '
    'p=$1; case "$p" in "") p="$f/venv/bin/python"; [ -x "$p" ] || p=python3;; "~/"*) p="$HOME/${p#??}";; esac; '
    'command -v "$p" > /dev/null || exit 97; exec "$p" -E -c "$3"'
)
# $1 is hasten's folder, the rest a command. The shell stays, as the client tells of no signal that ended its command,
# and a shell does; what it says itself about that is not for the log. The parentheses keep dash from saying it there.
_RUN: Final = 'cd "$1" || exit 96; shift; exec 3>&2 2> /dev/null; (exec "$@") 2>&3 3>&-; exit $?'
_INSTALL: Final = '"$1" -m venv venv && venv/bin/python -m pip install --no-cache-dir --progress-bar off "$2" 2>&1'


@dataclass(frozen=True, slots=True)
class SshDevice:
    """How to reach a device, and what to use there. Empty: as ssh, its configuration and the device have it."""

    host: str
    user: str = ""
    port: int = 0
    python: str = ""
    folder: str = ""
    """Where hasten keeps its files there; ~/.cache/hasten/device by default."""
    config: str = ""
    """A configuration file for ssh in place of the user's."""
    patience_s: float = PATIENCE_S

    def __post_init__(self) -> None:
        for what, name in (("host", self.host), ("user", self.user)):
            if name.startswith("-") or any(letter.isspace() or not letter.isprintable() for letter in name):
                raise UsageError(f"{name!r} cannot be the {what} of a device.", "Example: ssh://pi@raspberrypi.local")
        if not self.host:
            raise UsageError("The device has no host.", "Example: ssh://pi@raspberrypi.local")
        if not 0 <= self.port < 65536:
            raise UsageError(f"There is no port {self.port}.", "Use a port from 1 to 65535.")

    def login(self) -> tuple[str, ...]:
        """The command that logs in by hand."""
        named = f"{self.user}@{self.host}" if self.user else self.host
        return ("ssh", *self._where(), named)

    def words(self, *options: str) -> tuple[str, ...]:
        """The client's command up to the remote one."""
        user = ("-l", self.user) if self.user else ()
        return ("ssh", *self._where(), *_OPTIONS, *options, *user, "--", self.host)

    def _where(self) -> tuple[str, ...]:
        config = ("-F", str(Path(self.config).expanduser())) if self.config else ()
        return (*config, "-p", str(self.port)) if self.port else config


def device_from_url(url: str) -> SshDevice:
    """`ssh://[user@]host[:port]`."""
    hint = "Example: ssh://pi@raspberrypi.local:22"
    place = url.removeprefix(SCHEME).removesuffix("/")
    user, _, host = place.rpartition("@")
    if "/" in place or ":" in user:
        what = "holds a password, which hasten does not take" if ":" in user else "has a path"
        raise UsageError(f"The address {SCHEME}… {what}.", hint)
    name, colon, port = host.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        name, colon, port = host, "", ""
    elif not colon:
        name = host
    if colon and not port.isdecimal():
        raise UsageError(f"{port!r} in {url!r} is not a port.", hint)
    if ":" in name and not name.startswith("["):
        raise UsageError(f"{url!r} has several colons.", "Write an IPv6 address in brackets: ssh://[fe80::1]:22")
    return SshDevice(name.removeprefix("[").removesuffix("]"), user, int(port) if colon else 0)


class SshTransport:
    """The way to a device. It connects when it is first needed, and anew when the connection is lost."""

    def __init__(self, name: str, device: SshDevice, *, keeps_lock: bool = True, wait_seconds: float = 0.0) -> None:
        self.name, self.device = name, device
        self._holder: dict[str, Any] | None = None
        if keeps_lock:
            who = f"{_user_name()}@{socket.gethostname()}"
            self._holder = {"who": who, "pid": os.getpid(), "session": secrets.token_hex(8)}
        self._wait_seconds = wait_seconds
        self._lock = threading.RLock()
        self._agent: DeviceAgent | None = None
        self._facts: DeviceFacts | None = None
        self._socket_folder = ""
        self._was_there = False

    def has(self, name: str) -> bool:
        """Whether the device has this file."""
        return self._connected()[0].has(name)[0]

    def put(self, content: bytes | Path, name: str, digest: str) -> None:
        """Send a file, unless it does not fit."""
        agent, _ = self._connected()
        with _mapped(content) as data:
            free = agent.has(name)[1]
            if len(data) > free:
                raise NoRoomError(len(data), free)
            try:
                agent.put(data, name, digest, _CONNECT_SECONDS + len(data) / _SLOWEST_BYTES_A_SECOND)
            except Refused as refused:
                if refused.is_full:
                    raise NoRoomError(len(data), agent.has(name)[1]) from None
                if refused.code == CHANGED:
                    raise OSError("it changed meanwhile") from None
                raise

    def remove(self, name: str) -> None:
        """Remove a file there."""
        self._connected()[0].remove(name)

    def program(self, arguments: tuple[str, ...], name: str) -> Program:
        """A channel of the connection, with the device's Python at its end."""
        agent, facts = self._connected()
        try:
            lifeline, kills = agent.lifeline()
        except Refused as refused:
            message = f"{self.name} cannot start another program: {refused}."
            raise RunnerFailed(Failure("start", "target", message, "Restart the device if this goes on.")) from None
        words = (facts.python or "python3", "-E", *arguments, "--lifeline", lifeline)
        there = _Runner(self.name, agent, lifeline, kills)
        return Program(self._command(_RUN, facts.folder, *words), name, is_here=False, device=there)

    def close(self) -> None:
        """End the connection, and with it everything on the device. Safe to call more than once."""
        with self._lock:
            agent, self._agent, self._was_there = self._agent, None, False
            if agent is not None:
                agent.close()
            self._remove_socket_folder()

    def facts(self) -> DeviceFacts:
        """What the device's agent says of it, whether or not models can be run there."""
        return self._connected(usable=False)[1]

    def clean(self) -> int:
        """Remove what hasten has there; how many bytes that were."""
        return self._connected(usable=False)[0].clean(_SECONDS_TO_CLEAN)

    def install(self, tell: Callable[[str], None]) -> None:
        """Install LiteRT there, into an environment of hasten's own; `tell` gets each line that pip prints."""
        if self.device.python:
            command = f"{self.device.python} -m pip install {_requirement()}"
            message = f"targets.toml names the Python of {self.name}, and hasten changes no environment but its own."
            raise RunnerFailed(Failure("start", "usage", message, f"Run this on the device: {command}"))
        facts = self.facts()
        failure = _unfit(self.name, replace(facts, engine=None))
        if failure is not None and failure.code != NOT_INSTALLED:
            raise RunnerFailed(failure)
        # A virtual environment on top of another one's Python would miss what that one has.
        python = "python3" if facts.python.startswith(f"{facts.folder}/") else facts.python
        words = ("sh", "-c", _INSTALL, "hasten", python, _requirement())
        lines: list[str] = []

        def hear(line: str) -> None:
            lines.append(line)
            tell(line)

        status = _run(self._command(_RUN, facts.folder, *words), hear)
        self.close()  # the next connection takes the new Python
        if status:
            message = f"LiteRT could not be installed on {self.name}."
            hint = "Read the lines above. Debian and Raspberry Pi OS need the package python3-venv for this."
            raise RunnerFailed(Failure("start", "target", message, hint, tuple(lines[-20:])))

    def answers(self, seconds: float = _PROBE_SECONDS) -> bool:
        """Whether something is at the device's address; True behind a jump host, where only ssh can tell."""
        settings = self._settings()
        if settings.get("proxyjump", "none") != "none" or settings.get("proxycommand", "none") != "none":
            return True
        found: list[bool] = []

        def knock() -> None:
            place = settings.get("hostname", self.device.host), int(settings.get("port", "22"))
            # A refusal, or a name that nobody knows, is quick, and ssh says it better.
            try:
                socket.create_connection(place, seconds).close()
            except TimeoutError:
                return
            except OSError:
                pass
            found.append(True)

        # In a thread, as the search for a name knows no time limit.
        thread = threading.Thread(target=knock, name="knock", daemon=True)
        thread.start()
        thread.join(seconds)
        return bool(found)

    def away(self) -> Failure:
        """The failure of a device that does not answer."""
        log = ("Connection timed out",)
        return connection_failure(self.name, self.device.host, self.device.login(), SSH_STATUS, log)

    def _settings(self) -> dict[str, str]:
        """The client's settings for this host."""
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            words = self.device.words()
            done = subprocess.run([words[0], "-G", *words[1:]], capture_output=True, timeout=5, check=False)
            pairs = (line.partition(" ") for line in done.stdout.decode(errors="replace").splitlines())
            return {name: value for name, _, value in pairs}
        return {}

    def _connected(self, *, usable: bool = True) -> tuple[DeviceAgent, DeviceFacts]:
        with self._lock:
            if self._agent is None or self._facts is None or not self._agent.is_alive:
                self._connect_again()
            assert self._agent is not None
            assert self._facts is not None
            failure = _unfit(self.name, self._facts) if usable else None
            if failure is not None:
                raise RunnerFailed(failure)
            return self._agent, self._facts

    def _connect_again(self) -> None:
        """Connect; to a device that was there before, again and again for a while."""
        if self._agent is not None:
            self._agent.close()
            self._agent = None
        begin = time.monotonic()
        patience = _RETURN_SECONDS if self._was_there else 0.0
        self._was_there = False  # one that does not come back is not waited for again
        while failure := self._connect():
            waited = time.monotonic() - begin
            gone = failure.code in (CONNECTION_LOST, UNREACHABLE, REFUSED) and waited < patience
            busy = failure.code == IN_USE and waited < max(self._wait_seconds, _SHORT_WAIT_SECONDS)
            if not gone and not busy:
                raise RunnerFailed(failure)
            time.sleep(_PAUSE_SECONDS)
        self._was_there = True

    def _connect(self) -> Failure | None:
        """One connection, with the device's lock; or why there is none."""
        self._remove_socket_folder()
        self._socket_folder = _new_socket_folder()
        command = self._command(_START_AGENT, self.device.python, self.device.folder, BOOTSTRAP, master=True)
        there = _Connecting(self.name, self.device)
        program = Program(command, f"agent on {self.name}", is_here=False, device=there, preamble=agent_preamble())
        agent = DeviceAgent(program)
        try:
            self._facts = agent.open(self.device.folder, self.device.patience_s, self._holder, _CONNECT_SECONDS)
        except RunnerFailed as failed:
            agent.close()
            return self._too_slow(failed.failure.log) if failed.failure.kind == "hang" else failed.failure
        except Refused as refused:
            agent.close()
            with understood("start"):
                return self._refusal(refused)
        except BaseException:
            agent.close()
            raise
        there.is_open = True
        self._agent = agent
        return None

    def _remove_socket_folder(self) -> None:
        if self._socket_folder:
            shutil.rmtree(self._socket_folder, ignore_errors=True)
            self._socket_folder = ""

    def _command(self, script: str, *words: str, master: bool = False) -> tuple[str, ...]:
        """The ssh command that runs a shell script on the device, with these words as its arguments."""
        path = str(Path(self._socket_folder) / "s").replace("%", "%%")
        options = ("-o", f"ControlPath={path}", "-o", f"ControlMaster={'yes' if master else 'no'}")
        return (*self.device.words(*options), shlex.join(("exec", "sh", "-c", script, "hasten", *words)))

    def _too_slow(self, log: tuple[str, ...]) -> Failure:
        message = f"The login on {self.name} started no program within {_CONNECT_SECONDS:g} s."
        return Failure("start", "target", message, "Check its load and its network, then try again.", log)

    def _refusal(self, refused: Refused) -> Failure:
        if refused.code == BUSY:
            return self._in_use(refused.facts["holder"])
        if refused.code == FOREIGN:
            return self._foreign_folder(refused.facts["folder"], refused.facts["name"])
        message = f"hasten cannot use its folder on {self.name}: {refused}."
        return Failure("start", "target", message, "Name another one with folder = … in targets.toml.")

    def _foreign_folder(self, folder: str, name: str) -> Failure:
        message = f"hasten does not use the folder {folder} on {self.name}: it holds other files, for example {name}."
        hint = f'Name a new or empty folder in targets.toml, for example folder = "{folder.rstrip("/")}/hasten".'
        return Failure("start", "target", message, hint)

    def _in_use(self, holder: dict[str, Any]) -> Failure:
        message = f"Another session uses {self.name}{holder_words(holder)}."
        return Failure("start", "target", message, "Wait for it with --wait 600, or use another device.", code=IN_USE)


class _Connecting:
    """The device as the agent's own link sees it."""

    def __init__(self, name: str, device: SshDevice) -> None:
        self.is_open = False
        self._name, self._device = name, device

    def cause_of_death(self, name: str, stage: str, status: int, log: tuple[str, ...]) -> Failure:
        """Why there is no agent, or no longer."""
        if self.is_open:
            return _lost(self._name, stage)
        return connection_failure(self._name, self._device.host, self._device.login(), status, log)

    def end(self, pid: int) -> None:
        """Nothing: it ends with its input."""

    def release(self) -> None:
        """Nothing is held for it."""


class _Runner:
    """The device as the link of one runner, or of work next to it, sees it."""

    def __init__(self, name: str, agent: DeviceAgent, lifeline: str, kills_before: int | None) -> None:
        self._name, self._agent, self._lifeline, self._kills_before = name, agent, lifeline, kills_before

    def cause_of_death(self, name: str, stage: str, status: int, log: tuple[str, ...]) -> Failure:
        """Why a runner ended: with the connection, or by itself. A shell adds 128 to the number of a signal."""
        ended_by = status - 128 if 128 < status < SSH_STATUS else 0
        if status == SSH_STATUS or status < 0 or ended_by in (signal.SIGIO, signal.SIGALRM):
            return _lost(self._name, stage)
        return cause_of_death(name, stage, -ended_by or status, log, self._kills_before, self._kills_now)

    def end(self, pid: int) -> None:
        """Kill it there."""
        if self._agent.is_alive:
            self._agent.end(pid)

    def release(self) -> None:
        """Let go of its lifeline."""
        if self._agent.is_alive:
            self._agent.release(self._lifeline)

    def _kills_now(self) -> int | None:
        with contextlib.suppress(RunnerFailed, Refused):
            return self._agent.memory_kills()
        return None


class SshTarget(StagedTarget):
    """Runs models on a device behind ssh."""

    def __init__(self, name: str, device: SshDevice, limits: Limits | None = None, *, keeps_lock: bool = True) -> None:
        wait_seconds = limits.wait_seconds if limits is not None else 0.0
        self.transport = SshTransport(name, device, keeps_lock=keeps_lock, wait_seconds=wait_seconds)
        super().__init__(name, self.transport, limits)


def _lost(name: str, stage: str) -> Failure:
    message = f"The connection to {name} was lost {STAGE_WORDS[stage]}."
    hint = "Check the network and the device's power, then run the command again."
    return Failure(stage, "target", message, hint, code=CONNECTION_LOST)


def _unfit(name: str, facts: DeviceFacts) -> Failure | None:
    """Why no model can be run on a device, if that is so."""
    if facts.version[:2] < _OLDEST_PYTHON:
        message = f"{name} has Python {'.'.join(map(str, facts.version))}, but hasten needs 3.10 or newer."
        return Failure("start", "target", message, "Name another one with python = … in targets.toml.")
    if facts.engine is not None:
        return None
    if facts.architecture not in _ARCHITECTURES or facts.bits != 64:
        message = f"LiteRT has no package for {name}: its Python is {facts.bits} bit {facts.architecture}."
        return Failure("start", "target", message, "Install a 64 bit system (aarch64 or x86_64) on the device.")
    message = f"LiteRT is not installed on {name}, in {facts.python or 'its Python'}."
    hint = f"Install it there: hasten devices {shlex.quote(name)} --setup"
    return Failure("start", "target", message, hint, code=NOT_INSTALLED)


def _run(command: tuple[str, ...], hear: Callable[[str], None]) -> int:
    """Run a command for half an hour at most, and hear its lines; its exit status. It ends with this call."""
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
    )
    limit = threading.Timer(_SECONDS_TO_INSTALL, process.kill)
    limit.daemon = True
    limit.start()
    try:
        assert process.stdout is not None
        with process.stdout as lines:
            for line in lines:
                hear(line.decode(errors="replace").rstrip())
        return process.wait()
    finally:
        limit.cancel()
        process.kill()
        process.wait()


def _requirement() -> str:
    return f"ai-edge-litert=={KNOWN_RELEASES[-1]}"


def _user_name() -> str:
    import getpass

    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return str(os.getuid())


def _new_socket_folder() -> str:
    """A private folder whose path leaves room for a socket's name."""
    folders = (os.environ.get("XDG_RUNTIME_DIR", ""), tempfile.gettempdir(), "/tmp")
    longest = _LONGEST_SOCKET - len("/hasten-12345678/s")
    # ssh splits the value of an option at spaces.
    short = [
        folder for folder in folders if 0 < len(os.fsencode(folder)) <= longest and not set(folder) & set(" \t\"'")
    ]
    usable = [folder for folder in short if os.access(folder, os.W_OK | os.X_OK)]
    if not usable:
        message = "No temporary folder of this machine has a path that ssh can take for its socket."
        raise RunnerFailed(Failure("start", "target", message, "Set TMPDIR to a folder with a short path."))
    return tempfile.mkdtemp(prefix="hasten-", dir=usable[0])


@contextlib.contextmanager
def _mapped(content: bytes | Path) -> Iterator[bytes | mmap.mmap]:
    """The content without reading a large file into memory."""
    if isinstance(content, bytes):
        yield content
        return
    with content.open("rb") as file:
        if not os.fstat(file.fileno()).st_size:
            yield b""
            return
        # Not closed by hand: the traceback of an error may still look at it.
        yield mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
