"""Paths, users and hosts never get into a bundle, whatever text they stand in."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hasten.practices.help.issue.scrub import Scrubber, identity_scrubber, with_names

USER, HOST, HOME = "mallory", "crypt-17", "/srv/people/mallory"


@pytest.fixture(autouse=True)
def _someone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", HOME)
    monkeypatch.setenv("USER", USER)
    monkeypatch.setenv("LOGNAME", USER)
    monkeypatch.setattr("platform.node", lambda: f"{HOST}.example.org")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"{HOME}/models/a.tflite", "models/a.tflite"),
        (f"in {HOME}, on {HOST}", "in ~, on HOST"),
        (f"{USER}@{HOST}.example.org", "USER@HOST"),
        ("MALLORY wrote it", "USER wrote it"),
        ("open /opt/tools/lib/libx.so failed", "open …/libx.so failed"),
        ("ERROR: [litert/runtime/x.cc:12] no", "ERROR: [litert/runtime/x.cc:12] no"),
        ("see https://example.org/a/b/c", "see https://example.org/a/b/c"),
        ("mallorys are others", "mallorys are others"),
    ],
)
def test_texts(text: str, expected: str) -> None:
    assert identity_scrubber().text(text) == expected


@given(before=st.text(max_size=20), after=st.text(max_size=20))
def test_no_text_keeps_a_home_path(before: str, after: str) -> None:
    scrubber = Scrubber(((f"{HOME}/", ""), (HOME, "~")))
    assert f"{HOME}/" not in scrubber.text(f"{before}{HOME}/x{after}")


def test_data_keeps_its_codes_and_keys() -> None:
    scrubber = with_names(identity_scrubber(), {"secret/conv": "tensor_1"}, {"AcmeOp": "custom_0"})
    data = {"code": "model.runs", "op": "AcmeOp", "mallory": ["secret/conv:0", {"message": "AcmeOp in secret/conv"}]}
    assert scrubber.data(data) == {
        "code": "model.runs",
        "op": "custom_0",
        "mallory": ["tensor_1:0", {"message": "custom_0 in tensor_1"}],
    }


def test_a_user_that_half_of_all_machines_have_is_a_word(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("USER", "LOGNAME"):
        monkeypatch.setenv(name, "root")
    monkeypatch.setenv("HOME", "/var/people")
    monkeypatch.setattr("getpass.getuser", lambda: "root")
    assert identity_scrubber().text("the root of /var/people/x") == "the root of x"


def test_folders_given_are_left_out() -> None:
    assert identity_scrubber(Path("/data/acme")).text("/data/acme/m.tflite") == "m.tflite"


def test_a_device_is_left_out() -> None:
    scrubber = identity_scrubber(device="ssh://eve@attic.lan:2222")
    assert scrubber.text("eve at attic.lan does not answer by ssh") == "HOST at HOST does not answer by ssh"
