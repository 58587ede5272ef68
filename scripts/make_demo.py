"""Makes the embedded default of hasten: a small digit classifier, trained here, and its labeled images.

It needs the extra `demo-training` and takes some minutes on two cores:
  pip install -e '.[demo-training]'
  python scripts/make_demo.py
"""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import tensorflow as tf
from ai_edge_litert.interpreter import Interpreter
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from hasten import demo

if TYPE_CHECKING:
    from numpy.typing import NDArray

keras = tf.keras

SEED = 20
ENLARGE = 12  # 8 by 8 pixels become 96 by 96
TEST_IMAGES = 600
CALIBRATION_IMAGES = 100
BATCH_SIZE = 32
PEAK_LEARNING_RATE = 3e-3
MAX_CONVERSION_ERROR = 1e-3
LOWEST_ACCURACY = 0.97


class Labelled(NamedTuple):
    """Images, uint8 [n, 96, 96, 1], and their classes, int64 [n]."""

    x: NDArray[np.uint8]
    y: NDArray[np.int64]

    def save(self, path: Path) -> None:
        """Write the two arrays to a compressed .npz."""
        np.savez_compressed(path, x=self.x, y=self.y)


class Split(NamedTuple):
    """The digits, dealt out. Calibration is a part of train: quantizing must not see a test image either."""

    train: Labelled
    calibration: Labelled
    test: Labelled


@dataclass(frozen=True, slots=True)
class Block:
    """An inverted residual: expand, depthwise convolution, optional squeeze-and-excite, project."""

    channels: int
    stride: int = 1
    expansion: int = 4
    activation: str = "relu6"
    squeeze: bool = False


# ReLU6 as in MobileNetV2 first, hard-swish and squeeze-and-excite as in MobileNetV3 where the images are small.
BLOCKS = (
    Block(24),
    Block(24),
    Block(48, stride=2),
    Block(48),
    Block(48),
    Block(48),
    Block(72, stride=2, squeeze=True),
    Block(72),
    Block(72, activation="hard_swish"),
    Block(72, activation="hard_swish", squeeze=True),
    Block(96, stride=2, activation="hard_swish"),
)
STEM_CHANNELS = 24
HEAD_CHANNELS = 256


def load_split() -> Split:
    """The bundled digits of scikit-learn, enlarged, and split by class with a fixed seed."""
    digits = load_digits()
    grey = np.rint(digits.images * (255 / 16)).astype(np.uint8)
    # Nearest neighbor: equal pixels in a row compress to almost nothing.
    x = grey.repeat(ENLARGE, axis=1).repeat(ENLARGE, axis=2)[..., np.newaxis]
    y = digits.target.astype(np.int64)
    train_at, test_at = train_test_split(np.arange(len(y)), test_size=TEST_IMAGES, stratify=y, random_state=SEED)
    _, calibration_at = train_test_split(
        train_at, test_size=CALIBRATION_IMAGES, stratify=y[train_at], random_state=SEED
    )
    return Split(*(Labelled(x[at], y[at]) for at in (train_at, calibration_at, test_at)))


def normalised(x: Any, activation: str | None) -> Any:
    """Batch normalisation, which the converter folds into the convolution before it, and an activation."""
    x = keras.layers.BatchNormalization(momentum=0.9)(x)
    return keras.layers.Activation(activation)(x) if activation else x


