"""A fleet: how long devices wait for their next trial, and what a second worker brings to an evaluation.

Wanted: 200 simulated devices with 20 trials each lie idle for at most 5 % of the time while their queue is full; and an
evaluation on two workers with a core each is at least 1.6 times faster than on one, or at least 0.9 of what two bare
processes gain here over one.

A simulated device is a job that waits as long as a trial takes (2 to 6 s), tells its progress as a tuning does, and
returns as many bytes as a race's rounds have. Four worker processes offer fifty devices each. Idle is the share of the
time between a device's first beginning and its last end in which it had no job. The scheduler, all workers and the
client share the cores of this machine, which a real lab's would not: the figure is an upper bound.

The evaluations take turns: one worker, two workers, one bare process, two of them; ratios are medians over the turns.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import itertools
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from benchmarks.common import ROOT, record
from hasten.core.failure import Failure
from hasten.core.plan import Plan, Workload
from hasten.core.trial import CHOOSING, REPORTING
from hasten.data.request import Data
from hasten.data.sources import open_dataset
from hasten.evaluate.evaluation import EvaluationData, EvaluationOptions
from hasten.evaluate.run import evaluate
from hasten.evaluate.split import parts
from hasten.fleet.cluster import Cluster
from hasten.fleet.order import make_order
from hasten.fleet.place import Place, Site
from hasten.fleet.spreading import SpreadEvaluation
from hasten.fleet.worker import WorkerRequest, serve_site
from hasten.measure.opening import open_model
from hasten.model.example_models import mobilenet_like
from hasten.practices.help.facts import Device
from hasten.search.settings import SearchSettings
from hasten.targets.base import LOCAL
from hasten.targets.local import LocalTarget

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hasten.fleet.offers import FleetOffer
    from hasten.fleet.parcel import Sources

_DEVICES, _TRIALS, _WORKERS = 200, 20, 4
_SHORTEST_S, _LONGEST_S = 2.0, 6.0
_RESULT_BYTES: Final = 30_000
_MOST_IDLE: Final = 0.05
_SAMPLES: Final = 3000
_TURNS: Final = 5
_WANTED, _OF_BARE = 1.6, 0.9
_PATHS: Final = os.environ.get("PYTHONPATH", "").split(os.pathsep)


@dataclass(frozen=True, slots=True)
class SimulatedTrial:
    """A trial that takes its time and does nothing."""

    device: str
    number: int
    seconds: float
    run_name: str = "simulated"
    digests: tuple[str, ...] = ()
    manifests: tuple[str, ...] = ()

    def perform(self, place: Place) -> tuple[str, float, float, bytes]:
        """Wait as long as a trial takes, and tell how far it is as a tuning does."""
        begin = time.time()
        for step in range(4):
            place.stream.progress(step / 4, f"trial {self.number}")
            time.sleep(self.seconds / 4)
        return self.device, begin, time.time(), bytes(_RESULT_BYTES)


def main() -> int:
    """Both parts; `--worker` and `--evaluate` are what this program starts itself as."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fleet")
    parser.add_argument("--worker", nargs=4, metavar=("ADDRESS", "NAME", "DEVICES", "FOLDER"))
    parser.add_argument("--evaluate", nargs=3, metavar=("FOLDER", "PART", "OF"))
    given = parser.parse_args()
    if given.worker:
        return _worker(*given.worker)
    if given.evaluate:
        return _evaluate_alone(Path(given.evaluate[0]), int(given.evaluate[1]), int(given.evaluate[2]))
    queue, evaluation = _queue(), _evaluation()
    passed = queue["idle_share"] <= _MOST_IDLE and (
        evaluation["ratio"] >= _WANTED or evaluation["ratio"] >= _OF_BARE * evaluation["bare_ratio"]
    )
    return record("fleet", {"queue": queue, "evaluation": evaluation}, passed=passed)


