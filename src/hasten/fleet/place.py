"""Where a job runs: a worker's devices and files, what the job lacks, and what it tells on the way."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from hasten.core.codec import record
from hasten.core.errors import UsageError
from hasten.fleet.order import open_order
from hasten.fleet.parcel import FileStore
from hasten.practices.help.facts import Device
from hasten.targets.base import Limits
from hasten.targets.target_file import target_named

if TYPE_CHECKING:
    from collections.abc import Callable

    from hasten.fleet.order import OpenOrder, Order
    from hasten.targets.base import Target

_SECONDS_BETWEEN_TALES: Final = 1.0


@dataclass(frozen=True, slots=True)
class Missing:
    """What a job lacks to run on this worker."""

    digests: tuple[str, ...]
    worker: str


@dataclass(frozen=True, slots=True)
class Stopped:
    """The job was told to end before it had anything to show."""


@record
class Site:
    """A worker's devices, as they were when it started, and its files."""

    folder: Path
    devices: Mapping[str, Device]
    targets: Mapping[str, str]
    """What --target calls each device."""
    limits: Limits = field(default=Limits())

    @property
    def store(self) -> FileStore:
        """The files."""
        return FileStore(self.folder)


class Stream:
    """What a job tells its client on the way: how far it is, and the lines of its session as they are saved.

    Both go out between two rounds, so that nothing wakes while something is timed.
    """

    def __init__(self, send: Callable[[dict[str, Any]], None], device: str, is_wanted: Callable[[], bool]) -> None:
        self._send, self._device, self._is_wanted = send, device, is_wanted
        self._last, self._sent_bytes = -_SECONDS_BETWEEN_TALES, 0

    def progress(self, share: float, text: str) -> None:
        """Tell how far the job is; KeyboardInterrupt, as Ctrl-C would be, where nobody wants its result any more."""
        if not self._is_wanted():
            raise KeyboardInterrupt
        if time.monotonic() - self._last >= _SECONDS_BETWEEN_TALES:
            self._last = time.monotonic()
            self._send({"device": self._device, "share": share, "text": text})

    def session(self, path: Path) -> None:
        """Send the lines that a session file has got since the last time."""
        try:
            with path.open("rb") as stream:
                stream.seek(self._sent_bytes)
                new = stream.read()
        except OSError:  # not there yet
            return
        whole = new[: new.rfind(b"\n") + 1]
        if whole:
            self._send({"device": self._device, "at": self._sent_bytes, "lines": whole.decode(errors="replace")})
            self._sent_bytes += len(whole)


@dataclass(slots=True)
class Place:
    """Where a job runs: the worker's site, its device, and the way back to the client."""

    site: Site
    stream: Stream
    _targets: dict[str, Target] = field(default_factory=dict)

    def open(self, order: Order) -> OpenOrder:
        """The order's model and data."""
        return open_order(order, self.site.store)

    def target(self, device: str) -> Target:
        """A device that this worker offers; held for as long as the job lasts, so that others get it afterwards."""
        if device not in self.site.targets:
            raise UsageError(f"This worker does not offer {device}.", "Start it with --device.")
        if device not in self._targets:
            self._targets[device] = target_named(self.site.targets[device], self.site.limits)
        return self._targets[device]

    def close(self) -> None:
        """Leave the devices."""
        for target in self._targets.values():
            target.close()


class Job(Protocol):
    """Something that a worker does. `device` is empty for what any worker can do."""

    @property
    def run_name(self) -> str:
        """The run that it belongs to."""

    @property
    def device(self) -> str:
        """The device that it needs."""

    @property
    def digests(self) -> tuple[str, ...]:
        """The contents that it needs."""

    @property
    def manifests(self) -> tuple[str, ...]:
        """The manifests of further files that it needs."""

    def perform(self, place: Place) -> Any:
        """Do it."""