def squeeze_and_excite(x: Any) -> Any:
    """Scale each channel by what the whole image says of it."""
    channels = x.shape[-1]
    scale = keras.layers.GlobalAveragePooling2D()(x)
    scale = keras.layers.Dense(channels // 8, activation="relu")(scale)
    scale = keras.layers.Dense(channels, activation="sigmoid")(scale)
    scale = keras.layers.Reshape((1, 1, channels))(scale)
    return keras.layers.Multiply()([x, scale])


def inverted_residual(x: Any, block: Block) -> Any:
    """One block of the network, with a shortcut where the shapes allow it."""
    shortcut = x
    channels = x.shape[-1]
    x = keras.layers.Conv2D(channels * block.expansion, 1, use_bias=False)(x)
    x = normalised(x, block.activation)
    x = keras.layers.DepthwiseConv2D(3, strides=block.stride, padding="same", use_bias=False)(x)
    x = normalised(x, block.activation)
    if block.squeeze:
        x = squeeze_and_excite(x)
    x = keras.layers.Conv2D(block.channels, 1, use_bias=False)(x)
    x = normalised(x, None)
    if block.stride == 1 and channels == block.channels:
        x = keras.layers.Add()([shortcut, x])
    return x


def build_classifier(shape: tuple[int, ...], classes: int) -> Any:
    """The network: raw grey values 0..255 in, a probability for each class out."""
    image = keras.Input(shape, name="image")
    x = keras.layers.Rescaling(1 / 127.5, offset=-1)(image)
    x = keras.layers.Conv2D(STEM_CHANNELS, 3, strides=2, padding="same", use_bias=False)(x)
    x = normalised(x, "hard_swish")
    for block in BLOCKS:
        x = inverted_residual(x, block)
    x = keras.layers.Conv2D(HEAD_CHANNELS, 1, use_bias=False)(x)
    x = normalised(x, "hard_swish")
    x = keras.layers.GlobalAveragePooling2D()(x)
    x = keras.layers.Dropout(0.2, seed=SEED)(x)
    scores = keras.layers.Dense(classes, activation="softmax", name="scores")(x)
    return keras.Model(image, scores)


def build_augmentation() -> Any:
    """Small shifts, turns, zooms and noise; the border of a digit is black."""
    border: dict[str, Any] = {"fill_mode": "constant", "fill_value": 0.0, "seed": SEED}
    return keras.Sequential(
        [
            keras.layers.RandomTranslation(0.1, 0.1, **border),
            keras.layers.RandomRotation(0.04, **border),
            keras.layers.RandomZoom(0.1, **border),
            # The noise layer takes a deviation below 1 only, so the grey values go to 0..1 and back.
            keras.layers.Rescaling(1 / 255),
            keras.layers.GaussianNoise(0.03, seed=SEED),
            keras.layers.Rescaling(255),
        ]
    )


def train(classifier: Any, data: Labelled, epochs: int) -> None:
    """Fit the classifier to augmented images, with a learning rate that rises once and falls to nothing."""
    image = keras.Input(data.x.shape[1:])
    trainee = keras.Model(image, classifier(build_augmentation()(image)))
    steps = epochs * -(-len(data.y) // BATCH_SIZE)
    rate = keras.optimizers.schedules.CosineDecay(
        0.0, decay_steps=steps - steps // 10, warmup_target=PEAK_LEARNING_RATE, warmup_steps=steps // 10
    )
    trainee.compile(
        optimizer=keras.optimizers.Adam(rate),
        loss="sparse_categorical_crossentropy",
        metrics=["accuracy"],
        jit_compile=False,  # XLA did not pay on two CPU cores
    )
    trainee.fit(data.x.astype(np.float32), data.y, batch_size=BATCH_SIZE, epochs=epochs, verbose=2)


def convert(classifier: Any) -> bytes:
    """The classifier as a .tflite with a batch of one and a signature image → scores."""
    spec = tf.TensorSpec((1, *classifier.input_shape[1:]), tf.float32, name="image")
    archive = keras.export.ExportArchive()
    archive.track(classifier)
    archive.add_endpoint(
        "serving_default", lambda image: {"scores": classifier(image, training=False)}, input_signature=[spec]
    )
    with tempfile.TemporaryDirectory() as folder:
        # Saved by tf.saved_model.save alone, the weights would stay variables and nothing would be folded.
        archive.write_out(folder, verbose=False)
        return bytes(tf.lite.TFLiteConverter.from_saved_model(folder).convert())


def predict_converted(model: bytes, x: NDArray[np.uint8]) -> NDArray[np.float32]:
    """The scores of the .tflite for each image."""
    score = Interpreter(model_content=model).get_signature_runner("serving_default")
    return np.concatenate([score(image=image[np.newaxis].astype(np.float32))["scores"] for image in x])


def count_macs(classifier: Any) -> int:
    """Multiply-accumulates of the convolutions and dense layers for one image."""
    return sum(
        int(np.prod(layer.kernel.shape) * np.prod(layer.output.shape[1:-1]))
        for layer in classifier.layers
        if hasattr(layer, "kernel")
    )


def check_converted(classifier: Any, model: bytes, test: Labelled) -> float:
    """The accuracy of the .tflite on the test images; stops the script if the model is not worth shipping."""
    converted = predict_converted(model, test.x)
    trained = classifier.predict(test.x.astype(np.float32), verbose=0)
    error = float(np.abs(converted - trained).max())
    if error > MAX_CONVERSION_ERROR:
        raise SystemExit(f"the .tflite's scores differ from the trained model's by up to {error:.2g}")
    accuracy = float(np.mean(converted.argmax(axis=1) == test.y))
    if accuracy < LOWEST_ACCURACY:
        raise SystemExit(f"accuracy {accuracy:.2%} is below {LOWEST_ACCURACY:.0%}: train for more epochs")
    print(f"the .tflite's scores differ from the trained model's by at most {error:.2g}")
    return accuracy


def make_demo(output: Path, epochs: int) -> None:
    """Train, convert and check; write the three files to the folder only if all went well."""
    keras.utils.set_random_seed(SEED)
    tf.config.experimental.enable_op_determinism()
    split = load_split()
    classifier = build_classifier(split.train.x.shape[1:], classes=10)
    train(classifier, split.train, epochs)
    model = convert(classifier)
    accuracy = check_converted(classifier, model, split.test)
    print(f"accuracy {accuracy:.2%} on {len(split.test.y)} test images")
    print(f"{count_macs(classifier) / 1e6:.1f} million MACs, {classifier.count_params():,} parameters")

    output.mkdir(parents=True, exist_ok=True)
    model_path, data_path, calibration_path = (output / path.name for path in (demo.MODEL, demo.DATA, demo.CALIBRATION))
    model_path.write_bytes(model)
    split.test.save(data_path)
    split.calibration.save(calibration_path)
    for path in (model_path, data_path, calibration_path):
        print(f"{path}: {path.stat().st_size:,} bytes")


def main() -> None:
    """Read the command line and make the files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--output", type=Path, default=demo.MODEL.parent, help="folder for the files (default: the package's)"
    )
    parser.add_argument("--epochs", type=int, default=16, help="passes over the training images (default: 16)")
    arguments = parser.parse_args()
    make_demo(arguments.output, arguments.epochs)


if __name__ == "__main__":
    main()
