"""A worker: a process of this machine that offers devices to a scheduler, each as a resource of its own.

Dask's nanny starts the process, and again when it dies. Nothing listens beyond loopback unless --host says so: whoever
reaches a worker or its scheduler can run code on it.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
import logging
import os
import platform
import re
import signal
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from hasten.core.cache_folder import cache_folder
from hasten.core.codec import to_data
from hasten.core.errors import DataError, TargetError, UsageError
from hasten.core.units import several
from hasten.core.whole_file import write_whole
from hasten.fleet.address import Tls, check_address, quiet_dask, require_dask, security_of
from hasten.fleet.offers import DEVICE, HOST, NAME
from hasten.fleet.place import Site
from hasten.fleet.serving import SITE
from hasten.practices.help.run import devices as look_at
from hasten.practices.help.words import BOOK
from hasten.targets.base import LOCAL, Limits

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

LOOPBACK: Final = "127.0.0.1"
_OTHER_CHARACTERS: Final = re.compile(r"[^A-Za-z0-9._-]+")
# Files come and descriptions are asked for while every device is busy.
_SPARE_THREADS: Final = 2
_JOIN_SECONDS: Final = 60
# For the worker's process, which begins with Dask's own settings for logs.
_SILENT: Final = {} if os.environ.get("HASTEN_DEBUG") else {"DASK_LOGGING__DISTRIBUTED": "critical"}
# A worker shares its machine with what is measured there: it must not wake more often than it has to, and runners must
# not inherit what Dask sets for workers that compute (one OpenMP thread, another allocator's threshold).
_QUIET: Final[Mapping[str, Any]] = {
    "distributed.nanny.pre-spawn-environ": _SILENT,
    "distributed.worker.profile.enabled": False,
    "distributed.admin.tick.interval": "2s",
    "distributed.admin.tick.limit": "1h",
    "distributed.admin.system-monitor.interval": "5s",
}


@dataclass(frozen=True, slots=True)
class WorkerRequest:
    """What a worker offers, to whom, and where it can be reached."""

    scheduler: str
    devices: tuple[str, ...] = (LOCAL,)
    """Targets, each perhaps with a name of its own: `NAME=TARGET`."""
    name: str = ""
    """Empty for the machine's own name."""
    host: str = ""
    """The address on which the worker listens; empty for loopback."""
    folder: str = ""
    tls: Tls = field(default=Tls())
    limits: Limits = field(default=Limits())


def serve(request: WorkerRequest, tell: Callable[[str], None]) -> None:
    """Offer the devices until the scheduler or the user ends it. `tell` is told what is offered, and what is not."""
    check_address(request.scheduler, request.tls)
    require_dask()
    host = listening_host(request)
    site = site_of(request, tell)
    site.store.tidy()
    for name, device in site.devices.items():
        if machine := device.machine:
            tell(f"Offering {name}: {machine.cpu}, {several(machine.cores, 'core')}, {machine.architecture}.")
    if not is_loopback(host) and not request.tls.is_given:
        tell(f"Anyone who reaches {host} can run code on this machine. Use TLS outside of a trusted network.")
    serve_site(request, site, host)


def serve_site(request: WorkerRequest, site: Site, host: str = LOOPBACK) -> None:
    """Offer the devices of a site, whatever they are."""
    told = site.folder / f"site-{os.getpid()}.json"
    try:
        site.folder.mkdir(parents=True, exist_ok=True)
        # A file, as an environment variable would be too small for a hundred devices.
        write_whole(told, json.dumps(to_data(site)))
    except OSError as error:
        raise DataError(
            f"{site.folder} cannot be written: {error.strerror}.", "Choose another with --folder."
        ) from error
    try:
        asyncio.run(_serve(request, site, host, told))
    finally:
        told.unlink(missing_ok=True)


