"""Retraining: new heads on real backbones and on sets that they were not trained for.

Wanted, on every set: better than 5 nearest neighbors on the same features and test part; the written file predicts what
embeddings and head predict (float 100 %, quantized at least 98.5 % and within 0.5 points). A head on 2,000 samples of
1,280 features is fitted in less than 5 s. MobileNet V1 0.25 in int8 with a head for CIFAR-10 has at least 64 % where
float has 66 %: at most 2 points less. From 500 photos to a tuned int8 bundle in less than 3 minutes by two commands.
"""

from __future__ import annotations

import gzip
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.cases import ROOT
from benchmarks.common import hasten, record
from hasten import demo
from hasten.api import Data, RetrainOptions, retrain
from hasten.retraining.softmax import Samples, fit_by_cross_validation, one_hot

if TYPE_CHECKING:
    from hasten.retraining.facts import RetrainFound

_SIGNED = "mean=127.5,std=127.5"
_V1, _V1_UINT8 = (ROOT / "01_mobilenet_v1_025_imagenet" / f"model_{kind}.tflite" for kind in ("float", "qat_uint8"))
_V2_UINT8 = ROOT / "08_mobilenet_v2_imagenet_uint8" / "model_tf2_ptq.tflite"
_WORDS = ROOT / "02_kws_dscnn" / "model_int8.tflite"
_CIFAR = ROOT / "03_resnet8_cifar10" / "images"
_LEAST_SAME, _MOST_POINTS = 0.985, 0.005
_FIT_SECONDS, _BUNDLE_SECONDS = 5.0, 180.0
_MOST_LOST_BY_INT8 = 0.02
_PHOTOS_A_CLASS = 50


def main() -> int:
    """All sets, the speed of the fit, int8, and the way from photos to a bundle."""
    if not _V1.is_file():
        print("The real models are not there.")
        return 1
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        sets = {
            "CIFAR-10, V1 0.25 float": _figures(folder, _V1, Data(str(_CIFAR), preprocess=_SIGNED), 1.0),
            "CIFAR-10, V1 0.25 uint8": _figures(folder, _V1_UINT8, Data(str(_CIFAR)), _LEAST_SAME),
            "CIFAR-10, V2 uint8": _figures(folder, _V2_UINT8, Data(str(_CIFAR)), _LEAST_SAME),
            "MNIST, V1 0.25 float": _figures(folder, _V1, Data(str(_mnist(folder)), preprocess=_SIGNED), 1.0),
            "MNIST, demo float": _figures(folder, demo.MODEL, Data(str(_mnist(folder))), 1.0),
            "spoken words, DS-CNN int8": _figures(folder, _WORDS, Data(str(_words(folder))), _LEAST_SAME),
        }
        figures: dict[str, Any] = {"sets": sets, "fit_seconds": round(_fit_seconds(), 2)}
        figures["int8"] = _int8(folder)
        figures["photos_to_bundle_seconds"] = round(_bundle_seconds(folder))
    passed = all(found["reached"] for found in (*sets.values(), figures["int8"]))
    passed = passed and figures["fit_seconds"] < _FIT_SECONDS and figures["photos_to_bundle_seconds"] < _BUNDLE_SECONDS
    return record("retraining", figures, passed=passed)


def _figures(folder: Path, model: Path, data: Data, least_same: float) -> dict[str, Any]:
    found = _retrained(folder, model, data)
    near = next(rival for rival in found.baselines if rival.name == "neighbors")
    apart = abs(found.written.right - found.written.head_right) / found.written.samples
    reached = found.accuracy.test > near.test and found.written.share >= least_same and apart <= _MOST_POINTS
    return {
        "test": round(found.accuracy.test, 4),
        "interval": [round(end, 4) for end in found.accuracy.interval],
        "neighbors": round(near.test, 4),
        "against_neighbors": [round(end, 4) for end in (near.change.difference, near.change.low, near.change.high)],
        "same_predictions": round(found.written.share, 4),
        "points_apart": round(apart, 4),
        "samples": [found.accuracy.train_samples, found.accuracy.test_samples],
        "seconds": round(found.seconds, 1),
        "fit_seconds": round(found.fit_seconds, 2),
        "reached": reached,
    }


def _retrained(folder: Path, model: Path, data: Data, **asked: Any) -> RetrainFound:
    return retrain(model, folder / "new.tflite", data=data, options=RetrainOptions(force=True, **asked))


def _int8(folder: Path) -> dict[str, Any]:
    """V1 0.25 with a head for CIFAR-10: float, and int8 by each recipe with the head fitted to it."""
    data = Data(str(_CIFAR), preprocess=_SIGNED)
    tests = {"float": _retrained(folder, _V1, data).accuracy.test}
    for recipe in ("static_int8", "static_int8_corrected", "static_int8_sequential"):
        tests[recipe] = _retrained(folder, _V1, data, to=recipe).accuracy.test
    lost = tests["float"] - tests["static_int8_sequential"]
    rounded = {name: round(test, 4) for name, test in tests.items()}
    return {**rounded, "lost": round(lost, 4), "reached": lost <= _MOST_LOST_BY_INT8}


def _fit_seconds() -> float:
    """The fit of a head to 2,000 samples of 1,280 features, 10 classes; with cross-validation."""
    random = np.random.default_rng(0)
    numbers = np.arange(2000) % 10
    # Features of networks are positive, and a few directions have most of their variance.
    spread = random.standard_normal((1280, 1280)) * np.exp(-np.arange(1280) / 200)
    centers = random.standard_normal((10, 1280)) * 0.7
    features = np.maximum((centers[numbers] + random.standard_normal((2000, 1280))) @ spread.T, 0).astype(np.float32)
    samples = Samples(features, one_hot(numbers, 10), np.ones(2000))
    begin = time.monotonic()
    fit_by_cross_validation(samples, np.asarray(random.permutation(2000) % 5, np.int64))
    return time.monotonic() - begin


def _mnist(folder: Path) -> Path:
    place = ROOT / "06_mnist_lstm"
    images, labels = (gzip.decompress(path.read_bytes()) for path in sorted(place.glob("*ubyte.gz")))
    x = np.frombuffer(images, np.uint8, offset=16).reshape(-1, 28, 28, 1)[:2000]
    np.savez(folder / "mnist.npz", x=x, y=np.frombuffer(labels, np.uint8, offset=8)[:2000].astype(np.int64))
    return folder / "mnist.npz"


def _words(folder: Path) -> Path:
    with np.load(ROOT / "02_kws_dscnn" / "data.npz") as known:
        np.savez(folder / "words.npz", x=known["x_int8"], y=known["y"])
    return folder / "words.npz"


def _bundle_seconds(folder: Path) -> float:
    """Two commands, as a user gives them, from a folder of 500 photos."""
    for place in sorted(path for path in _CIFAR.iterdir() if path.is_dir()):
        (folder / "photos" / place.name).mkdir(parents=True)
        for photo in sorted(place.iterdir())[:_PHOTOS_A_CLASS]:
            shutil.copy(photo, folder / "photos" / place.name)
    begin = time.monotonic()
    photos, model = str(folder / "photos"), str(folder / "mine.tflite")
    hasten("retrain", str(_V1), "--data", photos, "--preprocess", _SIGNED, "--to", "int8", "-o", model)
    held_out = str(folder / "mine.test.csv")
    hasten("tune", model, "--data", held_out, "--budget", "60s", "-o", str(folder / "bundle"))
    return time.monotonic() - begin


if __name__ == "__main__":
    sys.exit(main())
