"""A bundle on the command line: run it, time it, compare it; and what is said of one that was damaged."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pytest
from commandline import QUICK, finish, hasten, interrupt, model_file, start, wait_for_runners

import hasten as library
from hasten.bundle.folder import write_bundle
from hasten.bundle.record import Bundle
from hasten.core.plan import Plan
from hasten.demo import DATA, MODEL

if TYPE_CHECKING:
    from pathlib import Path

_LABELS = tuple(f"the digit {number}" for number in range(10))


@pytest.fixture
def bundle(tmp_path: Path) -> Bundle:
    return write_bundle(
        MODEL, Bundle(tmp_path / "tuned", plan=Plan(threads=2), labels=_LABELS, preprocess="mean=0,std=1")
    )


@pytest.fixture
def digit(tmp_path: Path) -> tuple[Path, int]:
    """One of the embedded images as a file, and what it shows."""
    with np.load(DATA) as arrays:
        image, label = arrays["x"][3], int(arrays["y"][3])
    np.save(tmp_path / "digit.npy", image)
    return tmp_path / "digit.npy", label


def test_run_says_what_the_image_shows(bundle: Bundle, digit: tuple[Path, int], tmp_path: Path) -> None:
    path, label = digit
    done = hasten("run", bundle.folder, "--input", path, "--output", tmp_path / "y.npz", "--json")
    assert done.code == 0, done.errors
    found = done.json()
    assert found["plan"]["threads"] == 2
    assert found["top"][0]["label"] == f"the digit {label}"
    assert found["top"][0]["index"] == label
    assert found["preprocess"].startswith("size=96x96,mean=0,std=1")
    with np.load(tmp_path / "y.npz") as saved, library.Runner(bundle.folder) as runner:
        (name,) = saved.files
        expected = runner(np.load(path).astype(np.float32).reshape(1, 96, 96, 1))
        np.testing.assert_allclose(saved[name], expected, rtol=1e-5, atol=1e-7)


def test_run_takes_pictures_and_named_arrays(bundle: Bundle, digit: tuple[Path, int], tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image", reason="Pillow is an extra")
    path, label = digit
    image.fromarray(np.load(path)[..., 0]).resize((200, 150)).save(tmp_path / "digit.png")
    np.savez(tmp_path / "digit.npz", x=np.load(path))
    np.savez(tmp_path / "alone.npz", whatever=np.load(path))
    for name in ("digit.png", "digit.npz", "alone.npz"):
        done = hasten("run", bundle.folder, "--input", tmp_path / name)
        assert done.code == 0, done.errors
        assert done.output.startswith(f"Most likely: the digit {label} (")
        assert max(map(len, done.output.splitlines())) <= 80


def test_run_takes_several_inputs_as_data_do(tmp_path: Path) -> None:
    model = model_file(tmp_path, "one_operator")
    one, two = (np.full((1, 4), value, np.float32) for value in (1, 2))
    np.savez(tmp_path / "names.npz", b=two, a=one)
    np.savez(tmp_path / "order.npz", x1=two, x0=one)
    for name in ("names.npz", "order.npz"):
        done = hasten("run", model, "--input", tmp_path / name, "--json")
        assert done.json()["outputs"][0]["values"] == [3.0] * 4
    np.savez(tmp_path / "wrong.npz", a=one, c=two)
    done = hasten("run", model, "--input", tmp_path / "wrong.npz")
    assert done.code == 3
    assert "has no values for input 'b'; it has a, c" in done.errors
    np.savez(tmp_path / "few.npz", a=one)
    assert "has 1 input, but the model takes 2" in hasten("run", model, "--input", tmp_path / "few.npz").errors


def test_run_never_overwrites_and_refuses_what_it_cannot_read(
    bundle: Bundle, digit: tuple[Path, int], tmp_path: Path
) -> None:
    path, _ = digit
    (tmp_path / "y.npz").write_text("mine")
    done = hasten("run", bundle.folder, "--input", path, "--output", tmp_path / "y.npz")
    assert done.code == 2
    assert (tmp_path / "y.npz").read_text() == "mine"
    (tmp_path / "torn.npz").write_bytes(b"PK no zip")
    (tmp_path / "small.npy").write_bytes(b"\x93NUMPY\x01")
    np.save(tmp_path / "shape.npy", np.zeros((2, 2), np.float32))
    for name in ("torn.npz", "small.npy", "shape.npy"):
        assert hasten("run", bundle.folder, "--input", tmp_path / name).code == 3


def test_bench_profile_and_compare_take_the_bundles_plan(bundle: Bundle) -> None:
    found = hasten("bench", bundle.folder, *QUICK, "--json").json()
    assert found["plan"]["threads"] == 2
    assert found["model"]["path"] == str(bundle.model_path)
    other = hasten("bench", f"{bundle.folder}@threads=1", "--kernel", "builtin", *QUICK, "--json").json()
    assert (other["plan"]["threads"], other["plan"]["kernel"]) == (1, "builtin")
    compared = hasten("compare", bundle.folder, "@kernel=builtin", "--seconds", "1", "--json").json()
    assert [compared[side]["plan"]["threads"] for side in ("first", "second")] == [2, 2]
    assert compared["second"]["plan"]["kernel"] == "builtin"
    profiled = hasten("profile", bundle.folder, *QUICK, "--no-roofline", "--json").json()
    assert profiled["plan"]["threads"] == 2


@pytest.mark.parametrize("command", ["bench", "run", "copies"])
def test_a_damaged_bundle_is_a_sentence_and_exit_code_3(bundle: Bundle, digit: tuple[Path, int], command: str) -> None:
    path = bundle.folder / "plan.json"
    whole = path.read_text()
    more = ("--input", str(digit[0])) if command == "run" else ()
    for damaged in (
        whole[:100],
        whole.replace('"threads": 2', '"threads": "two"'),
        whole.replace('"model": "model.tflite"', '"model": "../../secret.tflite"'),
        whole.replace(bundle.sha256, "0" * 64),
    ):
        assert damaged != whole
        path.write_text(damaged)
        done = hasten(command, bundle.folder, *more, "--json")
        assert done.code == 3
        assert done.json()["error"]["exit_code"] == 3
        assert str(bundle.folder) in done.errors


def test_copies_says_it_all_in_json_text_and_session(tmp_path: Path) -> None:
    done = hasten("copies", "demo", "--seconds", "0.5", "--json", "--session", tmp_path / "s.jsonl")
    assert done.code == 0, done.errors
    found = done.json()
    assert {"rows", "recommended", "snippet", "finding", "doubts", "inference_us"} <= set(found)
    for row in found["rows"]:
        assert {"way", "direction", "us", "share"} <= set(row)
        assert row["direction"] in ("in", "out", "both")
        assert (row["us"] is None) == bool(row["reason"])
    kinds = [json.loads(line).get("kind") for line in (tmp_path / "s.jsonl").read_text().splitlines()]
    assert kinds[-2:] == ["copies", "finding"]


def test_an_interrupted_study_of_copies_says_what_it_has() -> None:
    process = start("copies", "demo", "--seconds", "8", "--json")
    wait_for_runners(process, 2)
    interrupt(process)
    output, errors = finish(process, 60)
    assert process.returncode == 130, errors
    found = json.loads(output)
    assert found["interrupted"]
    assert found["rows"]
