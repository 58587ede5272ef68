"""A fleet as a user runs it: real workers on loopback, a worker and a client that are killed, a wrong certificate."""

from __future__ import annotations

import json
import os
import shutil
import signal
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from commandline import Finished, finish, hasten, interrupt, start
from fleet_processes import make_certificates, processes, until
from tests.contract.loopback_sshd import listening_addresses
from tests.example_models import mobilenet_like

from hasten.bundle.folder import read_bundle
from hasten.cli import main
from hasten.core.session import read_session

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from fleet_processes import Processes

    Called = Callable[..., tuple[int, str, str]]

# What Dask warns of is not ours to mend.
pytestmark = [
    pytest.mark.skipif(find_spec("distributed") is None, reason="Dask distributed is not installed"),
    pytest.mark.filterwarnings("default"),
    pytest.mark.timeout(600),
]

FAST = ("--recipe", "float16", "--no-mix", "--only-race", "--max-drop", "50%", "--budget", "6s")
KEYS = {"model", "cluster", "verdict", "devices", "choices", "trials", "single", "weights", "seconds", "interrupted"}
_LOOPBACK = {"0100007F", "00000000000000000000000001000000"}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tiny")
    (folder / "tiny.tflite").write_bytes(mobilenet_like(8, 1, 16))
    colors = np.random.default_rng(0).normal(0, 4, (48, 1, 1, 3))  # noise alone would always get the same answer
    np.savez(folder / "inputs.npz", x=(colors * np.ones((1, 16, 16, 1))).astype(np.float32))
    return folder


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Processes]:
    with processes(tmp_path_factory.mktemp("cluster")) as found:
        found.add_worker("left")
        found.add_worker("right")
        found.wait_for_devices(2)
        yield found


@pytest.fixture
def called(capsys: pytest.CaptureFixture[str]) -> Called:
    """A command in this process: its exit code, output and errors."""

    def call(*words: str | Path) -> tuple[int, str, str]:
        code = main.main([str(word) for word in words])
        shown = capsys.readouterr()
        return code, shown.out, shown.err

    return call


def command(place: Path, cluster: Processes, out: Path, *more: str | Path) -> tuple[str | Path, ...]:
    return (
        *("tune", place / "tiny.tflite", "--data", place / "inputs.npz", "-o", out),
        *(*cluster.options, *FAST, *more),
    )


@pytest.fixture(scope="module")
def tuned(place: Path, cluster: Processes, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Finished]:
    out = tmp_path_factory.mktemp("fleet") / "out"
    return out, hasten(*command(place, cluster, out, "--json"))


@pytest.mark.slow
def test_the_fleet_gives_the_contract(tuned: tuple[Path, Finished]) -> None:
    out, done = tuned
    assert done.code == 0, done.errors
    found = done.json()
    assert found.keys() >= KEYS
    assert [device["name"] for device in found["devices"]] == ["left", "right"]
    assert all(device["best"]["speedup"] > 0 for device in found["devices"])
    assert found["single"]["weighted"]["choice"] in {choice["id"] for choice in found["choices"]}
    assert sum(found["weights"].values()) == pytest.approx(1)
    assert "report.html" in {path.name for path in out.iterdir()}


@pytest.mark.slow
def test_each_device_has_a_bundle_and_a_session_of_its_own(tuned: tuple[Path, Finished]) -> None:
    out, done = tuned
    for device in done.json()["devices"]:
        folder = out / "devices" / device["name"]
        assert read_bundle(folder).plan.threads == device["best"]["plan"]["threads"]
        lines = read_session(folder / "session.jsonl").lines
        settings = next(line.data for line in lines if line.kind == "settings")
        assert settings["target"] == device["name"]
        assert (folder / "report.html").is_file()
        assert hasten("bench", folder, "--seconds", "0.3").code == 0
    kinds = {line.kind for line in read_session(out / "session.jsonl").lines}
    assert kinds >= {"settings", "fleet-run", "fleet-device", "fleet"}
    assert not kinds & {"trial", "measurement"}, "numbers of two devices in one table"


