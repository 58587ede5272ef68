"""`hasten doctor MODEL` as a user has it: exit codes, JSON, the bundle and what goes to which stream."""

from __future__ import annotations

import zipfile
from typing import TYPE_CHECKING

import pytest
from commandline import hasten
from tests import example_models
from tests.unit.practices.help import planted

if TYPE_CHECKING:
    from pathlib import Path

QUICK = ("--seconds", "0.5")


def test_a_sound_model_is_fine(tmp_path: Path) -> None:
    model = planted.written(tmp_path, planted.clean()["mobilenet"])
    told = hasten("doctor", model, *QUICK, "--json").json()
    assert told.keys() >= {"checks", "bundle"}
    assert told["bundle"] is None
    statuses = {check["name"]: check["status"] for check in told["checks"]}
    assert statuses.pop("Hexagon") == "not applicable"  # it takes 8-bit models only
    assert set(statuses.values()) == {"good"}
    assert {"XNNPACK", "GPU delegate", "NNAPI"} <= statuses.keys()


@pytest.mark.slow
def test_a_broken_model_ends_with_1_and_a_damaged_one_with_3(tmp_path: Path) -> None:
    aborting = planted.written(tmp_path, example_models.aborting())
    shown = hasten("doctor", aborting, *QUICK, "--json")
    assert shown.code == 1
    assert "broken" in {check["status"] for check in shown.json()["checks"]}
    flex = planted.written(tmp_path, example_models.flex_operator(), "flex.tflite")
    assert hasten("doctor", flex, *QUICK).code == 1
    damaged = planted.written(tmp_path, b"TFL3" * 20, "damaged.tflite")
    assert hasten("doctor", damaged, *QUICK).code == 3


@pytest.mark.slow
def test_the_bundle_is_listed_on_the_error_stream(tmp_path: Path) -> None:
    model = planted.written(tmp_path, example_models.mobilenet_like())
    out = tmp_path / "issue.zip"
    shown = hasten("doctor", model, *QUICK, "-o", out, "--private", "--json")
    assert shown.code == 0
    names = [entry["name"] for entry in shown.json()["bundle"]["entries"]]
    with zipfile.ZipFile(out) as archive:
        assert archive.namelist() == names
    assert all(name in shown.errors for name in names)
    again = hasten("doctor", model, *QUICK, "-o", out)
    assert again.code == 2
    assert "already exists" in again.errors


def test_a_bundle_needs_a_model(tmp_path: Path) -> None:
    refused = hasten("doctor", "-o", tmp_path / "x.zip")
    assert refused.code == 2
    assert "--out" in refused.errors


@pytest.mark.slow
def test_minimize_and_private_together(tmp_path: Path) -> None:
    model = planted.written(tmp_path, planted.crashing_chain())
    out = tmp_path / "issue.zip"
    environment = {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    shown = hasten(
        "doctor", model, *QUICK, "--minimize", "crash", "--private", "-o", out, "--json", environment=environment
    )
    assert shown.code == 1
    told = shown.json()
    assert len(told["minimized"]["nodes"]) <= 3
    with zipfile.ZipFile(out) as archive:
        assert "smallest.tflite" in archive.namelist()
