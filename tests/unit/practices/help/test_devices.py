"""Devices as they are asked for."""

from __future__ import annotations

from hasten import api


def test_a_device_that_is_named_twice_is_listed_once() -> None:
    assert [device.name for device in api.devices(["local", "local"]).devices] == ["local"]