@pytest.mark.slow
def test_every_choice_was_tried_on_every_device(tuned: tuple[Path, Finished]) -> None:
    found = tuned[1].json()
    tried = {(trial["choice"], trial["device"]) for trial in found["trials"]}
    assert tried == {(choice["id"], device["name"]) for choice in found["choices"] for device in found["devices"]}


@pytest.mark.slow
def test_a_finished_fleet_is_not_measured_again(place: Path, cluster: Processes, tuned: tuple[Path, Finished]) -> None:
    out, _ = tuned
    before = {name: (out / "devices" / name / "session.jsonl").read_bytes() for name in ("left", "right")}
    assert hasten(*command(place, cluster, out)).code == 2
    again = hasten(*command(place, cluster, out, "--resume", "--json"))
    assert again.code == 0, again.errors
    assert {name: (out / "devices" / name / "session.jsonl").read_bytes() for name in before} == before
    report = hasten("report", out / "session.jsonl", "-o", out / "again.html")
    assert report.code == 0
    assert "left" in (out / "again.html").read_text()


def test_the_devices_of_the_cluster_are_listed(cluster: Processes, called: Called) -> None:
    found = json.loads(called("devices", *cluster.options, "--json")[1])["devices"]
    assert [device["name"] for device in found] == ["left", "right"]
    assert all(device["usable"] and device["machine"]["cores"] for device in found)


def test_nothing_listens_beyond_loopback(cluster: Processes) -> None:
    found = listening_addresses(cluster.family())
    assert found
    assert found <= _LOOPBACK


def test_an_unknown_device_is_refused_at_once(place: Path, cluster: Processes, tmp_path: Path, called: Called) -> None:
    for wrong in (("--device", "mars"), ("--weight", "mars=2")):
        code, _, errors = called(*command(place, cluster, tmp_path / "out", *wrong))
        assert code == 2
        assert "left, right" in errors
        assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_without_a_scheduler_there_is_one_sentence() -> None:
    done = hasten("devices", "--cluster", "tcp://127.0.0.1:9")
    assert done.code == 4
    assert "No scheduler answers" in done.errors


@pytest.mark.parametrize(
    "options",
    [
        ("--device", "left"),
        ("--weight", "left=2"),
        ("--cluster", "tcp://127.0.0.1:9", "--weight", "left"),
        ("--cluster", "tcp://127.0.0.1:9", "--weight", "left=-1"),
        ("--cluster", "tcp://127.0.0.1:9", "--target", "ssh://kitchen-pi"),
        ("--cluster", "tls://127.0.0.1:9"),
        ("--cluster", "tcp://127.0.0.1:9", "--for", "size"),
        ("--cluster", "tcp://127.0.0.1:9", "--tls-ca", "missing.pem"),
    ],
    ids=" ".join,
)
def test_wrong_usage_needs_no_cluster(place: Path, tmp_path: Path, options: tuple[str, ...], called: Called) -> None:
    assert called("tune", place / "tiny.tflite", "-o", tmp_path / "out", *options)[0] == 2
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "options", [("lab",), ("tcp://10.0.0.1:8786",), ("tcp://127.0.0.1:9", "--device", "a b=local")]
)
def test_a_worker_is_told_what_is_wrong_before_it_connects(options: tuple[str, ...], called: Called) -> None:
    assert called("worker", *options)[0] == 2


def _sent(out: Path, device: str, count: int) -> bool:
    path = out / "devices" / device / "session.jsonl"
    return path.is_file() and path.read_bytes().count(b'"kind":"trial"') >= count


@pytest.mark.slow
def test_a_killed_worker_loses_nothing(place: Path, cluster: Processes, tmp_path: Path) -> None:
    """The nanny starts another one, which goes on from the session on its disk."""
    out = tmp_path / "out"
    victim = cluster.process_of("left")
    run = start(*command(place, cluster, out, "--json"))
    until(lambda: _sent(out, "left", 3), "the third trial")
    before = (out / "devices" / "left" / "session.jsonl").read_bytes()
    os.kill(victim, signal.SIGKILL)
    output, errors = finish(run, 200)
    assert run.returncode == 0, errors
    found: dict[str, Any] = json.loads(output)
    assert [device["status"] for device in found["devices"]] == ["ok", "ok"]
    assert (out / "devices" / "left" / "session.jsonl").read_bytes().startswith(before)
    until(lambda: not cluster.runners(), "the end of all runners")


