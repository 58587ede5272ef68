"""Targets by name: this machine, an address, or a section of the user's file; what is wrong with one is said."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hasten.core.errors import DataError, UsageError
from hasten.targets.local import LocalTarget
from hasten.targets.ssh import PATIENCE_S, SshDevice, SshTarget, device_from_url
from hasten.targets.target_file import device_named, known_devices, target_named, targets_file

if TYPE_CHECKING:
    from pathlib import Path

NAMES = st.text(st.characters(categories=("L", "N")), min_size=1, max_size=12)
FILE = """
[kitchen-pi]
address = "ssh://pi@192.168.1.20:2222"
python = "~/venv/bin/python"
folder = "/data/hasten"
config = "~/lab/ssh_config"
patience = 5

[shed]
address = "ssh://shed.local"
"""


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    targets_file().parent.mkdir()
    return targets_file()


@pytest.mark.parametrize(
    ("url", "device"),
    [
        ("ssh://host", SshDevice("host")),
        ("ssh://pi@host", SshDevice("host", "pi")),
        ("ssh://pi@host:2222/", SshDevice("host", "pi", 2222)),
        ("ssh://me@work@host", SshDevice("host", "me@work")),
        ("ssh://[fe80::1%eth0]:22", SshDevice("fe80::1%eth0", port=22)),
        ("ssh://[::1]", SshDevice("::1")),
        ("ssh://MyAlias", SshDevice("MyAlias")),
    ],
)
def test_addresses(url: str, device: SshDevice) -> None:
    assert device_from_url(url) == device


@given(NAMES, NAMES, st.integers(1, 65535))
def test_every_part_of_an_address_comes_through(user: str, host: str, port: int) -> None:
    assert device_from_url(f"ssh://{user}@{host}:{port}") == SshDevice(host, user, port)


@given(st.text())
def test_any_address_is_a_device_or_a_sentence(text: str) -> None:
    try:
        device = device_from_url(f"ssh://{text}")
    except UsageError:
        return
    assert device.words()[-2:] == ("--", device.host)
    assert device.host
    assert not device.host.startswith("-")


@pytest.mark.parametrize(
    "url",
    [
        "ssh://",
        "ssh://pi@",
        "ssh://-oProxyCommand=touch%20harm",
        "ssh://-l@host",
        "ssh://host:port",
        "ssh://fe80::1",
        "ssh://host:70000",
        "ssh://pi:secret@host",
        "ssh://host/path",
        "ssh://a b",
        "ssh://a\nb",
    ],
)
def test_wrong_addresses_are_refused(url: str) -> None:
    with pytest.raises(UsageError) as caught:
        device_from_url(url)
    assert "secret" not in caught.value.message


def test_this_machine_and_addresses_need_no_file(write: Path) -> None:
    assert not write.exists()
    assert isinstance(target_named("local"), LocalTarget)
    target = target_named("ssh://pi@host")
    assert isinstance(target, SshTarget)
    assert (target.name, target.transport.device) == ("ssh://pi@host", SshDevice("host", "pi"))
    assert [device.name for device in known_devices()] == ["local"]


def test_the_file_names_devices(write: Path) -> None:
    write.write_text(FILE)
    kitchen, shed = device_named("kitchen-pi").ssh, device_named("shed").ssh
    assert kitchen == SshDevice(
        "192.168.1.20", "pi", 2222, "~/venv/bin/python", "/data/hasten", "~/lab/ssh_config", 5.0
    )
    assert shed == SshDevice("shed.local", patience_s=PATIENCE_S)
    assert [(device.name, device.kind) for device in known_devices()] == [
        ("local", "local"),
        ("kitchen-pi", "ssh"),
        ("shed", "ssh"),
    ]


def test_a_name_that_nobody_has(write: Path) -> None:
    write.write_text(FILE)
    with pytest.raises(UsageError) as caught:
        target_named("kitchen-pie")
    assert caught.value.hint == "Did you mean kitchen-pi?"
    with pytest.raises(UsageError) as caught:
        target_named("moon")
    assert str(write) in caught.value.hint


@pytest.mark.parametrize(
    "text",
    [
        "[pi",
        "pi = 1",
        "[pi]",
        "[pi]\naddress = 1",
        '[pi]\naddress = "http://host"',
        '[pi]\naddress = "ssh://host"\npyhton = "x"',
        '[pi]\naddress = "ssh://host"\npython = 3',
        '[pi]\naddress = "ssh://host"\npatience = 0',
        '[pi]\naddress = "ssh://host"\npatience = "long"',
        '[local]\naddress = "ssh://host"',
        '["ssh://host"]\naddress = "ssh://host"',
    ],
)
def test_what_is_wrong_with_the_file_is_said(write: Path, text: str) -> None:
    write.write_text(text)
    with pytest.raises(UsageError) as caught:
        known_devices()
    assert "targets.toml" in caught.value.message or "targets.toml" in caught.value.hint


def test_a_file_that_cannot_be_read(write: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write.write_text(FILE)

    def refuse(*_: object, **__: object) -> str:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("pathlib.Path.read_text", refuse)
    with pytest.raises(DataError, match="Permission denied"):
        known_devices()
