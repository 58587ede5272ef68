"""Labels are looked at before the work: all of them choose the metric, and a bad one does not turn up at the end."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from PIL import Image

from hasten.api import Data, Effort, SearchSettings, check, quantize
from hasten.core.errors import DataError
from hasten.core.floor import FloorState
from hasten.gate.request import CheckRequest
from tests.example_models import mobilenet_like

if TYPE_CHECKING:
    from pathlib import Path

FLOAT16 = SearchSettings(recipes=("float16",), mix=False, max_drop=0.5)
QUICK = Effort(0.1)
COUNT = 6


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.tflite"
    path.write_bytes(mobilenet_like(8, 1, 16))
    return path


def images_with(folder: Path, labels: list[str]) -> str:
    """A table of images and their labels."""
    for number in range(len(labels)):
        Image.new("RGB", (16, 16), (40 * number,) * 3).save(folder / f"{number}.png")
    lines = [f"{number}.png,{label}" for number, label in enumerate(labels)]
    (folder / "labels.csv").write_text("\n".join(["file,label", *lines]) + "\n")
    return str(folder / "labels.csv")


def arrays_with(folder: Path, labels: list[int]) -> str:
    inputs = np.random.default_rng(0).random((len(labels), 16, 16, 3), np.float32)
    np.savez(folder / "data.npz", x=inputs, y=np.array(labels))
    return str(folder / "data.npz")


@pytest.mark.parametrize("bad", range(COUNT))
def test_a_bad_label_of_either_half_is_found_before_the_work(model: Path, tmp_path: Path, bad: int) -> None:
    numbers = [99 if row == bad else row for row in range(COUNT)]
    for data in (arrays_with(tmp_path, numbers), images_with(tmp_path, list(map(str, numbers)))):
        told: list[str] = []
        effort = Effort(0.1, progress=lambda _, text, told=told: told.append(text))
        with pytest.raises(DataError, match=rf"{bad}.* has the label 99, outside the model's 10 classes"):
            quantize(model, tmp_path / f"out{len(data)}", data=Data(data), settings=FLOAT16, effort=effort)
        assert told == []


def test_a_gate_finds_it_before_anything_is_timed(model: Path, tmp_path: Path) -> None:
    request = CheckRequest(data=Data(arrays_with(tmp_path, [0, 1, -5, 2])))
    kept: list[str] = []
    effort = Effort(0.1, keep=lambda kind, *_: kept.append(kind))
    with pytest.raises(DataError, match=r"sample 2 .* has the label -5"):
        check(model, request.with_limits({"latency": "1 s", "accuracy": "1 %"}), effort=effort)
    assert kept == []
    fewer = replace(request, data=replace(request.data, skip_bad=True))
    found = check(model, fewer.with_limits({"accuracy": 0.0}), effort=effort)
    assert len(found.notes) == 1


@pytest.mark.slow
def test_bad_labels_are_left_out_and_listed_if_asked(model: Path, tmp_path: Path) -> None:
    data = images_with(tmp_path, ["99", "1", "", "3", "4", "5", "6", "99"])
    found = quantize(model, tmp_path / "out", data=Data(data, skip_bad=True), settings=FLOAT16, effort=QUICK)
    assert sorted(name.split()[0] for name, _ in found.skipped) == ["0.png", "2.png", "7.png"]
    assert found.trials[1].floor is not FloorState.FAILED


def test_a_blank_label_is_named_and_has_no_part_in_the_metric(model: Path, tmp_path: Path) -> None:
    for blank in range(4):
        labels = ["" if row == blank else f"{row}.5" for row in range(4)]
        data, out = images_with(tmp_path, labels), tmp_path / f"out{blank}"
        with pytest.raises(DataError, match=rf"{blank}\.png \(line {blank + 2} of .* has no label, but other"):
            quantize(model, out, data=Data(data), settings=FLOAT16, effort=QUICK)


@pytest.mark.parametrize("whole", range(4))
def test_numbers_to_be_predicted_may_be_whole(model: Path, tmp_path: Path, whole: int) -> None:
    """Whichever half, and whichever place in it, the whole one is drawn for."""
    labels = ["3.0" if row == whole else "2.5" for row in range(4)]
    data = Data(images_with(tmp_path, labels))
    with pytest.raises(DataError, match="The output has 10 values, but the label has 1"):
        quantize(model, tmp_path / "out", data=data, settings=FLOAT16, effort=QUICK)
