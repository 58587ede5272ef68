"""`python -m hasten.retraining.keras_program`: trains a network with Keras on request, in a process of its own.

TensorFlow takes seconds to load and gigabytes of memory, and two releases of Keras cannot live in one process:
quantization-aware training needs the older one (TF_USE_LEGACY_KERAS). The parent decides what happens next, epoch by
epoch; this program builds, trains, saves and converts. It never sees the test part.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hasten.core.errors import HastenError, ModelError, UsageError
from hasten.core.failure import Failure, failure_from_error
from hasten.retraining.judging import class_counts, predicted_classes
from hasten.retraining.options import IMAGENET, NO_WEIGHTS
from hasten.runner.protocol import Message
from hasten.runner.serving import failed, serve

if TYPE_CHECKING:
    from numpy.typing import NDArray

INSTALL: Final = "pip install 'hasten[train]'"
LEGACY: Final = "TF_USE_LEGACY_KERAS"
_STAGE: Final = "make"
_CHECKED_SAMPLES: Final = 32
# Images are made larger by this share and cut back at a random place.
_ROOM: Final = 1.15
# Of the statistics of batches, where they are learned from nothing: the usual 0.99 needs hundreds of steps.
_MOMENTUM: Final = 0.9


def main() -> None:
    """Serve until the other side closes."""
    serve(lambda: TrainingServer().answer, memory_mb=0)


class TrainingServer:
    """Trains one network."""

    def __init__(self) -> None:
        self._training: Training | None = None

    def answer(self, request: Message) -> Message:
        """The answer to one request. Whatever goes wrong is an answer, too."""
        try:
            return Message({"ok": True, **self._handle(request.body)})
        except HastenError as error:
            return failed(failure_from_error(error, _STAGE))
        except MemoryError:
            return failed(Failure(_STAGE, "out of memory", "There was not enough memory to train this network."))
        except Exception as error:  # noqa: BLE001 - the parent must get an answer whatever happened here
            first = str(error).strip().splitlines()[:1]
            return failed(Failure(_STAGE, "bug", f"{type(error).__name__}: {''.join(first)}", "Report this."))

    def _handle(self, body: dict[str, Any]) -> dict[str, Any]:
        if body["request"] == "begin":
            self._training = Training(body)
            return {}
        training = self._training
        assert training is not None, "a training begins first"
        if body["request"] == "epoch":
            return training.epoch(body["rate"], frozen=body["frozen"])
        actions = {"save": training.save, "load": training.load, "convert": training.convert}
        return actions[body["request"]](Path(body["path"]))


class Training:
    """A network with a head for the user's classes, and the samples that it learns from."""

    def __init__(self, body: dict[str, Any]) -> None:
        self._integers = bool(body["integers"])
        self._tf, self._keras = _imported(self._integers)
        self._keras.utils.set_random_seed(int(body["seed"]))
        self._batch = int(body["batch"])
        self._mean, self._std = float(body["mean"]), float(body["std"])
        self._train, self._check = (_Part(Path(body["folder"]), name) for name in ("train", "check"))
        self._classes = self._train.targets.shape[1]
        self._size = self._train.images.shape[1]
        self._multi_label = bool(body["multi_label"])
        self._from_scratch = body["weights"] == NO_WEIGHTS
        self._model = self._built(body)
        self._base_layers = len(self._model.layers) - 2
        if self._integers:
            self.load(Path(body["network"]))  # that all layers have learned, with the other Keras
            self._model = _quantized(self._model)
        self._compiled: tuple[float, bool] | None = None

    def epoch(self, rate: float, *, frozen: bool) -> dict[str, Any]:
        """Go once over the samples; what the network then makes of those that are kept for checking."""
        if (rate, frozen) != self._compiled:
            self._compile(rate, frozen=frozen)
        self._model.fit(self._augmented(), epochs=1, verbose=0)
        return {"accuracy": self._same(self._predicted(self._check.images), self._check.targets)}

    def save(self, path: Path) -> dict[str, Any]:
        """Save the weights, layer by layer: another release of Keras can read them."""
        arrays = {
            f"{layer.name}|{place}": values
            for layer in self._model.layers
            for place, values in enumerate(layer.get_weights())
        }
        beside = path.with_name(f".{path.name}.new.npz")
        np.savez(beside, **arrays)
        beside.replace(path)
        return {}

    def load(self, path: Path) -> dict[str, Any]:
        """Load weights that `save` has written."""
        with np.load(path, allow_pickle=False) as known:
            for layer in self._model.layers:
                count = len(layer.get_weights())
                if count:
                    layer.set_weights([known[f"{layer.name}|{place}"] for place in range(count)])
        return {}

    def convert(self, path: Path) -> dict[str, Any]:
        """Write the network as a .tflite file, and say how often the file predicts what the network does."""
        if self._integers:
            converter = self._tf.lite.TFLiteConverter.from_keras_model(self._model)
            converter.optimizations = [self._tf.lite.Optimize.DEFAULT]
            path.write_bytes(converter.convert())
        else:
            self._model.export(str(path), format="litert", verbose=False)
        images = self._check.images[:_CHECKED_SAMPLES]
        return {"same": self._same(self._predicted(images), self._file_answers(path, images))}

    def _same(self, one: NDArray[Any], other: NDArray[Any]) -> float:
        """The share of samples of which both say the same."""
        first, second = (predicted_classes(shares, multi_label=self._multi_label) for shares in (one, other))
        return float((first == second).all(axis=1).mean())

    def _built(self, body: dict[str, Any]) -> Any:
        """The backbone with a head. It is one flat network: the tools for integers know no network in a network."""
        keras, layers = self._keras, self._keras.layers
        function = getattr(keras.applications, body["function"])
        weights = body["weights"]
        shape = (self._size, self._size, 3)
        try:
            base = function(
                include_top=False,
                pooling="avg",
                input_shape=shape,
                weights=None if weights == NO_WEIGHTS or self._integers else weights,
                **body["arguments"],
            )
        except (OSError, ValueError) as error:
            raise _weights_error(body, error) from error
        except Exception as error:
            if weights != IMAGENET:
                raise
            raise _weights_error(body, error) from error  # Keras raises a bare Exception for a failed download
        for layer in base.layers if self._from_scratch else ():
            if isinstance(layer, layers.BatchNormalization):
                layer.momentum = _MOMENTUM
        features = layers.Dropout(0.2, name="head_dropout")(base.output)
        activation = "sigmoid" if self._multi_label else "softmax"
        scores = layers.Dense(self._classes, activation=activation, name="head")(features)
        return keras.Model(base.input, scores)

    def _compile(self, rate: float, *, frozen: bool) -> None:
        """Set what learns: the head alone, or all layers. Statistics of batches stay as a large set has taught them,
        which few samples would spoil, unless there are none yet."""
        normalizing = self._keras.layers.BatchNormalization
        for place, layer in enumerate(self._model.layers):
            inner = getattr(layer, "layer", layer)  # training for integers wraps each of them
            keeps = isinstance(inner, normalizing) and not self._from_scratch
            layer.trainable = place >= self._base_layers or (not frozen and not keeps)
        loss = "binary_crossentropy" if self._multi_label else "categorical_crossentropy"
        self._model.compile(optimizer=self._keras.optimizers.Adam(rate), loss=loss)
        self._compiled = (rate, frozen)

    def _augmented(self) -> Any:
        """The samples in random order, each turned a little: mirrored, cut, brighter or darker."""
        tf, size = self._tf, self._size
        larger = int(np.ceil(size * _ROOM))
        counts, _ = class_counts(self._train.targets)
        weights = (counts / counts.mean()).astype(np.float32)

        def changed(image: Any, target: Any, weight: Any) -> tuple[Any, Any, Any]:
            image = tf.image.random_flip_left_right(tf.cast(image, tf.float32))
            image = tf.image.random_crop(tf.image.resize(image, (larger, larger)), (size, size, 3))
            image = tf.image.random_contrast(tf.image.random_brightness(image, 25.0), 0.85, 1.15)
            return (tf.clip_by_value(image, 0.0, 255.0) - self._mean) / self._std, target, weight

        dataset = tf.data.Dataset.from_tensor_slices((self._train.images, self._train.targets, weights))
        dataset = dataset.shuffle(len(weights)).map(changed, num_parallel_calls=tf.data.AUTOTUNE)
        return dataset.batch(self._batch).prefetch(tf.data.AUTOTUNE)

    def _predicted(self, images: NDArray[np.uint8]) -> NDArray[np.float64]:
        rows = [
            np.asarray(self._model.predict_on_batch(self._fed(images[begin : begin + self._batch])))
            for begin in range(0, len(images), self._batch)
        ]
        return np.concatenate(rows).astype(np.float64)

    def _fed(self, images: NDArray[np.uint8]) -> NDArray[np.float32]:
        return ((images.astype(np.float32) - self._mean) / self._std).astype(np.float32)

    def _file_answers(self, path: Path, images: NDArray[np.uint8]) -> NDArray[np.float64]:
        from ai_edge_litert.interpreter import Interpreter

        interpreter = Interpreter(model_path=str(path))
        (source,), (target,) = interpreter.get_input_details(), interpreter.get_output_details()
        interpreter.resize_tensor_input(source["index"], (1, self._size, self._size, 3))
        interpreter.allocate_tensors()
        rows = []
        for image in images:
            interpreter.set_tensor(source["index"], self._fed(image[np.newaxis]))
            interpreter.invoke()
            rows.append(interpreter.get_tensor(target["index"])[0].astype(np.float64))
        return np.stack(rows)


