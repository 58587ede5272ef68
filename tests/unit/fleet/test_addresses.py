"""What is refused before anything is connected: addresses, certificates, names of devices, and open doors."""

from __future__ import annotations

import builtins
import json
import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from hasten.core.codec import from_data, to_data
from hasten.core.errors import TargetError, UsageError
from hasten.core.remark import said
from hasten.core.version import VERSION
from hasten.fleet import worker
from hasten.fleet.address import Tls, check_address, require_dask
from hasten.fleet.cluster import Cluster
from hasten.fleet.offers import HOST, FleetOffer
from hasten.fleet.place import Site
from hasten.fleet.worker import WorkerRequest, listening_host, named_devices, resources_of, site_of
from hasten.practices.help.facts import DevicesFound
from hasten.targets.base import LOCAL as HERE
from hasten.targets.base import Limits
from tests.unit.fleet.examples import place

if TYPE_CHECKING:
    from pathlib import Path

LOCAL = "tcp://127.0.0.1:8786"


@pytest.mark.parametrize("address", ["", "lab", "lab:8786", "http://lab:8786", "tcp://lab", "tcp://:8786", "tcp://a:b"])
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(UsageError, match="scheduler"):
        check_address(address, Tls())


def test_certificates_and_address_must_agree(tmp_path: Path) -> None:
    file = tmp_path / "a.pem"
    file.write_text("x")
    whole = Tls(str(file), str(file), str(file))
    assert check_address("tls://lab:8786", whole) == "tls://lab:8786"
    with pytest.raises(UsageError, match="needs certificates"):
        check_address("tls://lab:8786", Tls(ca=str(file)))
    with pytest.raises(UsageError, match="would not be used"):
        check_address("tcp://lab:8786", whole)
    with pytest.raises(UsageError, match="There is no file"):
        Tls(ca=str(tmp_path / "missing.pem"))


class Unreachable:
    """In place of Dask's nanny: it logs, as the real one does at its end, and joins nobody."""

    logs = False

    def __init__(self, *_: Any, **__: Any) -> None:
        Unreachable.logs = logging.getLogger("distributed.nanny").isEnabledFor(logging.WARNING)

    def __await__(self) -> Any:
        raise OSError("no scheduler")


def test_a_worker_lets_no_line_of_dask_through(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    distributed = pytest.importorskip("distributed")
    monkeypatch.setattr(distributed, "Nanny", Unreachable)
    logger = logging.getLogger("distributed")
    before = logger.level
    try:
        with pytest.raises(TargetError, match="cannot join"):
            worker.serve_site(WorkerRequest(LOCAL), Site(tmp_path, {}, {}))
        assert not Unreachable.logs
    finally:
        logger.setLevel(before)


def test_without_dask_one_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any, **named: Any) -> Any:
        if name.partition(".")[0] == "distributed":
            raise ImportError(name)
        return real(name, *rest, **named)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(UsageError, match="Dask") as caught:
        require_dask()
    assert "hasten[cluster]" in caught.value.hint


def test_nothing_listens_beyond_loopback_unless_told() -> None:
    assert listening_host(WorkerRequest(LOCAL)) == "127.0.0.1"
    assert listening_host(WorkerRequest("tcp://localhost:8786")) == "127.0.0.1"
    assert listening_host(WorkerRequest("tcp://10.0.0.1:8786", host="10.0.0.7")) == "10.0.0.7"
    with pytest.raises(UsageError, match="loopback only"):
        listening_host(WorkerRequest("tcp://10.0.0.1:8786"))


def test_devices_have_plain_names() -> None:
    assert named_devices(["local"], "bench 1") == {"bench-1": "local"}
    assert named_devices(["ssh://pi@10.0.0.3", "desk=ssh://pi@desk"], "w") == {
        "ssh-pi-10.0.0.3": "ssh://pi@10.0.0.3",
        "desk": "ssh://pi@desk",
    }
    for wrong in ("../../etc=kitchen", "a b=kitchen", "=kitchen"):
        with pytest.raises(UsageError, match="cannot be the name"):
            named_devices([wrong], "w")
    with pytest.raises(UsageError, match="Two devices"):
        named_devices(["a=ssh://x", "a=ssh://y"], "w")