def _queue() -> dict[str, Any]:
    """Every device with a full queue of trials."""
    source = random.Random(0)
    names = [f"sim-{number:03d}" for number in range(_DEVICES)]
    work = [
        SimulatedTrial(name, number, source.uniform(_SHORTEST_S, _LONGEST_S))
        for number in range(_TRIALS)
        for name in names
    ]
    each = _DEVICES // _WORKERS
    with _cluster() as (address, start, folder):
        for number in range(_WORKERS):
            start(str(number), ",".join(names[each * number : each * (number + 1)]))
        with Cluster(address, connect_seconds=60) as cluster:
            offers = _wait_for(cluster, _DEVICES)
            begin = time.monotonic()
            spans: dict[str, list[tuple[float, float]]] = {}
            saved = (folder / "saved").open("wb")
            for _, result in cluster.completed(work, offers):
                if isinstance(result, Failure):
                    raise RuntimeError(result.message)
                device, first, last, content = result
                spans.setdefault(device, []).append((first, last))
                saved.write(content)  # as a session is: each result as it comes
                saved.flush()
            saved.close()
            seconds = time.monotonic() - begin
    idle = [_idle_share(found) for found in spans.values()]
    overlaps = sum(_overlaps(found) for found in spans.values())
    assert not overlaps, f"{overlaps} trials ran beside another one on their device"
    ideal = statistics.fmean(sum(last - first for first, last in found) for found in spans.values())
    return {
        "devices": _DEVICES,
        "trials": sum(len(found) for found in spans.values()),
        "workers": _WORKERS,
        "idle_share": round(statistics.fmean(idle), 4),
        "worst_device_idle_share": round(max(idle), 4),
        "seconds": round(seconds, 1),
        "seconds_without_idle": round(ideal, 1),
    }


def _idle_share(found: list[tuple[float, float]]) -> float:
    busy = sum(last - first for first, last in found)
    return 1 - busy / (max(last for _, last in found) - min(first for first, _ in found))


def _overlaps(found: list[tuple[float, float]]) -> int:
    ordered = sorted(found)
    return sum(later[0] < earlier[1] - 1e-3 for earlier, later in itertools.pairwise(ordered))


def _evaluation() -> dict[str, Any]:
    """One worker, two workers, and bare processes, in turns."""
    with _cluster() as (address, start, folder):
        model, data = _subject(folder)
        for number in range(2):
            start(f"core-{number}", f"core-{number}", number)
        with Cluster(address, connect_seconds=60) as cluster:
            offers = _wait_for(cluster, 2)
            seconds: dict[str, list[float]] = {"one": [], "two": [], "bare_one": [], "bare_two": []}
            same = True
            for turn in range(_TURNS):
                one, first = _spread(cluster, list(offers.values())[:1], model, data)
                two, second = _spread(cluster, list(offers.values()), model, data)
                same = same and first == second
                found = {"one": one, "two": two, "bare_one": _bare(folder, 1), "bare_two": _bare(folder, 2)}
                for name, value in found.items():
                    seconds[name].append(value)
                print(f"turn {turn + 1}: " + ", ".join(f"{name} {value:.1f} s" for name, value in found.items()))
    pairs = zip(seconds["one"], seconds["two"], strict=True)
    bare = zip(seconds["bare_one"], seconds["bare_two"], strict=True)
    return {
        "samples": _SAMPLES,
        "ratio": round(statistics.median(one / two for one, two in pairs), 2),
        "bare_ratio": round(statistics.median(one / two for one, two in bare), 2),
        "same_predictions": same,
        "seconds": {name: [round(value, 1) for value in values] for name, values in seconds.items()},
    }


def _subject(folder: Path) -> tuple[Path, Path]:
    model, data = folder / "model.tflite", folder / "data.npz"
    model.write_bytes(mobilenet_like(32, 3, 48))
    colors = np.random.default_rng(0).normal(0, 2, (_SAMPLES, 1, 1, 3)).astype(np.float32)
    np.savez(data, x=np.broadcast_to(colors, (_SAMPLES, 48, 48, 3)))
    return model, data