class _Part:
    """Samples that the parent has prepared: pixels, and rows of 0 and 1."""

    def __init__(self, folder: Path, name: str) -> None:
        self.images: NDArray[np.uint8] = np.load(folder / f"{name}_images.npy", mmap_mode="r", allow_pickle=False)
        self.targets: NDArray[np.float32] = np.load(folder / f"{name}_targets.npy", allow_pickle=False)


def _imported(integers: bool) -> tuple[Any, Any]:
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    try:
        import tensorflow as tf

        if integers:
            import tf_keras as keras
        else:
            import keras
    except ImportError as error:
        raise UsageError(f"Training needs TensorFlow and Keras ({error}).", f"Install them: {INSTALL}") from None
    return tf, keras


def _quantized(model: Any) -> Any:
    """The network with what rounding to int8 does to weights and activations, so that training can answer to it."""
    try:
        import tensorflow_model_optimization as optimization
    except ImportError as error:
        raise UsageError(
            f"Quantization-aware training needs tensorflow-model-optimization ({error}).", f"Install it: {INSTALL}"
        ) from None
    try:
        return optimization.quantization.keras.quantize_model(model)
    except (RuntimeError, ValueError) as error:
        first = str(error).strip().splitlines()[:1]
        raise ModelError(
            f"This backbone cannot be trained for integers: {''.join(first)}.", "Use a MobileNet V1 or V2."
        ) from error


def _weights_error(body: dict[str, Any], error: Exception) -> HastenError:
    first = "".join(str(error).strip().splitlines()[:1]).rstrip(".")
    if body["weights"] == NO_WEIGHTS:
        return ModelError(f"{body['name']} cannot be built: {first}.", "Use another size or width.")
    if body["weights"] == IMAGENET:
        return UsageError(
            f"The trained weights of {body['name']} cannot be loaded: {first}.",
            "Give them as a file: --weights FILE; or begin from random ones: --weights none.",
        )
    return UsageError(
        f"{body['weights']} cannot be used as the weights of {body['name']}: {first}.",
        "Give a file that Keras saved for this backbone without its top.",
    )


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        main()
