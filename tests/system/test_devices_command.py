"""`hasten devices` and `--target` with devices behind ssh, as a user calls them."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import pytest
from commandline import QUICK, hasten
from tests.contract.loopback_sshd import HOST, LoopbackSshd, running_sshd, silent_port

from hasten.cli import main
from hasten.targets.ssh import SshTarget

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    Called = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoopbackSshd]:
    with running_sshd(tmp_path_factory.mktemp("sshd")) as server:
        yield server


@pytest.fixture(scope="module")
def silent() -> Iterator[int]:
    with silent_port() as port:
        yield port


@pytest.fixture
def environment(sshd: LoopbackSshd, silent: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """A user whose file of targets has two devices that are there and one that is not."""
    sections = [
        {
            "address": f"ssh://{HOST}",
            "python": sys.executable,
            "folder": str(tmp_path / name),
            "config": str(sshd.config),
        }
        for name in ("kitchen", "shed")
    ]
    sections.append({"address": f"ssh://pi@127.0.0.1:{silent}"})
    lines = []
    for name, section in zip(("kitchen", "shed", "attic"), sections, strict=True):
        lines += [f"[{name}]", *(f"{key} = {json.dumps(value)}" for key, value in section.items()), ""]
    path = tmp_path / "config" / "hasten" / "targets.toml"
    path.parent.mkdir(parents=True)
    path.write_text("\n".join(lines))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return {"XDG_CONFIG_HOME": str(tmp_path / "config")}


@pytest.fixture
def called(environment: dict[str, str], capsys: pytest.CaptureFixture[str]) -> Called:
    """A command in this process: its exit code, output and errors."""

    def call(*words: str) -> tuple[int, str, str]:
        code = main.main(list(words))
        shown = capsys.readouterr()
        return code, shown.out, shown.err

    return call


def test_every_device_is_listed_with_its_state(called: Called) -> None:
    code, output, _ = called("devices", "--json")
    devices: dict[str, dict[str, Any]] = {device["name"]: device for device in json.loads(output)["devices"]}
    assert code == 0
    assert {name: device["status"] for name, device in devices.items()} == {
        "local": "ok",
        "kitchen": "ok",
        "shed": "ok",
        "attic": "missing",
    }
    assert {name: device["kind"] for name, device in devices.items()}["shed"] == "ssh"
    assert devices["kitchen"]["machine"]["cpu"] == devices["local"]["machine"]["cpu"]
    assert devices["kitchen"]["capabilities"]["shared_memory"] is False
    assert devices["attic"]["why"] == "attic does not answer."
    assert devices["attic"]["what_to_do"]


def test_one_that_was_asked_for_and_is_away_is_trouble(called: Called) -> None:
    code, output, _ = called("devices", "attic", "shed")
    assert code == 4
    assert max(map(len, output.splitlines())) <= 80


def test_a_device_in_use_is_said_to_be(called: Called, sshd: LoopbackSshd, tmp_path: Path) -> None:
    target = SshTarget("kitchen", sshd.device(tmp_path / "kitchen", sys.executable))
    target.transport.facts()
    try:
        assert json.loads(called("devices", "kitchen", "--json")[1])["devices"][0]["status"] == "in use"
        code, _, errors = called("bench", "demo", *QUICK, "--target", "kitchen")
        assert code == 4
        assert "Another session uses kitchen" in errors
    finally:
        target.close()


def test_a_model_is_measured_there(environment: dict[str, str], called: Called, tmp_path: Path) -> None:
    words = ("bench", "demo", *QUICK, "--session", str(tmp_path / "s.jsonl"))
    found = hasten(*words, "--target", "kitchen", "--json", environment=environment)
    assert found.code == 0, found.errors
    assert found.json()["latency"]["median_ms"] > 0
    assert found.json()["target"] == "kitchen"
    text = hasten("bench", "demo", *QUICK, "--target", "kitchen", environment=environment).output
    assert text.endswith("\nMeasured on kitchen.\n")
    assert list((tmp_path / "kitchen" / "files").glob("*/*.tflite"))
    code, _, errors = called(*words)
    assert code == 2
    assert "on kitchen, not on local" in errors
    code, output, _ = called("devices", "kitchen", "--clean", "--json")
    assert code == 0
    assert json.loads(output)["devices"][0]["freed_mb"] > 0
    assert not (tmp_path / "kitchen" / "files").exists()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("bench", "demo", "--target", "kitchn"), "Did you mean kitchen?"),
        (("bench", "demo", "--target", "ssh://pi:secret@host"), "password"),
        (("bench", "demo", "--target", "ssh://"), "no host"),
        (("devices", "--setup"), "one device"),
    ],
)
def test_wrong_names_end_in_a_sentence(called: Called, words: tuple[str, ...], told: str) -> None:
    code, _, errors = called(*words)
    assert code == 2
    assert told in errors
    assert "secret" not in errors
