"""What Dask calls on a worker: it performs jobs, describes what it offers, and keeps files.

Everything that goes wrong becomes a value: an exception would cross the network as a traceback, and a job that kills
its process would take one worker after the other with it.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from hasten.core.codec import from_data, to_data
from hasten.core.errors import HastenError, UsageError
from hasten.core.failure import Failure, RunnerFailed, failure_from_error
from hasten.core.version import VERSION
from hasten.fleet.place import Missing, Place, Site, Stopped, Stream

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hasten.fleet.parcel import Message
    from hasten.fleet.place import Job

SITE: Final = "HASTEN_FLEET"
"""The environment variable that names the file in which a worker's process finds its devices and its folder."""

_site: Site | None = None
_stopped: set[str] = set()
_site_lock = threading.Lock()


def site_here() -> Site:
    """The site of this worker's process."""
    global _site  # one for each process, made when it is first needed
    with _site_lock:
        if _site is None:
            if SITE not in os.environ:
                raise UsageError("This worker offers no devices.", "Start it with hasten worker.")
            _site = from_data(Site, json.loads(Path(os.environ[SITE]).read_text(encoding="utf-8")))
        return _site


def perform(job: Job) -> Any:
    """What Dask calls on a worker: the job's result, or what it lacks, or what went wrong."""
    from distributed import get_worker

    worker = get_worker()
    key = worker.get_current_task()
    topic = topic_of(job.run_name)
    stream = Stream(
        lambda told: worker.log_event(topic, told),
        job.device,
        lambda: job.run_name not in _stopped and not _is_released(worker, key),
    )
    return performed(job, stream, worker.address)


def performed(job: Job, stream: Stream, worker: str = "") -> Any:
    """The same without Dask."""
    try:
        site = site_here()
        if lacking := site.store.lacking_for(job.digests, job.manifests):
            return Missing(tuple(lacking), worker)
        with contextlib.closing(Place(site, stream)) as place:
            return job.perform(place)
    except KeyboardInterrupt:
        return Stopped()
    except RunnerFailed as failed:
        return failed.failure
    except HastenError as error:
        return failure_from_error(error, "run")
    except OSError as error:
        return Failure("run", "target", f"The worker cannot use its files: {error}.", "Check its disk and --folder.")


def topic_of(run: str) -> str:
    """Under which name the jobs of a run tell what they are doing."""
    return f"hasten-{run}"


def _is_released(worker: Any, key: str) -> bool:
    """Whether the scheduler has forgotten this task: its client has gone, or did not want it any more."""
    task = worker.state.tasks.get(key)
    return task is None or task.state == "cancelled"


def release() -> str:
    """The release of hasten where this is called."""
    return VERSION


def describe() -> dict[str, Any]:
    """What a worker offers, from what it knew when it started: no device is disturbed."""
    devices = [to_data(device) for device in site_here().devices.values()]
    return {"hasten": release(), "host": platform.node(), "devices": devices}


def lacking(digests: Sequence[str]) -> list[str]:
    """The contents that this worker does not have."""
    return site_here().store.lacking(digests)


def keep(message: Message) -> int:
    """Keep the contents of a message; how many pieces it had."""
    site_here().store.put(message)
    return len(message.pieces)


def begin(run: str) -> None:
    """Let the jobs of a run that was stopped run again."""
    _stopped.discard(run)


def stop(run: str) -> None:
    """Let the jobs of a run end with what they have."""
    _stopped.add(run)
