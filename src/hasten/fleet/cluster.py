"""The client's side of a cluster: its devices, files for its workers, and jobs whose results come as they are done.

Dask is imported here, in `address.py`, `serving.py` and `worker.py`, when it is used. All trouble comes out as a
HastenError before the first job runs, and as a Failure of a job afterwards.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import math
import queue
import ssl
import time
import uuid
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from hasten.core.codec import from_data
from hasten.core.errors import TargetError, UsageError
from hasten.core.failure import Failure
from hasten.core.units import several
from hasten.core.version import VERSION
from hasten.fleet import serving
from hasten.fleet.address import Tls, check_address, quiet_dask, require_dask, security_of
from hasten.fleet.offers import DEVICE, HOST, NAME, FleetOffer, device_shown, offer_from
from hasten.fleet.parcel import messages
from hasten.fleet.place import Missing
from hasten.practices.help.facts import Device, DevicesFound

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from hasten.fleet.place import Job

INSTALL_THERE: Final = f"Start dask scheduler in an environment that has hasten[cluster] {VERSION}."
_CONNECT_SECONDS: Final = 10.0
_LOOK_SECONDS: Final = 2.0
_LOST_SECONDS: Final = 60.0
_MOST_ATTEMPTS: Final = 3
# A list of files, the files, and once more on another worker.
_MOST_SUPPLIES: Final = 5
# The longest thing between two looks of a job is a round, or a share of an evaluation.
_STOP_SECONDS: Final = 45.0


@dataclass(slots=True)
class _Attempt:
    """A job that is under way."""

    job: Job
    number: int
    future: Any
    supplied: int = 0
    """How many times a worker was sent what it lacked for this job."""
    absent_since: float | None = None


@dataclass(slots=True)
class _Flight:
    """Jobs that are under way, by the keys of their tasks.

    One job a device at a time: of those that wait for resources a worker of Dask's looks at the first only, so that a
    second job of a busy device would hold up all other devices of its worker.
    """

    client: Any
    offers: Mapping[str, FleetOffer]
    waiting: dict[str, _Attempt] = field(default_factory=dict)
    _busy: set[str] = field(default_factory=set)
    _held: dict[str, deque[tuple[Job, int, int]]] = field(default_factory=dict)
    _done: queue.SimpleQueue[Any] = field(default_factory=queue.SimpleQueue)

    def submit(self, job: Job, number: int, supplied: int = 0) -> None:
        """Send a job to whoever offers its device, once that is free, or to any worker."""
        if job.device and job.device in self._busy:
            self._held.setdefault(job.device, deque()).append((job, number, supplied))
            return
        self._busy.add(job.device)
        resources = self.offers[job.device].resources if job.device else {HOST: 1.0}
        key = _key(job.device or "any")
        # Each is another task, whatever its arguments: a measurement must not be found again by its name.
        future = self.client.submit(serving.perform, job, key=key, resources=resources, pure=False)
        self.waiting[key] = _Attempt(job, number, future, supplied)
        future.add_done_callback(self._done.put)

    def landed(self, wake: Callable[[], None] | None) -> _Attempt | None:
        """The next job that has ended; None after a while without one."""
        try:
            future = self._done.get(timeout=_LOOK_SECONDS)
        except queue.Empty:
            if wake is not None:
                wake()
            return None
        attempt = self.waiting.pop(str(future.key), None)
        if attempt is not None:
            self._busy.discard(attempt.job.device)
            if held := self._held.get(attempt.job.device):
                self.submit(*held.popleft())
        return attempt

    def give_up(self, device: str) -> list[Job]:
        """Forget a device that nobody offers any more; the jobs that waited for it."""
        self._busy.discard(device)
        return [job for job, _, _ in self._held.pop(device, ())]

    def cancel(self) -> None:
        """Give up what is still under way."""
        if self.waiting:
            with contextlib.suppress(OSError, RuntimeError, TimeoutError):
                self.client.cancel([attempt.future for attempt in self.waiting.values()], force=True)


@dataclass(slots=True)
class Cluster:
    """A connection to a scheduler. Use it in a `with`."""

    address: str
    tls: Tls = field(default=Tls())
    connect_seconds: float = _CONNECT_SECONDS
    lost_seconds: float = _LOST_SECONDS
    """After how long a device that nobody offers any more has failed; a worker that died is back in a few seconds."""
    _client: Any = None
    _sources: dict[str, Path | bytes] = field(default_factory=dict)
    _sender: str = field(default_factory=lambda: uuid.uuid4().hex)

    def __enter__(self) -> Cluster:
        self.open()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def open(self) -> None:
        """Connect, or say what is wrong."""
        check_address(self.address, self.tls)
        require_dask()
        from distributed import Client

        quiet_dask()
        try:
            self._client = Client(
                self.address,
                security=security_of(self.tls),
                timeout=self.connect_seconds,
                set_as_default=False,
                name="hasten",
            )
        except (OSError, TimeoutError, asyncio.TimeoutError, ValueError, RuntimeError) as error:
            raise self._not_connected(error) from error
        try:
            self._check_scheduler()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Disconnect. Safe to call more than once."""
        if self._client is not None:
            with contextlib.suppress(OSError, RuntimeError, TimeoutError):
                self._client.close(timeout=5)
            self._client = None

    def offers(self) -> list[FleetOffer]:
        """Every device that a worker offers, by name; one that two workers offer is listed once."""
        workers = self._workers()
        if not workers:
            return []
        told = self._on(workers, serving.describe)
        found: dict[str, FleetOffer] = {}
        for address, description in told.items():
            for entry in description["devices"]:
                offer = offer_from(from_data(Device, entry), workers[address], address, description)
                if NAME.fullmatch(offer.name):
                    found.setdefault(offer.name, offer)
        return [found[name] for name in sorted(found)]

    def busy(self) -> set[str]:
        """The devices that a job is running on."""
        running = self._client.processing()
        keys = {str(key) for entries in running.values() for key in entries}
        return {key.split("/")[1] for key in keys if key.startswith("hasten/")}

    def selected(self, names: Sequence[str]) -> list[FleetOffer]:
        """The devices to use: those that are named, or all that can be used. An unknown one would be waited for."""
        offers = self.offers()
        if not offers:
            raise TargetError(
                f"The cluster at {self.address} offers no devices.",
                f"Start a worker with: hasten worker {self.address} --device local",
            )
        known = {offer.name: offer for offer in offers}
        if unknown := [name for name in names if name not in known]:
            raise UsageError(
                f"The cluster offers no device {unknown[0]!r}.", f"Choose from: {', '.join(sorted(known))}."
            )
        return [known[name] for name in dict.fromkeys(names)] if names else offers

    def devices(self, names: Sequence[str] = ()) -> DevicesFound:
        """What the workers offer. A device that a job is running on is in use; none is disturbed."""
        busy = self.busy()
        return DevicesFound(tuple(device_shown(offer, in_use=offer.name in busy) for offer in self.selected(names)))

    def know(self, sources: Mapping[str, Path | bytes]) -> None:
        """Remember where contents are that workers may ask for."""
        self._sources.update(sources)

    def supply(
        self, digests: Iterable[str], workers: Sequence[str], tell: Callable[[str], None] = lambda text: None
    ) -> int:
        """Send contents to the workers that lack them; how many were lacking.

        Each content leaves this machine once: workers get it from each other.
        """
        wanted = list(dict.fromkeys(digests))
        if not wanted or not workers:
            return 0
        lacking = {address: set(found) for address, found in self._on(workers, serving.lacking, wanted).items()}
        missing = [digest for digest in wanted if any(digest in found for found in lacking.values())]
        for number, message in enumerate(messages(self._sources, missing, self._sender)):
            tell(f"sending files to {several(len(workers), 'worker')}, message {number + 1}")
            needed = {piece.sha256 for piece in message.pieces}
            sent = self._client.scatter(message, hash=False)
            self._wait_until_kept(
                {
                    address: self._client.submit(
                        serving.keep, sent, key=_key("keep"), workers=[address], allow_other_workers=False
                    )
                    for address, found in lacking.items()
                    if needed & found
                }
            )
        return sum(len(found) for found in lacking.values())

    def _wait_until_kept(self, kept: dict[str, Any]) -> None:
        """Wait for the workers that a message was sent to. One that has gone would be waited for without end; what it
        did not keep, its job says in time."""
        from distributed import wait

        while waiting := {address: future for address, future in kept.items() if not future.done()}:
            with self._client.as_current(), contextlib.suppress(TimeoutError, asyncio.TimeoutError):
                wait(list(waiting.values()), timeout=_LOOK_SECONDS)
            gone = [future for address, future in waiting.items() if address not in self._info()]
            if gone:
                self._client.cancel(gone, force=True)
                kept = {address: future for address, future in kept.items() if future not in gone}

    def _on(self, workers: Iterable[str], function: Callable[..., Any], *arguments: Any) -> dict[str, Any]:
        """What a function says on each of these workers; those that have just gone say nothing."""
        told: dict[str, Any] = self._client.run(function, *arguments, workers=list(workers), on_error="ignore")
        return told

    def begin(self, run: str, hear: Callable[[dict[str, Any]], None]) -> None:
        """Let a run begin, or go on, and hear what its jobs tell on the way. It comes on a thread of Dask's."""
        self._on(self._workers(), serving.begin, run)
        self._client.subscribe_topic(serving.topic_of(run), lambda event: hear(event[1]))

    def stop(self, run: str) -> None:
        """Let the jobs of a run end with what they have."""
        with contextlib.suppress(OSError, RuntimeError, TimeoutError):
            self._on(self._workers(), serving.stop, run)

    def completed(
        self,
        work: Iterable[Job],
        offers: Mapping[str, FleetOffer],
        wake: Callable[[], None] = lambda: None,
        stop: Callable[[], None] | None = None,
    ) -> Iterator[tuple[Job, Any]]:
        """Each job with its result or a Failure, as they come. `wake` is called every two seconds meanwhile.

        A job whose worker died runs again, three times at most. Those that are not done when the caller turns away are
        cancelled. After Ctrl-C `stop` is called, which asks the jobs to conclude; what they deliver within a while
        still comes, and KeyboardInterrupt after it.
        """
        flight, until = _Flight(self._client, offers), math.inf
        try:
            for job in work:
                flight.submit(job, 1)
            while flight.waiting and time.monotonic() < until:
                try:
                    attempt = flight.landed(wake if until == math.inf else None)
                except KeyboardInterrupt:
                    if stop is None or until < math.inf:
                        raise
                    until = time.monotonic() + _STOP_SECONDS
                    stop()
                    continue
                yield from self._settled(flight, attempt)
            if until < math.inf:
                raise KeyboardInterrupt
        finally:
            flight.cancel()

    def _settled(self, flight: _Flight, attempt: _Attempt | None) -> Iterator[tuple[Job, Any]]:
        """The result of a job that has ended, unless it must run again; after a while without one, what was lost."""
        if attempt is None:
            for lost in self._lost(flight.waiting):
                for job in (lost.job, *flight.give_up(lost.job.device)):
                    yield job, _lost_failure(job)
            return
        outcome = self._outcome(attempt)
        if outcome is None:
            flight.submit(attempt.job, attempt.number + 1)
        elif isinstance(outcome, Missing) and attempt.supplied < _MOST_SUPPLIES:
            self.supply(outcome.digests, [outcome.worker])
            flight.submit(attempt.job, attempt.number, attempt.supplied + 1)
        elif isinstance(outcome, Missing):
            message = f"The worker at {outcome.worker} does not keep the files that it is sent."
            yield attempt.job, Failure("run", "target", message, "Check the free space of its --folder.")
        else:
            yield attempt.job, outcome

    def _outcome(self, attempt: _Attempt) -> Any:
        """What became of a job; None where it is worth another attempt."""
        error: Exception | None = None
        if attempt.future.status != "cancelled":
            try:
                return attempt.future.result()
            except (asyncio.CancelledError, concurrent.futures.CancelledError):
                pass
            except Exception as raised:  # noqa: BLE001 - whatever a task raised comes out here
                error = raised
        if _is_dead_worker(error) or error is None:
            if self._client.status != "running":
                message = f"The connection to the scheduler at {self.address} was lost."
                return Failure("run", "target", message, "Start it again, then continue with --resume.")
            if attempt.number < _MOST_ATTEMPTS:
                return None
            message = f"The worker of {attempt.job.device or 'a job'} died {attempt.number} times."
            return Failure("run", "target", message, "Look at the worker's output, then continue with --resume.")
        return Failure("run", "bug", f"{type(error).__name__}: {error}", "Please report this.")

    def _lost(self, waiting: dict[str, _Attempt]) -> Iterator[_Attempt]:
        """Jobs whose device nobody has offered for a while. Dask would wait for it without end, and say nothing."""
        try:
            offered = {name for entry in self._info().values() for name in entry.get("resources", {})}
        except (OSError, RuntimeError, TimeoutError):  # the scheduler has gone: Dask ends its jobs in a moment
            return
        for key, attempt in list(waiting.items()):
            wanted = f"{DEVICE}{attempt.job.device}" if attempt.job.device else HOST
            if wanted in offered:
                attempt.absent_since = None
                continue
            attempt.absent_since = attempt.absent_since or time.monotonic()
            if time.monotonic() - attempt.absent_since >= self.lost_seconds:
                del waiting[key]
                self._client.cancel([attempt.future], force=True)
                yield attempt

    def _workers(self) -> dict[str, str]:
        """The workers that offer devices: address → name."""
        return {
            address: str(entry.get("name", address))
            for address, entry in self._info().items()
            if any(name.startswith(DEVICE) for name in entry.get("resources", {}))
        }

    def _info(self) -> dict[str, dict[str, Any]]:
        # Without the number Dask tells of five workers only, and says nothing of the rest.
        found: dict[str, dict[str, Any]] = self._client.scheduler_info(n_workers=-1)["workers"]
        return found

    def _check_scheduler(self) -> None:
        """Dask's scheduler unpacks each job before it passes it on, so it needs the same hasten as the workers."""
        try:
            theirs = self._client.run_on_scheduler(serving.release)
        except Exception as error:  # whatever the import of a module raises there comes out here
            message = f"The scheduler at {self.address} cannot import hasten: {error}."
            raise TargetError(message, INSTALL_THERE) from error
        if theirs != VERSION:
            raise TargetError(f"The scheduler at {self.address} has hasten {theirs}, not {VERSION}.", INSTALL_THERE)

    def _not_connected(self, error: Exception) -> TargetError:
        if _is_certificate_trouble(error):
            return TargetError(
                f"The scheduler at {self.address} and this machine do not accept each other's certificates.",
                "Check that one authority signed both, and that --tls-ca is its certificate.",
            )
        hint = "Check the address, and that the scheduler runs: dask scheduler --host 127.0.0.1 --port 8786"
        if self.tls.is_given:
            hint = "Check the address, and that the scheduler runs with a certificate of the same authority."
        return TargetError(f"No scheduler answers at {self.address} within {self.connect_seconds:g} s.", hint)


def _key(what: str) -> str:
    """A name for a task: the device can be told from it."""
    return f"hasten/{what}/{uuid.uuid4().hex}"


def _lost_failure(job: Job) -> Failure:
    message = f"No worker offers {job.device} any more." if job.device else "No worker is left."
    return Failure("run", "target", message, "Start its worker again, then continue with --resume.")


def _is_dead_worker(error: BaseException | None) -> bool:
    if error is None:
        return False
    from distributed.scheduler import KilledWorker

    return isinstance(error, KilledWorker)


def _is_certificate_trouble(error: BaseException | None) -> bool:
    """Whether a certificate was refused, by either side, somewhere behind an error."""
    seen = 0
    while error is not None and seen < 10:
        real = getattr(error, "real_error", None)  # Tornado's, of a stream that was closed
        if isinstance(error, ssl.SSLError) or isinstance(real, ssl.SSLError):
            return True
        error, seen = error.__cause__ or error.__context__, seen + 1
    return False
