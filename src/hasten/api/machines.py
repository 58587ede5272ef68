"""Devices to measure on; what is wrong with a machine, or with a model on it."""

from __future__ import annotations

import pathlib
import tempfile
from dataclasses import replace
from typing import TYPE_CHECKING

from hasten.api.border import or_error
from hasten.core.failure import Failure
from hasten.core.plan import Plan, Workload
from hasten.measure.arguments import checked
from hasten.measure.effort import Effort
from hasten.measure.rounds import no_progress
from hasten.practices.help.facts import DoctorOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hasten.api.border import Path
    from hasten.measure.rounds import Progress
    from hasten.practices.help.facts import CleanFound, DevicesFound, DoctorFound, IssueBundle, ModelFound
    from hasten.targets.base import Target


@checked
def target(name: str = "local", *, seconds: float = 120.0, wait_seconds: float = 0.0) -> Target:
    """A device for `Effort(on=…)`: local, ssh://[user@]host[:port], or a name of the file of targets.

    `seconds` is the time limit for one request, `wait_seconds` how long to wait where another session has the device.
    Close it at the end: `with contextlib.closing(hasten.api.target(name)) as device: …`
    """
    from hasten.targets.base import Limits
    from hasten.targets.target_file import target_named

    return target_named(name, Limits(seconds, wait_seconds=wait_seconds))


def devices(names: Sequence[str] = (), *, progress: Progress = no_progress) -> DevicesFound:
    """The targets that are named, or all that are known, each with its machine."""
    from hasten.practices.help.run import devices as look

    return look(names, progress)


def clean_devices(names: Sequence[str] = (), *, progress: Progress = no_progress) -> CleanFound:
    """Remove all that hasten has stored on these devices, or on all that are known."""
    from hasten.practices.help.run import clean

    return clean(names, progress)


def set_up_device(name: str, *, progress: Progress = no_progress) -> DevicesFound:
    """Install LiteRT on a device, in an environment of hasten's own there."""
    from hasten.practices.help.run import set_up

    found = set_up(name, progress)
    if isinstance(found, Failure):
        raise found.error(Plan())
    return found


def doctor(effort: Effort = Effort()) -> DoctorFound:
    """Whether a machine is fit to measure on, and what is missing there."""
    from hasten.practices.help.run import run

    return run(effort)


@checked
def doctor_model(
    model: Path,
    plan: Plan = Plan(),
    workload: Workload = Workload(),
    *,
    options: DoctorOptions = DoctorOptions(),
    out: Path = "",
    announce: Callable[[IssueBundle], None] | None = None,
    effort: Effort = Effort(),
) -> ModelFound:
    """What is wrong with a model, and what would make it better; with `out`, also an issue bundle (a zip archive).

    That the model does not run is a finding, no error. `announce` is told what the bundle will hold before it is
    written.
    """
    from hasten.practices.help.examination import Examination, model_candidate, refuse_options, say_nothing, with_doubts

    place = pathlib.Path(out) if out else None
    refuse_options(options, place)
    candidate, graph = model_candidate(pathlib.Path(model), plan)
    candidate = with_doubts(replace(candidate, workload=workload), graph)
    with tempfile.TemporaryDirectory(prefix="hasten-") as folder:
        examination = Examination(candidate, graph, options, pathlib.Path(folder), place)
        return or_error(examination.run(effort, announce or say_nothing), candidate, effort)
