"""A fleet's tuning with a cluster whose devices deliver what a test gives them: what is saved, raced and left out.

The tuning that they deliver is a real one, made once; which trial is a device's best is the test's to say.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pytest

from hasten.bundle.folder import PLAN_FILE, read_bundle, write_bundle
from hasten.bundle.record import MODEL_FILE
from hasten.core.errors import Interrupted, UsageError
from hasten.core.failure import Failure
from hasten.core.floor import FloorState
from hasten.core.plan import Plan, Workload
from hasten.core.session import read_session
from hasten.core.trial import ORIGINAL, trial_from_data
from hasten.data.request import Data
from hasten.fleet.facts import FleetTrial
from hasten.fleet.jobs import MakeJob, RaceJob, RaceResult, TuneJob, TuneResult
from hasten.fleet.offers import FleetOffer
from hasten.fleet.serving import performed as perform
from hasten.fleet.tuning import FleetRequest, run
from hasten.search.folder import SESSION
from tests.unit.fleet.examples import compared, place
from tests.unit.fleet.site import DEVICE, SETTINGS, Told, order_for, settle, write_subject

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from hasten.fleet.parcel import Sources

NAMES = ("a", "b")


@dataclass(frozen=True)
class Real:
    """A real tuning's folder, and the model and data that it was of."""

    subject: tuple[Path, Path]
    files: Mapping[str, bytes]

    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.files[SESSION].splitlines()]

    def others(self) -> list[dict[str, Any]]:
        """The data of trials of the original with other plans than its own."""
        trials = {line["label"]: line["data"] for line in self.lines() if line.get("kind") == "trial"}
        timed = [data for data in trials.values() if data["variant"] == ORIGINAL and data["latency"] is not None]
        return [data for data in timed if trial_from_data(data).plan != Plan()]


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Real:
    folder = tmp_path_factory.mktemp("real")
    subject = write_subject(folder)
    sources: Sources = {}
    order = order_for(subject, sources, seconds=5.0)
    with pytest.MonkeyPatch.context() as patch:
        settle(folder / "worker", patch, sources)
        found = perform(TuneJob(order, DEVICE), Told().stream)
    assert isinstance(found, TuneResult), found
    made = Real(subject, found.files)
    assert len(made.others()) >= 2, "thread counts and kernels"
    return made


def delivered(real: Real, data: dict[str, Any], place: Path) -> dict[str, bytes]:
    """The folder of a tuning in which this trial has won."""
    lines = real.lines()
    for line in lines:
        if line.get("kind") == "result":
            line["data"]["best"] = {**line["data"]["best"], "variant": data["variant"], "plan": data["plan"]}
    place.mkdir(parents=True)
    for name, content in real.files.items():
        (place / name).write_bytes(content)
    write_bundle(real.subject[0], replace(read_bundle(place), plan=trial_from_data(data).plan))
    session = "".join(json.dumps(line) + "\n" for line in lines).encode()
    return {**{name: (place / name).read_bytes() for name in (MODEL_FILE, PLAN_FILE)}, SESSION: session}


@dataclass
class FakeCluster:
    """Delivers what each device has found; keeps what it was asked for."""

    results: dict[str, Any]
    address: str = "tcp://127.0.0.1:8786"
    asked: list[Any] = field(default_factory=list)
    races: Callable[[RaceJob], Any] = lambda job: raced(job)
    hear: Callable[[dict[str, Any]], None] = lambda told: None
    stopped: int = 0

    def selected(self, names: Any) -> list[FleetOffer]:
        return [FleetOffer(place(name), "w", "tcp://w") for name in self.results]

    def know(self, sources: Any) -> None:
        """Nothing is sent."""

    def supply(self, digests: Any, workers: Any, tell: Any = None) -> int:
        return 0

    def begin(self, run: str, hear: Callable[[dict[str, Any]], None]) -> None:
        self.hear = hear

    def busy(self) -> set[str]:
        return {"b"}

    def stop(self, run: str) -> None:
        self.stopped += 1

    def completed(self, work: Any, offers: Any, wake: Any, stop: Any) -> Iterator[tuple[Any, Any]]:
        for job in work:
            self.asked.append(job)
            wake()
            if isinstance(job, MakeJob):
                yield job, Failure("make", "model", "not here")
            elif isinstance(job, RaceJob):
                yield job, self.races(job)
            elif self.results[job.device] == "ctrl-c":
                stop()
                raise KeyboardInterrupt
            else:
                yield job, self.results[job.device]

    def devices_asked(self, kind: type[Any]) -> list[str]:
        return [job.device for job in self.asked if isinstance(job, kind)]


def raced(job: RaceJob) -> RaceResult:
    """Each choice half as fast as the device's own best, which takes half of the original's time."""
    trials = [
        FleetTrial(
            entry.id,
            job.device,
            against=compared(0.5 if entry.id == job.best else 0.75),
            than_best=compared(1.0 if entry.id == job.best else 1.5),
            floor=FloorState.KEPT,
        )
        for entry in job.entries
    ]
    return RaceResult(job.device, tuple(trials), ((job.entries[0].id, {"round": 1}),))