async def _serve(request: WorkerRequest, site: Site, host: str, told: Path) -> None:
    import dask
    from distributed import Nanny

    dask.config.set(_QUIET)  # the nanny hands it on to the process that it starts
    quiet_dask()  # the nanny lets Dask log again before it has ended
    this = asyncio.current_task()
    assert this is not None, "a coroutine runs in a task"
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, this.cancel)
    nanny = Nanny(
        request.scheduler,
        name=request.name or platform.node(),
        nthreads=len(site.devices) + _SPARE_THREADS,
        resources=resources_of(site),
        host=host,
        # Of its own it would listen on all interfaces.
        dashboard_address=f"{host}:0",
        dashboard=False,
        memory_limit=0,
        local_directory=str(site.folder / "dask"),
        security=security_of(request.tls),
        protocol=urlsplit(request.scheduler).scheme,
        env={SITE: str(told)},
        death_timeout=_JOIN_SECONDS,
        silence_logs=None if os.environ.get("HASTEN_DEBUG") else logging.CRITICAL,
    )
    try:
        await nanny
    except (OSError, TimeoutError, asyncio.TimeoutError, RuntimeError) as error:
        raise TargetError(
            f"The worker cannot join the scheduler at {request.scheduler}.",
            "Check the address, that the scheduler runs, and the certificates if it uses TLS.",
        ) from error
    try:
        await nanny.finished()
    except asyncio.CancelledError:  # SIGTERM, or Ctrl-C, which asyncio then raises
        return
    finally:
        await nanny.close(timeout=5)


def site_of(request: WorkerRequest, tell: Callable[[str], None]) -> Site:
    """The devices that answer. One that does not is told and left out; where none does, there is nothing to offer."""
    named = named_devices(request.devices, request.name or platform.node())
    targets = tuple(dict.fromkeys(named.values()))
    seen = dict(zip(targets, look_at(targets).devices, strict=True))
    found = {}
    for name, device in ((name, seen[target]) for name, target in named.items()):
        if device.machine is None:
            tell(f"Not offering {name}: {BOOK.text(device.why)}")
        else:
            found[name] = replace(device, name=name)
    if not found:
        raise TargetError("None of the devices can be used.", "Look at them with hasten devices.")
    offered = {name: named[name] for name in found}
    return Site(Path(request.folder or default_folder()).resolve(), found, offered, request.limits)


def named_devices(texts: Sequence[str], worker: str) -> dict[str, str]:
    """Name → target. The machine itself is called as its worker is: every machine has a `local`."""
    found: dict[str, str] = {}
    for text in texts:
        name, separator, target = text.partition("=")
        if not separator or not NAME.fullmatch(name):
            if separator and "://" not in name:
                raise UsageError(
                    f"{name!r} cannot be the name of a device.", "Use up to 64 letters, digits, dots and hyphens."
                )
            name, target = "", text
        name = name or _plain(worker if target == LOCAL else target)
        if name in found:
            raise UsageError(f"Two devices are named {name!r}.", "Give each a name: --device NAME=TARGET.")
        found[name] = target
    if LOCAL in found.values() and len(found) > 1:
        raise UsageError(
            "A worker that offers this machine itself can offer no other device: its work would disturb the timing.",
            "Start a worker of its own for the other devices, on another machine.",
        )
    return found


def _plain(text: str) -> str:
    """A name from a target: `ssh-pi-10.0.0.3` from ssh://pi@10.0.0.3."""
    return _OTHER_CHARACTERS.sub("-", text).strip("-.")[:64].rstrip("-.") or "device"


def resources_of(site: Site) -> dict[str, float]:
    """One unit of each device, so that each has one job at a time; and one of the machine's own cores."""
    return {**{f"{DEVICE}{name}": 1.0 for name in site.devices}, HOST: 1.0}


def listening_host(request: WorkerRequest) -> str:
    """Where the worker listens. A scheduler on another machine must reach it, and that is for the user to say."""
    if request.host:
        return request.host
    scheduler = urlsplit(request.scheduler).hostname or ""
    if not is_loopback(scheduler):
        raise UsageError(
            f"The scheduler at {request.scheduler} must reach this worker, which listens on loopback only.",
            "Give the address of this machine in the lab's network with --host.",
        )
    return LOOPBACK


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach the address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def default_folder() -> str:
    """Where a worker keeps files between runs."""
    return str(cache_folder() / "fleet")