def test_this_machine_is_offered_alone() -> None:
    with pytest.raises(UsageError, match="no other device"):
        named_devices(["local", "desk=ssh://pi@desk"], "w")


def test_a_device_has_one_unit_and_a_local_one_takes_the_cores(tmp_path: Path) -> None:
    site = Site(tmp_path, {"a": place("a"), "b": place("b")}, {})
    assert resources_of(site) == {"device:a": 1.0, "device:b": 1.0, HOST: 1.0}
    assert FleetOffer(place("a", HERE), "w", LOCAL).resources == {"device:a": 1.0, HOST: 1.0}
    assert FleetOffer(place("a"), "w", LOCAL).resources == {"device:a": 1.0}


def test_a_dead_device_is_told_and_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dead = replace(place("dead"), machine=None, why=said("The device does not answer."))
    known = {"alive": place("alive"), "dead": dead}
    monkeypatch.setattr(worker, "look_at", lambda names: DevicesFound(tuple(known[name] for name in names)))
    told: list[str] = []
    request = WorkerRequest(LOCAL, ("a=alive", "b=dead"), folder=str(tmp_path))
    site = site_of(request, told.append)
    assert site.devices == {"a": replace(place("alive"), name="a")}
    assert site.targets == {"a": "alive"}
    assert told == ["Not offering b: The device does not answer."]
    with pytest.raises(TargetError, match="None of the devices"):
        site_of(replace(request, devices=("b=dead",)), told.append)


def test_a_site_is_the_same_after_its_file(tmp_path: Path) -> None:
    site = Site(tmp_path, {"a": place("a")}, {"a": "ssh://x"}, Limits(9.0, 100))
    assert from_data(Site, json.loads(json.dumps(to_data(site)))) == site


class Asked:
    """A client whose scheduler has this release of hasten, and whose only worker this one; a job is on `busy`."""

    def __init__(self, scheduler: Any = VERSION, worker: str = VERSION) -> None:
        self._scheduler, self._worker = scheduler, worker

    def run_on_scheduler(self, function: Any) -> Any:
        if isinstance(self._scheduler, Exception):
            raise self._scheduler
        return self._scheduler

    def scheduler_info(self, n_workers: int) -> Any:
        return {"workers": {"tcp://w": {"name": "rack", "resources": {"device:busy": 1.0, "device:free": 1.0}}}}

    def run(self, function: Any, workers: Any, on_error: str) -> Any:
        devices = [to_data(place(name)) for name in ("free", "busy", "../evil")]
        return {"tcp://w": {"hasten": self._worker, "host": "h", "devices": devices}}

    def processing(self) -> Any:
        return {"tcp://w": ["hasten/busy/1", ("other", 2)]}


def cluster_of(client: Asked) -> Cluster:
    cluster = Cluster(LOCAL)
    cluster._client = client
    return cluster


def test_devices_of_a_cluster_are_shown_like_others() -> None:
    found = cluster_of(Asked()).devices().devices
    assert [(device.name, device.in_use) for device in found] == [("busy", True), ("free", False)]
    assert found[1] == place("free")
    assert [device.name for device in cluster_of(Asked()).devices(["free"]).devices] == ["free"]
    with pytest.raises(UsageError) as caught:
        cluster_of(Asked()).devices(["mars"])
    assert "busy, free" in caught.value.hint
    strange = cluster_of(Asked(worker="0.0.9")).devices().devices
    assert all(device.machine is None and "0.0.9" in device.why.facts["text"] for device in strange)


def test_a_scheduler_without_this_release_is_refused() -> None:
    cluster_of(Asked())._check_scheduler()
    for theirs in ("0.0.9", ModuleNotFoundError("No module named 'hasten'")):
        with pytest.raises(TargetError, match="scheduler"):
            cluster_of(Asked(scheduler=theirs))._check_scheduler()