def request_for(real: Real, out: Path, **changes: Any) -> FleetRequest:
    model, data = real.subject
    asked = FleetRequest(model, Plan(), Workload(), Data(str(data)), SETTINGS, 5.0, out)
    return replace(asked, **changes)


@pytest.fixture
def results(real: Real, tmp_path: Path) -> dict[str, Any]:
    pairs = zip(NAMES, real.others(), strict=False)
    return {name: TuneResult(name, delivered(real, data, tmp_path / name)) for name, data in pairs}


def test_every_result_is_saved_and_every_choice_raced_elsewhere(
    real: Real, results: dict[str, Any], tmp_path: Path
) -> None:
    cluster: Any = FakeCluster(results)
    told: list[str] = []
    found = run(cluster, request_for(real, tmp_path / "out"), None, None, lambda share, text: told.append(text))
    assert [device.name for device in found.usable] == ["a", "b"]
    assert [choice.devices for choice in found.choices] == [(), ("a",), ("b",)]
    assert cluster.devices_asked(RaceJob) == ["a", "b"]
    by_device = {job.device: job for job in cluster.asked if isinstance(job, RaceJob)}
    assert [entry.id for entry in by_device["a"].entries] == [found.choices[1].id, found.choices[2].id]
    assert by_device["a"].best == found.choices[1].id
    assert by_device["a"].entries[0].known is not None
    assert len(found.trials) == 6
    assert found.weighted is not None
    for name in NAMES:
        place = tmp_path / "out" / "devices" / name
        best = next(device.best for device in found.devices if device.name == name)
        assert best is not None
        assert read_bundle(place).plan == best.plan
    kinds = [line.kind for line in read_session(tmp_path / "out" / SESSION).lines]
    assert kinds.count("fleet-device") == 2
    assert kinds.count("fleet-trial") == 4
    assert kinds.count("fleet-round") == 2
    assert kinds[-1] == "fleet"
    assert (tmp_path / "out" / "single" / PLAN_FILE).exists()
    assert any("waiting for b" in text for text in told)


def test_a_device_that_fails_is_left_out_and_tried_again(real: Real, results: dict[str, Any], tmp_path: Path) -> None:
    trouble = Failure("run", "target", "The device went away.", "Look for it.")
    first: Any = FakeCluster({**results, "b": trouble})
    found = run(first, request_for(real, tmp_path / "out"))
    assert [device.name for device in found.usable] == ["a"]
    assert "fleet.excluded" in {note.code for note in found.notes}
    lost = next(device for device in found.devices if device.name == "b")
    assert lost.why.facts["message"] == trouble.message
    with pytest.raises(UsageError, match="already holds"):
        run(first, request_for(real, tmp_path / "out"))
    again: Any = FakeCluster(results)
    resumed = replace(SETTINGS, resume=True)
    both = run(again, request_for(real, tmp_path / "out", settings=resumed))
    assert again.devices_asked(TuneJob) == ["b"]
    assert [device.name for device in both.usable] == ["a", "b"]
    assert again.asked[-1].order.run == first.asked[-1].order.run
    once_more: Any = FakeCluster(results)
    run(once_more, request_for(real, tmp_path / "out", settings=resumed))
    assert once_more.asked == []


@pytest.mark.parametrize(
    "planted",
    [{"delegate": "/tmp/evil.so"}, {"kernels": ["/tmp/evil.so"]}, {"options": [["npu.library", '"/tmp/evil.so"']]}],
    ids=lambda planted: next(iter(planted)),
)
def test_a_session_of_a_stranger_brings_no_library_to_load(
    real: Real, results: dict[str, Any], tmp_path: Path, planted: dict[str, Any]
) -> None:
    resumed = request_for(real, tmp_path / "out", settings=replace(SETTINGS, resume=True))
    first: Any = FakeCluster(results)
    before = run(first, resumed)
    session = tmp_path / "out" / SESSION
    lines = [json.loads(line) for line in session.read_text().splitlines()]
    for line in lines:
        line.pop("crc32", None)
        if line.get("kind") == "fleet-device" and line["label"] == "a":
            line["data"]["best"]["plan"].update(planted)
    session.write_text("".join(json.dumps(line) + "\n" for line in lines))
    again: Any = FakeCluster(results)
    after = run(again, resumed)
    assert again.devices_asked(TuneJob) == ["a"], "it is tuned again"
    assert [choice.plan for choice in after.choices] == [choice.plan for choice in before.choices]


