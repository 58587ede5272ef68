"""An ssh server of this machine's own, on loopback: its own keys, configuration and port. Nothing else is touched."""

from __future__ import annotations

import contextlib
import getpass
import os
import shutil
import socket
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hasten.targets.ssh import SshDevice

if TYPE_CHECKING:
    from collections.abc import Iterator

HOST = "hasten-loopback"
_SECONDS_TO_START = 20.0
_PRIVILEGES = Path("/run/sshd")


@dataclass
class LoopbackSshd:
    """A server that runs, and how to reach it."""

    folder: Path
    port: int
    process: subprocess.Popen[bytes]

    @property
    def config(self) -> Path:
        """The client's configuration file, in which the server is HOST."""
        return self.folder / "ssh_config"

    def device(self, folder: Path, python: str) -> SshDevice:
        """The server as a device that keeps hasten's files in a folder of its own."""
        return SshDevice(HOST, python=python, folder=str(folder), config=str(self.config))

    def connections(self) -> list[int]:
        """The server's own processes that serve connections, without the programs that were started through them."""
        found, waiting = [], children_of(self.process.pid)
        while waiting:
            pid = waiting.pop()
            if is_running(pid) and name_of(pid).startswith("sshd"):
                found.append(pid)
                waiting += children_of(pid)
        return found


def find_sshd() -> str:
    """The server's program; skips the test where there is none."""
    found = shutil.which("sshd", path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/usr/local/sbin:/sbin")
    if found is None or shutil.which("ssh") is None or shutil.which("ssh-keygen") is None:
        pytest.skip("there is no ssh server here: apt-get install openssh-server")
    return found


@contextlib.contextmanager
def running_sshd(folder: Path, *settings: str) -> Iterator[LoopbackSshd]:
    """A server with these settings, for as long as it is needed."""
    program = find_sshd()
    if os.geteuid() == 0:
        _PRIVILEGES.mkdir(mode=0o755, parents=True, exist_ok=True)
    for name in ("host_key", "user_key"):
        command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "hasten test", "-f", str(folder / name)]
        subprocess.run(command, check=True, timeout=60)
    shutil.copy(folder / "user_key.pub", folder / "authorized_keys")
    port = _free_port()
    _write_server_config(folder, port, settings)
    _write_client_config(folder, port)
    with (folder / "sshd.log").open("wb") as log:
        command = [program, "-D", "-e", "-f", str(folder / "sshd_config")]
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
    try:
        _wait_until_it_listens(process, port, folder / "sshd.log")
        yield LoopbackSshd(folder, port, process)
    finally:
        for pid in children_of(process.pid):
            _kill(pid)
        process.kill()
        process.wait()


@contextlib.contextmanager
def silent_port() -> Iterator[int]:
    """A port of loopback that answers nothing, as a device that is off: its queue of connections is full."""
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(socket.socket())
        server.bind(("127.0.0.1", 0))
        server.listen(0)
        port: int = server.getsockname()[1]
        for _ in range(4):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(("127.0.0.1", port))
        yield port


def children_of(parent: int) -> list[int]:
    """The processes that this one has started and that are still its children."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == parent:
            found.append(int(path.parent.name))
    return found


def is_running(pid: int) -> bool:
    """Whether this process is there, and more than a record of its end."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def listening_addresses(pids: list[int]) -> set[str]:
    """The addresses on which these processes listen, as the kernel writes them."""
    sockets = set()
    for pid in pids:
        with contextlib.suppress(OSError):
            for descriptor in Path(f"/proc/{pid}/fd").iterdir():
                with contextlib.suppress(OSError):
                    sockets.add(str(descriptor.readlink()))
    found = set()
    for table in ("tcp", "tcp6"):
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
                columns = line.split()
                if columns[3] == "0A" and f"socket:[{columns[9]}]" in sockets:
                    found.add(columns[1].partition(":")[0])
    return found


def name_of(pid: int) -> str:
    """The name of a process's program."""
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def _kill(pid: int) -> None:
    try:
        os.kill(pid, 9)
    except ProcessLookupError:
        return


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


def _write_server_config(folder: Path, port: int, settings: tuple[str, ...]) -> None:
    lines = [
        f"Port {port}",
        "ListenAddress 127.0.0.1",
        f"HostKey {folder / 'host_key'}",
        f"PidFile {folder / 'sshd.pid'}",
        f"AuthorizedKeysFile {folder / 'authorized_keys'}",
        "StrictModes no",
        "UsePAM no",
        "PasswordAuthentication no",
        "KbdInteractiveAuthentication no",
        "PermitRootLogin prohibit-password",
        "PrintMotd no",
        "MaxStartups 100",
        "LogLevel ERROR",
        # What the account's own shell runs at the start of a login (pyenv, conda, …) is not under test: bash leaves it
        # out in a shell within another.
        "SetEnv SHLVL=1",
        *settings,
    ]
    (folder / "sshd_config").write_text("\n".join(lines) + "\n")


def _write_client_config(folder: Path, port: int) -> None:
    known = folder / "known_hosts"
    known.write_text(f"[127.0.0.1]:{port} {(folder / 'host_key.pub').read_text()}")
    lines = [
        f"Host {HOST}",
        "HostName 127.0.0.1",
        f"Port {port}",
        f"User {getpass.getuser()}",
        f"IdentityFile {folder / 'user_key'}",
        "IdentitiesOnly yes",
        f"UserKnownHostsFile {known}",
        "GlobalKnownHostsFile /dev/null",
        "StrictHostKeyChecking yes",
    ]
    (folder / "ssh_config").write_text("\n".join(lines) + "\n")


def _wait_until_it_listens(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    deadline = time.monotonic() + _SECONDS_TO_START
    while time.monotonic() < deadline:
        if process.poll() is not None:
            pytest.skip(f"the ssh server does not start here: {log.read_text(errors='replace').strip()}")
        try:
            socket.create_connection(("127.0.0.1", port), 1.0).close()
        except OSError:
            time.sleep(0.02)  # it says nothing when it is ready
        else:
            return
    pytest.skip("the ssh server did not start in time")
