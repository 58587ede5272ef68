"""Models of every ending that a head can replace, and labeled samples that a head on their features can tell apart."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from hasten.data.dataset import Dataset, Sample
from hasten.model.build_bytes import Quantization
from hasten.model.build_graph import Spec
from hasten.model.example_models import scaled_input
from tests.model_builder import ModelBuilder

if TYPE_CHECKING:
    from collections.abc import Callable

    from hasten.model.build_graph import Value

SIZE = 8
CLASSES = ("ant", "bee", "cat")


def _backbone(g: ModelBuilder, dtype: str = "float32", batch: int = 1) -> Value:
    x = g.input("x", (batch, SIZE, SIZE, 3)) if batch != 1 else scaled_input(g, (1, SIZE, SIZE, 3), dtype)
    y = g.conv2d(x, 16, 3, 2, activation="relu6")
    return g.conv2d(y, 24, 3, 2, activation="relu6")


def dense() -> bytes:
    g = ModelBuilder()
    g.output(g.softmax(g.fully_connected(g.mean(_backbone(g)), 5)), "scores")
    return g.build()


def dense_of_all_positions() -> bytes:
    g = ModelBuilder()
    g.output(g.softmax(g.fully_connected(g.reshape(_backbone(g), (1, 2 * 2 * 24)), 5)), "scores")
    return g.build()


def logits_only() -> bytes:
    g = ModelBuilder()
    g.output(g.fully_connected(g.mean(_backbone(g)), 5), "logits")
    return g.build()


def sigmoids() -> bytes:
    g = ModelBuilder()
    g.output(g.logistic(g.fully_connected(g.mean(_backbone(g)), 5)), "scores")
    return g.build()


def fused_activation() -> bytes:
    g = ModelBuilder()
    g.output(g.softmax(g.fully_connected(g.mean(_backbone(g)), 5, activation="relu")), "scores")
    return g.build()


def no_bias() -> bytes:
    g = ModelBuilder()
    features = g.mean(_backbone(g))
    weights = g.constant(np.ones((5, 24), np.float32))
    options: dict[str, Any] = {"options_type": "FullyConnectedOptions", "keepNumDims": True}
    (logits,) = g.operator("FULLY_CONNECTED", [features, weights], [Spec((1, 5))], **options)
    g.output(g.softmax(logits), "scores")
    return g.build()


def bias_of_its_own() -> bytes:
    g = ModelBuilder()
    logits = g.fully_connected(g.mean(_backbone(g)), 5)
    g.output(g.softmax(g.add(logits, g.constant(np.ones(5, np.float32)))), "scores")
    return g.build()


def half_precision_weights() -> bytes:
    g = ModelBuilder(weights="float16")
    g.output(g.softmax(g.fully_connected(g.mean(_backbone(g)), 5)), "scores")
    return g.build()


def integer_weights() -> bytes:
    """A head whose weights are int8, and whose values are float32."""
    g = ModelBuilder(weights="int8")
    g.output(g.softmax(g.fully_connected(g.mean(_backbone(g)), 5)), "scores")
    return g.build()


def convolution_on_pooled() -> bytes:
    """As MobileNet V1: pooled features of 1 by 1, a convolution, and a RESHAPE that knows the number of classes."""
    g = ModelBuilder()
    pooled = g.mean(_backbone(g), keep_dims=True)
    logits = g.reshape(g.conv2d(pooled, 5), (1, 5))
    g.output(g.softmax(logits), "scores")
    return g.build()


def convolution_before_pooling() -> bytes:
    """As SqueezeNet: a convolution of classes on a map, then the mean of the map."""
    g = ModelBuilder()
    g.output(g.softmax(g.mean(g.conv2d(_backbone(g), 5, activation="relu"))), "scores")
    return g.build()


def any_batch() -> bytes:
    g = ModelBuilder()
    g.output(g.softmax(g.fully_connected(g.mean(_backbone(g, batch=-1)), 5)), "scores")
    return g.build()


def two_outputs() -> bytes:
    """Boxes first, which have no head; then classes."""
    g = ModelBuilder()
    y = _backbone(g)
    g.output(y, "map")
    g.output(g.softmax(g.fully_connected(g.mean(y), 5)), "scores")
    return g.build()


def shared_weights() -> bytes:
    """Two heads of one matrix."""
    g = ModelBuilder()
    features, weights = g.mean(_backbone(g)), g.constant(np.eye(24, dtype=np.float32)[:5])
    options: dict[str, Any] = {"options_type": "FullyConnectedOptions", "keepNumDims": True}
    for name in ("scores", "again"):
        (logits,) = g.operator("FULLY_CONNECTED", [features, weights], [Spec((1, 5))], **options)
        g.output(g.softmax(logits), name)
    return g.build()


def no_signature() -> bytes:
    g = ModelBuilder()
    g.output(g.softmax(g.fully_connected(g.mean(_backbone(g)), 5)), "scores")
    return g.build(None)


def old_schema() -> bytes:
    g = ModelBuilder()
    g.output(g.softmax(g.fully_connected(g.mean(_backbone(g)), 5)), "scores")
    return g.build(None, old_schema=True)


def int8() -> bytes:
    g = ModelBuilder()
    g.output(g.softmax(g.fully_connected(g.mean(_backbone(g, "int8")), 5)), "scores")
    return g.build()


def int8_with_float_ends() -> bytes:
    g = ModelBuilder()
    x = g.quantize(g.input("x", (1, SIZE, SIZE, 3)), Quantization((4 / 127,)))
    y = g.conv2d(g.conv2d(x, 16, 3, 2, activation="relu6"), 24, 3, 2, activation="relu6")
    g.output(g.dequantize(g.softmax(g.fully_connected(g.mean(y), 5))), "scores")
    return g.build()


def int8_before_pooling() -> bytes:
    g = ModelBuilder()
    g.output(g.softmax(g.mean(g.conv2d(_backbone(g, "int8"), 5))), "scores")
    return g.build()


def uint8() -> bytes:
    """Features that are means of a uint8 input, with a head of uint8 as files of 2018 have it."""
    g = ModelBuilder()
    x = g.input("x", (1, SIZE, SIZE, 3), "uint8", scale=1 / 64, zero_point=128)
    axes = g.constant(np.array([1], np.int32))
    (rows,) = g.operator(
        "MEAN", [x, axes], [Spec((1, SIZE, 3), "uint8", x.quantization)], options_type="ReducerOptions", keepDims=False
    )
    flat = g.constant(np.array([1, SIZE * 3], np.int32))
    (features,) = g.operator(
        "RESHAPE",
        [rows, flat],
        [Spec((1, SIZE * 3), "uint8", x.quantization)],
        options_type="ReshapeOptions",
        newShape=[1, SIZE * 3],
    )
    weights = g.constant(
        np.random.default_rng(0).integers(1, 256, (5, SIZE * 3)).astype(np.uint8), Quantization((0.01,), (128,))
    )
    bias = g.constant(np.zeros(5, np.int32), Quantization((0.01 / 64,)))
    (logits,) = g.operator(
        "FULLY_CONNECTED",
        [features, weights, bias],
        [Spec((1, 5), "uint8", Quantization((0.05,), (128,)))],
        options_type="FullyConnectedOptions",
    )
    (scores,) = g.operator(
        "SOFTMAX", [logits], [Spec((1, 5), "uint8", Quantization((1 / 256,)))], options_type="SoftmaxOptions", beta=1.0
    )
    g.output(scores, "scores")
    return g.build()


FLOAT: dict[str, Callable[[], bytes]] = {
    make.__name__: make
    for make in (
        *(dense, dense_of_all_positions, logits_only, sigmoids, fused_activation, no_bias, bias_of_its_own),
        *(half_precision_weights, integer_weights, convolution_on_pooled, convolution_before_pooling, any_batch),
        *(two_outputs, shared_weights, no_signature, old_schema),
    )
}
INTEGERS: dict[str, Callable[[], bytes]] = {
    make.__name__: make for make in (int8, int8_with_float_ends, int8_before_pooling, uint8)
}
ENDINGS = {**FLOAT, **INTEGERS}


def samples_of(count: int, seed: int = 0, classes: int = len(CLASSES)) -> tuple[np.ndarray[Any, Any], list[int]]:
    """Images of stripes whose direction and color are those of their class, with noise."""
    random = np.random.default_rng(seed)
    numbers = [number % classes for number in range(count)]
    high, wide = np.mgrid[0:SIZE, 0:SIZE]
    patterns = []
    for number in range(classes):
        angle = np.pi * number / classes
        stripes = np.sin(2 * (np.cos(angle) * high + np.sin(angle) * wide))
        patterns.append(np.stack([stripes * (channel == number % 3) for channel in range(3)], axis=-1))
    images = np.stack([patterns[number] for number in numbers]) + 0.3 * random.standard_normal((count, SIZE, SIZE, 3))
    return images.astype(np.float32), numbers


def striped(count: int, seed: int = 0) -> Dataset:
    """The same as a dataset with names of classes."""
    images, numbers = samples_of(count, seed)
    samples = [Sample(f"s{at}", (images[at],), CLASSES[number]) for at, number in enumerate(numbers)]
    return Dataset("stripes", samples, True, CLASSES, "names in alphabetical order")
