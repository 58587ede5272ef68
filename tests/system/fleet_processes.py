"""A cluster on loopback as a user starts one: a scheduler, and workers that are processes of their own."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from commandline import is_runner, start

from hasten.fleet.address import Tls
from hasten.fleet.cluster import Cluster

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hasten.fleet.offers import FleetOffer

_PATIENCE_SECONDS: Final = 60.0


def until(condition: Callable[[], bool], what: str, seconds: float = _PATIENCE_SECONDS) -> None:
    """Wait for something that another process does."""
    deadline, pause = time.monotonic() + seconds, threading.Event()
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not happen within {seconds:g} s"
        pause.wait(0.05)


@dataclass(slots=True)
class Processes:
    """A scheduler with workers; each worker has a folder of its own, as machines have."""

    folder: Path
    scheduler: subprocess.Popen[str]
    address: str
    tls: Tls
    workers: dict[str, subprocess.Popen[str]] = field(default_factory=dict)

    def add_worker(self, name: str, *options: str, cores: set[int] | None = None) -> None:
        """Start a worker that offers this machine under its own name."""
        place = str(self.folder / name)
        command = ("worker", self.address, "--name", name, "--folder", place, *self.tls_options, *options)
        log = (self.folder / f"{name}.log").open("w")
        before = os.sched_getaffinity(0)
        if cores is not None:
            os.sched_setaffinity(0, cores)  # inherited by the worker and its runners
        try:
            self.workers[name] = start(*command, stdout=log, stderr=log)
        finally:
            os.sched_setaffinity(0, before)
            log.close()

    @property
    def tls_options(self) -> tuple[str, ...]:
        """The options of every command that joins this cluster."""
        if not self.tls.is_given:
            return ()
        return ("--tls-ca", self.tls.ca, "--tls-cert", self.tls.certificate, "--tls-key", self.tls.key)

    @property
    def options(self) -> tuple[str, ...]:
        """The options of a command that uses it."""
        return ("--cluster", self.address, *self.tls_options)

    def wait_for_devices(self, count: int) -> list[FleetOffer]:
        """Wait until so many devices are offered."""
        found: list[FleetOffer] = []
        with Cluster(self.address, self.tls, connect_seconds=_PATIENCE_SECONDS) as cluster:

            def are_there() -> bool:
                for name, process in self.workers.items():
                    log = self.folder / f"{name}.log"
                    assert process.poll() is None, f"the worker {name} ended:\n{log.read_text()}"
                with contextlib.suppress(OSError):  # one of them is only starting
                    found[:] = cluster.offers()
                return len(found) == count

            until(are_there, f"{count} devices")
        return found

    def process_of(self, name: str) -> int:
        """The process in which a worker runs its jobs: the one that the nanny started."""
        with Cluster(self.address, self.tls) as cluster:
            address = next(offer.address for offer in cluster.offers() if offer.name == name)
            found: dict[str, int] = cluster._client.run(os.getpid, workers=[address])
        return found[address]

    def family(self) -> list[int]:
        """Every process of the cluster, with all that they started."""
        roots = [self.scheduler.pid, *(worker.pid for worker in self.workers.values())]
        return [pid for root in roots for pid in (root, *descendants(root))]

    def runners(self) -> list[int]:
        """The runners that are at work now."""
        return [pid for pid in self.family() if is_runner(pid)]

    def close(self) -> None:
        """End all of it."""
        for process in [*self.workers.values(), self.scheduler]:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
        for process in [*self.workers.values(), self.scheduler]:
            _wait_or_kill(process)


def _wait_or_kill(process: subprocess.Popen[str]) -> None:
    try:
        process.wait(15)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@contextlib.contextmanager
def processes(folder: Path, tls: Tls | None = None) -> Iterator[Processes]:
    """A scheduler on a free port of loopback."""
    told = folder / "scheduler.json"
    tls = tls or Tls()
    secure = ("--protocol", "tls") if tls.is_given else ()
    files = ("--tls-ca-file", tls.ca, "--tls-cert", tls.certificate, "--tls-key", tls.key) if tls.is_given else ()
    command = (
        *(sys.executable, "-m", "dask", "scheduler", "--host", "127.0.0.1", "--port", "0"),
        *("--dashboard-address", "127.0.0.1:0", "--no-dashboard", "--scheduler-file", str(told), *secure, *files),
    )
    log = (folder / "scheduler.log").open("w")
    scheduler = subprocess.Popen(
        command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True, text=True
    )
    log.close()
    try:
        until(told.exists, "the scheduler's start")
        until(lambda: bool(told.read_text()), "the scheduler's address")
        cluster = Processes(folder, scheduler, json.loads(told.read_text())["address"], tls)
        try:
            yield cluster
        finally:
            cluster.close()
    finally:
        if scheduler.poll() is None:
            os.killpg(scheduler.pid, signal.SIGKILL)
            scheduler.wait()


def descendants(pid: int) -> list[int]:
    """The processes that a process has started, and those that they have started."""
    found = []
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                found += [int(child), *descendants(int(child))]
    return found


def make_certificates(folder: Path, authority: str) -> Tls:
    """An authority, and a certificate that it signed for this machine: what a lab's administrator makes."""

    def openssl(*words: str) -> None:
        subprocess.run(["openssl", *words], check=True, capture_output=True, cwd=folder)

    key, signed = f"{authority}-me.key", f"{authority}-me.pem"
    ca_key, ca = f"{authority}.key", f"{authority}.pem"
    new_key = ("-newkey", "rsa:2048", "-nodes")
    openssl("req", "-x509", *new_key, "-keyout", ca_key, "-out", ca, "-days", "2", "-subj", f"/CN={authority}")
    openssl("req", *new_key, "-keyout", key, "-out", f"{authority}.csr", "-subj", "/CN=127.0.0.1")
    openssl("x509", "-req", "-in", f"{authority}.csr", "-CA", ca, "-CAkey", ca_key, "-CAcreateserial", "-out", signed)
    return Tls(*(str(folder / name) for name in (ca, signed, key)))