@pytest.mark.slow
def test_ctrl_c_keeps_the_best_so_far_and_goes_on(place: Path, cluster: Processes, tmp_path: Path) -> None:
    out = tmp_path / "out"
    run = start(*command(place, cluster, out, "--budget", "60s"))
    until(lambda: _sent(out, "left", 3) and _sent(out, "right", 3), "the third trial of both")
    interrupt(run)
    _, errors = finish(run, 100)
    assert run.returncode == 130, errors
    for name in ("left", "right"):
        assert read_bundle(out / "devices" / name).measured["variant"]
    until(lambda: not cluster.runners(), "the end of all runners")
    done = hasten(*command(place, cluster, out, "--resume", "--json"))
    assert done.code == 0, done.errors
    assert not any(device["interrupted"] for device in done.json()["devices"])


@pytest.mark.slow
def test_a_client_that_is_gone_leaves_nothing_running(place: Path, cluster: Processes, tmp_path: Path) -> None:
    run = start(*command(place, cluster, tmp_path / "out", "--budget", "120s"))
    until(lambda: _sent(tmp_path / "out", "left", 2), "the second trial")
    os.killpg(run.pid, signal.SIGKILL)
    run.wait()
    until(lambda: not cluster.runners(), "the end of all runners")
    assert hasten("devices", *cluster.options).code == 0


@pytest.mark.slow
def test_quantize_borrows_the_workers(place: Path, cluster: Processes, tmp_path: Path) -> None:
    """The same accuracy of the same variants as without them."""
    options = ("--data", place / "inputs.npz", "--recipe", "float16", "--max-drop", "50%", "--seconds", "2", "--json")
    alone = hasten("quantize", place / "tiny.tflite", *options, "-o", tmp_path / "alone")
    spread = hasten("quantize", place / "tiny.tflite", *options, "-o", tmp_path / "spread", *cluster.options)
    assert alone.code == 0, alone.errors
    assert spread.code == 0, spread.errors
    assert any("left and right" in note for note in spread.json()["notes"])
    for one, other in zip(alone.json()["variants"], spread.json()["variants"], strict=True):
        assert one["recipe"] == other["recipe"]
        assert one["accuracy"]["value"] == other["accuracy"]["value"]


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl, which makes certificates, is not installed")
def test_a_wrong_certificate_opens_nothing(place: Path, tmp_path: Path) -> None:
    ours, theirs = (make_certificates(tmp_path, name) for name in ("ours", "theirs"))
    with processes(tmp_path, ours) as cluster:
        assert cluster.address.startswith("tls://")
        cluster.add_worker("left")
        cluster.wait_for_devices(1)
        right = hasten("devices", *cluster.options, "--json")
        assert right.code == 0, right.errors
        wrong = (
            ("--tls-ca", theirs.ca, "--tls-cert", theirs.certificate, "--tls-key", theirs.key),
            ("--tls-ca", ours.ca, "--tls-cert", theirs.certificate, "--tls-key", theirs.key),
        )
        for options in wrong:
            done = hasten("devices", "--cluster", cluster.address, *options)
            assert done.code == 4, done.errors
        stranger = start("worker", cluster.address, "--name", "mars", "--folder", tmp_path / "mars", *wrong[0])
        finish(stranger, 100)
        assert stranger.returncode == 4
        plain = hasten("devices", "--cluster", cluster.address.replace("tls:", "tcp:"))
        assert plain.code == 4
        session = "".join(path.read_text(errors="replace") for path in Path(tmp_path).glob("*.log"))
        assert Path(ours.key).read_text().splitlines()[1] not in session
