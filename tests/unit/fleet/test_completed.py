"""Jobs under way, with a client whose workers die, vanish and lack files when a test says so."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import pytest

from hasten.core.failure import Failure
from hasten.fleet import cluster as clusters
from hasten.fleet.cluster import Cluster
from hasten.fleet.offers import FleetOffer
from hasten.fleet.place import Missing
from tests.unit.fleet.examples import place

if TYPE_CHECKING:
    from collections.abc import Callable

# What Dask warns of is not ours to mend.
pytestmark = [
    pytest.mark.skipif(find_spec("distributed") is None, reason="Dask distributed is not installed"),
    pytest.mark.filterwarnings("default"),
]

OFFERS = {name: FleetOffer(place(name), "w", f"tcp://{name}") for name in ("a", "b")}


@dataclass(frozen=True, slots=True)
class Work:
    device: str
    number: int = 0
    run_name: str = "run"
    digests: tuple[str, ...] = ()
    manifests: tuple[str, ...] = ()

    def perform(self, place: object) -> object:
        raise AssertionError("nothing runs here")


class FakeFuture:
    """A task that has ended with a value or an error, or that never does."""

    def __init__(self, key: str, outcome: Any) -> None:
        self.key, self._outcome = key, outcome
        self.status = "cancelled" if outcome == "cancelled" else "finished"

    def add_done_callback(self, call: Callable[[Any], None]) -> None:
        if self._outcome != "never":
            call(self)

    def done(self) -> bool:
        return bool(self._outcome != "never")

    def result(self) -> Any:
        if isinstance(self._outcome, Exception):
            raise self._outcome
        return self._outcome


@dataclass
class FakeClient:
    """Answers with the outcomes that a test gives for each device, one after the other."""

    outcomes: dict[str, list[Any]]
    resources: dict[str, dict[str, float]] = field(default_factory=lambda: {"tcp://w": {"device:a": 1, "device:b": 1}})
    status: str = "running"
    sent: list[Any] = field(default_factory=list)
    cancelled: list[FakeFuture] = field(default_factory=list)

    def submit(self, function: Any, job: Any, **options: Any) -> FakeFuture:
        if isinstance(job, Work):
            assert options["resources"] == OFFERS[job.device].resources
            return FakeFuture(options["key"], self.outcomes[job.device].pop(0))
        self.sent.append(job)
        return FakeFuture(uuid.uuid4().hex, None)

    def scheduler_info(self, n_workers: int) -> dict[str, Any]:
        assert n_workers == -1, "Dask would tell of five workers only"
        return {"workers": {address: {"resources": offered} for address, offered in self.resources.items()}}

    def run(self, function: Any, *arguments: Any, workers: list[str], on_error: str) -> dict[str, Any]:
        return {address: list(arguments[0]) for address in workers}

    def scatter(self, message: Any, hash: bool) -> Any:  # noqa: A002 - Dask's own name for it
        return message

    def cancel(self, futures: list[FakeFuture], force: bool) -> None:
        self.cancelled += futures


def cluster_with(client: FakeClient, **options: Any) -> Cluster:
    found = Cluster("tcp://127.0.0.1:8786", **options)
    found._client = client
    return found


def killed() -> Exception:
    from distributed.scheduler import KilledWorker

    error = KilledWorker.__new__(KilledWorker)
    assert isinstance(error, Exception)
    return error


def test_results_come_as_they_are_done() -> None:
    client = FakeClient({"a": [1, 3], "b": [2]})
    found = dict(cluster_with(client).completed([Work("a"), Work("b"), Work("a", 1)], OFFERS))
    assert found == {Work("a"): 1, Work("b"): 2, Work("a", 1): 3}
    assert client.cancelled == []


def test_a_device_has_one_job_at_a_time() -> None:
    """Where it is lost, all that waited for it have failed; the second was never sent."""
    client = FakeClient({"a": ["never", 2], "b": [1]}, resources={"tcp://w": {"device:b": 1}})
    work = [Work("a"), Work("a", 1), Work("b")]
    found = dict(cluster_with(client, lost_seconds=0.0).completed(work, OFFERS))
    assert found[Work("b")] == 1
    assert all(isinstance(found[job], Failure) for job in work[:2])
    assert client.outcomes["a"] == [2]


def test_a_job_whose_worker_died_runs_again_and_not_for_ever() -> None:
    client = FakeClient({"a": [killed(), "cancelled", "done"], "b": [killed(), killed(), killed()]})
    found = dict(cluster_with(client).completed([Work("a"), Work("b")], OFFERS))
    assert found[Work("a")] == "done"
    assert isinstance(found[Work("b")], Failure)
    assert found[Work("b")].kind == "target"


def test_a_bug_is_told_at_once() -> None:
    client = FakeClient({"a": [ValueError("boom")]})
    ((_, found),) = cluster_with(client).completed([Work("a")], OFFERS)
    assert isinstance(found, Failure)
    assert (found.kind, found.message) == ("bug", "ValueError: boom")


def test_what_a_job_lacks_is_sent_once_to_its_worker() -> None:
    client = FakeClient({"a": [Missing(("x",), "tcp://w"), "done"]})
    cluster = cluster_with(client)
    cluster.know({"x": b"content"})
    assert dict(cluster.completed([Work("a")], OFFERS)) == {Work("a"): "done"}
    ((message,),) = [client.sent]
    assert [piece.content for piece in message.pieces] == [b"content"]


def test_a_worker_that_keeps_nothing_is_given_up() -> None:
    client = FakeClient({"a": [Missing(("x",), "tcp://w")] * 9})
    cluster = cluster_with(client)
    cluster.know({"x": b"content"})
    ((_, found),) = cluster.completed([Work("a")], OFFERS)
    assert isinstance(found, Failure)
    assert len(client.outcomes["a"]) == 3


def test_a_device_that_nobody_offers_any_more_fails_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clusters, "_LOOK_SECONDS", 0.01)
    client = FakeClient({"a": ["never"], "b": ["done"]}, {"tcp://w": {"device:b": 1}})
    found = dict(cluster_with(client, lost_seconds=0.0).completed([Work("a"), Work("b")], OFFERS))
    assert found[Work("b")] == "done"
    assert isinstance(found[Work("a")], Failure)
    assert len(client.cancelled) == 1


def test_a_lost_scheduler_ends_the_run() -> None:
    client = FakeClient({"a": ["cancelled"]}, status="closed")
    ((_, found),) = cluster_with(client).completed([Work("a")], OFFERS)
    assert isinstance(found, Failure)
    assert "connection" in found.message


def test_a_caller_that_turns_away_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clusters, "_LOOK_SECONDS", 0.01)
    client = FakeClient({"a": ["done"], "b": ["never"]})
    results = cluster_with(client).completed([Work("a"), Work("b")], OFFERS)
    assert next(results) == (Work("a"), "done")
    results.close()  # type: ignore[attr-defined]
    assert len(client.cancelled) == 1


def test_ctrl_c_lets_the_jobs_conclude(monkeypatch: pytest.MonkeyPatch) -> None:
    """What they deliver comes first, the interruption after it."""
    monkeypatch.setattr(clusters, "_LOOK_SECONDS", 0.01)
    client = FakeClient({"a": ["never"]})
    cluster, stopped = cluster_with(client), []
    flights: list[Any] = []
    real = clusters._Flight.submit

    def submit(flight: Any, *arguments: Any) -> None:
        flights.append(flight)
        real(flight, *arguments)

    def wake() -> None:
        raise KeyboardInterrupt

    def stop() -> None:
        stopped.append(True)
        (attempt,) = flights[0].waiting.values()
        attempt.future._outcome = "best so far"
        flights[0]._done.put(attempt.future)

    monkeypatch.setattr(clusters._Flight, "submit", submit)
    results = cluster.completed([Work("a")], OFFERS, wake, stop)
    assert next(results) == (Work("a"), "best so far")
    with pytest.raises(KeyboardInterrupt):
        next(results)
    assert stopped == [True]
