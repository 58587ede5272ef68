"""The embedded default is what its docstring says: small, labelled, and as accurate as stated."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter

from hasten import demo

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

MAX_TOTAL_BYTES = 2_000_000
MAX_MODEL_BYTES = 1_700_000


class Labelled(NamedTuple):
    x: NDArray[np.uint8]
    y: NDArray[np.int64]


def load(path: Path) -> Labelled:
    with np.load(path) as arrays:
        return Labelled(arrays["x"], arrays["y"])


def distinct_images(data: Labelled) -> set[bytes]:
    return {image.tobytes() for image in data.x}


def test_package_holds_no_more_than_two_megabytes() -> None:
    sizes = [path.stat().st_size for path in (demo.MODEL, demo.DATA, demo.CALIBRATION)]
    assert sizes[0] <= MAX_MODEL_BYTES
    assert sum(sizes) <= MAX_TOTAL_BYTES


@pytest.mark.parametrize(("path", "images"), [(demo.DATA, 600), (demo.CALIBRATION, 100)])
def test_images_and_labels_have_the_promised_form(path: Path, images: int) -> None:
    data = load(path)
    assert data.x.shape == (images, 96, 96, 1)
    assert data.x.dtype == np.uint8
    assert (data.x.min(), data.x.max()) == (0, 255)
    assert data.y.shape == (images,)
    assert data.y.dtype == np.int64


@pytest.mark.parametrize("path", [demo.DATA, demo.CALIBRATION])
def test_every_class_has_about_a_tenth_of_the_images(path: Path) -> None:
    y = load(path).y
    counts = np.bincount(y, minlength=10)
    assert len(counts) == 10
    assert counts.min() >= 0.09 * len(y)
    assert counts.max() <= 0.11 * len(y)


def test_no_image_is_in_both_sets_or_twice_in_one() -> None:
    data, calibration = load(demo.DATA), load(demo.CALIBRATION)
    assert len(distinct_images(data) | distinct_images(calibration)) == len(data.y) + len(calibration.y)


def test_model_takes_one_image_and_gives_ten_scores() -> None:
    interpreter = Interpreter(str(demo.MODEL))
    assert interpreter.get_signature_list() == {"serving_default": {"inputs": ["image"], "outputs": ["scores"]}}
    (image,), (scores,) = interpreter.get_input_details(), interpreter.get_output_details()
    for tensor, shape in ((image, [1, 96, 96, 1]), (scores, [1, 10])):
        assert tensor["shape_signature"].tolist() == shape
        assert tensor["dtype"] is np.float32


def test_batch_normalisation_is_folded_and_weights_are_constant() -> None:
    operators = [operator["op_name"] for operator in Interpreter(str(demo.MODEL))._get_ops_details()]
    assert {"DEPTHWISE_CONV_2D", "HARD_SWISH", "FULLY_CONNECTED", "MEAN", "MUL", "LOGISTIC"} <= set(operators)
    assert not {"READ_VARIABLE", "RSQRT", "SUB"} & set(operators)


def test_model_reaches_the_accuracy_that_the_docstring_states() -> None:
    stated = re.search(r"(\d+\.\d\d) % of the test images", demo.__doc__ or "")
    assert stated is not None
    data = load(demo.DATA)
    score = Interpreter(str(demo.MODEL)).get_signature_runner("serving_default")
    scores = np.concatenate([score(image=image[np.newaxis].astype(np.float32))["scores"] for image in data.x])
    np.testing.assert_allclose(scores.sum(axis=1), 1, rtol=1e-5)
    # One image of 600 may fall on the other side with another engine's rounding.
    assert 100 * np.mean(scores.argmax(axis=1) == data.y) == pytest.approx(float(stated[1]), abs=0.17)
