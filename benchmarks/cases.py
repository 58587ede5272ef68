"""The real models with labeled data that benchmarks are run on, where they are there; and the embedded one."""

from __future__ import annotations

import csv
import gzip
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from hasten import demo
from hasten.data.request import Data

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).parents[2] / "shared" / "cases"


@dataclass(frozen=True)
class Case:
    """A model and how its data is made ready: a function puts data and calibration into a folder."""

    name: str
    model: Path
    prepared: Callable[[Path], tuple[str, str]]
    preprocess: str = ""
    label_offset: int = 0
    metric: str = ""


def data_of(case: Case, folder: Path) -> Data:
    """The data of a case, made ready in a new folder."""
    folder.mkdir(parents=True)
    data, calibration = case.prepared(folder)
    return Data(data, calibration, case.preprocess, case.metric, label_offset=case.label_offset)


def _demo(_folder: Path) -> tuple[str, str]:
    return str(demo.DATA), str(demo.CALIBRATION)


def _imagenet(_folder: Path) -> tuple[str, str]:
    place = ROOT / "01_mobilenet_v1_025_imagenet"
    return str(place / "labels.csv"), str(place / "calib")


def _keywords(folder: Path) -> tuple[str, str]:
    with np.load(ROOT / "02_kws_dscnn" / "data.npz") as arrays:
        values = (arrays["x_int8"].astype(np.float32) - arrays["zero_point"]) * arrays["scale"]
        labels = arrays["y"]
    is_calibration = np.arange(len(values)) % 10 == 0
    np.savez(folder / "data.npz", x=values[~is_calibration].astype(np.float32), y=labels[~is_calibration])
    np.savez(folder / "calibration.npz", x=values[is_calibration].astype(np.float32))
    return str(folder / "data.npz"), str(folder / "calibration.npz")


def _cifar(_folder: Path) -> tuple[str, str]:
    place = ROOT / "03_resnet8_cifar10"
    return str(place / "images"), str(place / "calib")


def _segmentation(folder: Path) -> tuple[str, str]:
    place = ROOT / "coco_train128"
    pictures = sorted((place / "images").glob("*.jpg"))
    masks = {path: place / "masks_voc" / f"{path.stem}.png" for path in pictures}
    with (folder / "data.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("file", "mask"), *((p, m) for p, m in masks.items() if m.is_file())])
    with (folder / "calibration.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("file",), *((p,) for p, m in masks.items() if not m.is_file())])
    return str(folder / "data.csv"), str(folder / "calibration.csv")


def _persons(folder: Path) -> tuple[str, str]:
    with np.load(ROOT / "05_vww_person" / "data.npz") as arrays:
        np.savez(folder / "data.npz", x=arrays["x"], y=arrays["y"])
    return str(folder / "data.npz"), ""


def _digits(folder: Path) -> tuple[str, str]:
    place = ROOT / "06_mnist_lstm"
    raw = [gzip.decompress((place / name).read_bytes()) for name in _DIGIT_FILES]
    images = np.frombuffer(raw[0], np.uint8, offset=16).reshape(-1, 28, 28).astype(np.float32) / 255
    np.savez(folder / "data.npz", x=images[100:], y=np.frombuffer(raw[1], np.uint8, offset=8)[100:].astype(np.int64))
    np.savez(folder / "calibration.npz", x=images[:100])
    return str(folder / "data.npz"), str(folder / "calibration.npz")


_DIGIT_FILES = ("t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz")
_AROUND_ZERO = "mean=127.5,std=127.5"
_ALL = (
    Case("demo", demo.MODEL, _demo),
    Case("01", ROOT / "01_mobilenet_v1_025_imagenet" / "model_float.tflite", _imagenet, _AROUND_ZERO, 1),
    Case("02", ROOT / "02_kws_dscnn" / "model_float.tflite", _keywords),
    Case("03", ROOT / "03_resnet8_cifar10" / "model_float.tflite", _cifar, "mean=0,std=1"),
    Case("04", ROOT / "04_deeplabv3_coco" / "model_float.tflite", _segmentation, _AROUND_ZERO, metric="miou"),
    Case("05", ROOT / "05_vww_person" / "model_float.tflite", _persons, "mean=0,std=255"),
    Case("06", ROOT / "06_mnist_lstm" / "model_float.tflite", _digits),
)
CASES = {case.name: case for case in _ALL if case.model.is_file()}
"""Those that are there, by name."""