@pytest.mark.parametrize(("kept", "single"), [("cache/cpu", "cache/cpu"), ("/home/user", "")])
def test_a_finished_device_with_a_cache_stays_finished_and_its_path_stays_there(
    real: Real, results: dict[str, Any], tmp_path: Path, kept: str, single: str
) -> None:
    """As a limit on start-up makes them: the session has the worker's path, the bundle one in its folder."""
    resumed = request_for(real, tmp_path / "out", settings=replace(SETTINGS, resume=True))
    first: Any = FakeCluster(results)
    run(first, resumed)
    session = tmp_path / "out" / SESSION
    lines = [json.loads(line) for line in session.read_text().splitlines()]
    for line in lines:
        line.pop("crc32", None)
        if line.get("kind") == "fleet-device":
            line["data"]["best"]["plan"]["cache"] = "/home/user"
    session.write_text("".join(json.dumps(line) + "\n" for line in lines))
    for path in (tmp_path / "out" / "devices").glob(f"*/{PLAN_FILE}"):
        bundle = json.loads(path.read_text())
        bundle["plan"]["cache"] = kept
        path.write_text(json.dumps(bundle))
    again: Any = FakeCluster(results)
    found = run(again, resumed)
    assert again.devices_asked(TuneJob) == []
    assert [device.name for device in found.usable] == ["a", "b"]
    assert again.devices_asked(RaceJob) == ["a", "b"]
    assert {entry.plan.cache for job in again.asked for entry in job.entries} == {""}
    assert json.loads((tmp_path / "out" / "single" / PLAN_FILE).read_text())["plan"].get("cache", "") == single


def test_a_bundle_of_a_stranger_brings_no_library_into_the_one_for_all(
    real: Real, results: dict[str, Any], tmp_path: Path
) -> None:
    resumed = request_for(real, tmp_path / "out", settings=replace(SETTINGS, resume=True))
    first: Any = FakeCluster(results)
    run(first, resumed)
    for path in (tmp_path / "out" / "devices").glob(f"*/{PLAN_FILE}"):
        kept = json.loads(path.read_text())
        kept["plan"]["kernels"] = ["/tmp/evil.so"]
        path.write_text(json.dumps(kept))
    run(first, resumed)
    assert read_bundle(tmp_path / "out" / "single").plan.kernels == ()


def test_ctrl_c_raises_what_was_found_until_then(real: Real, results: dict[str, Any], tmp_path: Path) -> None:
    cluster: Any = FakeCluster({**results, "b": "ctrl-c"})
    with pytest.raises(Interrupted) as caught:
        run(cluster, request_for(real, tmp_path / "out"))
    found = caught.value.found
    assert found.interrupted
    assert [device.name for device in found.usable] == ["a"]
    assert cluster.stopped
    assert read_session(tmp_path / "out" / SESSION).lines[-1].data["interrupted"]
    nothing: Any = FakeCluster({"a": "ctrl-c"})
    with pytest.raises(KeyboardInterrupt) as bare:
        run(nothing, request_for(real, tmp_path / "other"))
    assert not isinstance(bare.value, Interrupted)


def test_lines_are_saved_as_they_come(real: Real, results: dict[str, Any], tmp_path: Path) -> None:
    cluster: Any = FakeCluster({**results, "a": "ctrl-c"})
    plain = cluster.begin

    def begin(run: str, hear: Callable[[dict[str, Any]], None]) -> None:
        plain(run, hear)
        hear({"device": "a", "at": 0, "lines": "one\n"})
        hear({"device": "a", "at": 4, "lines": "two\n"})
        hear({"device": "a", "at": 99, "lines": "after a gap\n"})
        hear({"device": "../../evil", "at": 0, "lines": "x\n"})

    cluster.begin = begin
    with pytest.raises(KeyboardInterrupt):
        run(cluster, request_for(real, tmp_path / "out"))
    assert (tmp_path / "out" / "devices" / "a" / SESSION).read_text() == "one\ntwo\n"
    assert not list(tmp_path.rglob("evil"))


def test_a_tuning_that_cannot_be_read_is_a_failure_of_its_device(
    real: Real, results: dict[str, Any], tmp_path: Path
) -> None:
    damaged = {**results["b"].files, SESSION: b'{"hasten_session": 1}\n'}
    cluster: Any = FakeCluster({**results, "b": TuneResult("b", damaged)})
    found = run(cluster, request_for(real, tmp_path / "out"))
    assert [device.name for device in found.usable] == ["a"]


def test_what_cannot_be_raced_is_told_and_serves_nobody(real: Real, results: dict[str, Any], tmp_path: Path) -> None:
    def races(job: RaceJob) -> Any:
        return raced(job) if job.device == "a" else Failure("run", "target", "gone")

    cluster: Any = FakeCluster(results, races=races)
    found = run(cluster, request_for(real, tmp_path / "out"))
    assert "fleet.not-raced" in {note.code for note in found.notes}
    assert found.weighted is not None
    assert found.weighted.choice in (found.choices[0].id, found.choices[2].id)


def test_weights_are_checked_before_anything_is_written(real: Real, results: dict[str, Any], tmp_path: Path) -> None:
    cluster: Any = FakeCluster(results)
    with pytest.raises(UsageError, match="mars"):
        run(cluster, request_for(real, tmp_path / "out", weights={"mars": 2.0}))
    assert not (tmp_path / "out").exists()