def _spread(cluster: Cluster, offers: list[FleetOffer], model: Path, data: Path) -> tuple[float, list[Any]]:
    """The time of one evaluation of the larger part; and what the model answered."""
    sources: Sources = {}
    order = make_order("evaluation", (model, Plan(), Workload()), Data(str(data)), SearchSettings(), 0.0, sources)
    cluster.know(sources)
    cluster.supply(sources, [offer.address for offer in offers])
    candidate, graph = open_model(model)
    by_name = dict(zip((CHOOSING, REPORTING), parts(open_dataset(str(data)), None), strict=True))
    run = SpreadEvaluation(cluster, order, offers, lambda name: by_name[name])
    begin = time.perf_counter()
    found = run(LocalTarget(), candidate, EvaluationData(by_name[REPORTING]), graph=graph)
    seconds = time.perf_counter() - begin
    if isinstance(found, Failure):
        raise RuntimeError(found.message)
    if not run.spread:
        raise RuntimeError("the evaluation was not spread")
    return seconds, [str(found.references[position]) for position in found.positions]


def _bare(folder: Path, count: int) -> float:
    """The same samples without a cluster: processes with a core each, which share them out."""
    begin = time.perf_counter()
    started = [
        subprocess.Popen(
            [sys.executable, "-m", "benchmarks.fleet", "--evaluate", str(folder), str(part), str(count)],
            cwd=ROOT,
            preexec_fn=functools.partial(os.sched_setaffinity, 0, {part}),
        )
        for part in range(count)
    ]
    for process in started:
        if process.wait():
            raise RuntimeError("a bare process failed")
    return time.perf_counter() - begin


def _evaluate_alone(folder: Path, part: int, of: int) -> int:
    candidate, graph = open_model(folder / "model.tflite")
    _, reporting = parts(open_dataset(str(folder / "data.npz")), None)
    assert not callable(reporting.samples)
    share = replace(reporting, samples=[*reporting.samples][part::of])
    found = evaluate(LocalTarget(), candidate, EvaluationData(share), options=EvaluationOptions(runners=1), graph=graph)
    return int(isinstance(found, Failure))


@contextlib.contextmanager
def _cluster() -> Iterator[tuple[str, Any, Path]]:
    """A scheduler on loopback; its address, a function that starts a worker, and a folder."""
    started: list[subprocess.Popen[bytes]] = []
    with tempfile.TemporaryDirectory(prefix="hasten-") as name:
        folder = Path(name)
        told = folder / "scheduler.json"
        scheduler = (
            *(sys.executable, "-m", "dask", "scheduler", "--host", "127.0.0.1", "--port", "0"),
            *("--no-dashboard", "--dashboard-address", "127.0.0.1:0", "--scheduler-file", str(told)),
        )

        def launch(command: tuple[str, ...], core: int | None = None) -> None:
            log = (folder / f"{len(started)}.log").open("wb")
            started.append(
                subprocess.Popen(
                    command,
                    cwd=ROOT,
                    env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, (str(ROOT), *_PATHS)))},
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                    preexec_fn=None if core is None else functools.partial(os.sched_setaffinity, 0, {core}),
                )
            )
            log.close()

        def start(worker: str, devices: str, core: int | None = None) -> None:
            where = str(folder / worker)
            launch((sys.executable, "-m", "benchmarks.fleet", "--worker", address, worker, devices, where), core)

        try:
            launch(scheduler)
            pause = threading.Event()
            while not told.exists() or not told.read_text():
                pause.wait(0.1)
            address = json.loads(told.read_text())["address"]
            yield address, start, folder
        finally:
            for process in reversed(started):
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGTERM)
            for process in started:
                process.wait(30)


def _worker(address: str, name: str, devices: str, folder: str) -> int:
    machine = LocalTarget().machine()
    kind, able = LOCAL if name.startswith("core-") else "simulated", LocalTarget.capabilities
    offered = {device: Device(device, able, machine, kind=kind) for device in devices.split(",")}
    serve_site(
        WorkerRequest(address, name=name, folder=folder), Site(Path(folder), offered, dict.fromkeys(offered, LOCAL))
    )
    return 0


def _wait_for(cluster: Cluster, count: int) -> dict[str, FleetOffer]:
    """The devices, once all are offered."""
    pause, deadline = threading.Event(), time.monotonic() + 120
    while True:
        found = {offer.name: offer for offer in cluster.offers()}
        if len(found) == count:
            return found
        if time.monotonic() > deadline:
            raise RuntimeError(f"only {len(found)} of {count} devices are offered")
        pause.wait(0.5)


if __name__ == "__main__":
    # Workers find the class of a job by its module, and this one has another name while it runs.
    from benchmarks.fleet import main as run

    sys.exit(run())
