"""The files of a retraining: a model that gives out its features, and the model with the new head.

The head is of the type that the features have: float32, or int8 with a scale for each class. Features of uint8 become
int8 first, which changes no value, as uint8 layers have one scale for all classes; features of other types (int16,
float16) become float32. Everything behind the features that no other
output needs is left out, and so is metadata about the old classes.
"""

from __future__ import annotations

import zipfile
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hasten.core.errors import DataError
from hasten.model.build_bytes import ELEMENT_TYPES
from hasten.model.edit.file import text
from hasten.model.edit.graph import options
from hasten.model.edit.model import EditedModel
from hasten.model.metadata import (
    AXIS_LABELS,
    BUFFER_NAME,
    AssociatedFile,
    ModelMetadata,
    TensorMetadata,
    metadata_bytes,
    read_metadata,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from hasten.data.preprocess import Preprocess
    from hasten.model.edit.graph import EditedGraph
    from hasten.model.graph import Graph
    from hasten.retraining.ending import Ending
    from hasten.retraining.softmax import Head

    Floats = NDArray[np.float64]

FEATURES: Final = "features"
LABELS_FILE: Final = "labels.txt"
_LOWEST: Final = {"int8": -128, "uint8": 0}
# The scale that LOGISTIC and SOFTMAX are defined with; the zero point is the lowest number.
_PROBABILITY_SCALE: Final = 1 / 256
# A bias beyond it would leave an accumulator of 32 bits no room for the products.
_LARGEST_BIAS: Final = 2**30
# Logits beyond those of the training samples, as a share of their range: new samples are a little further out.
_MARGIN: Final = 0.05
# A class this far below the likeliest has less than a step of 1/256 of its probability.
_STEP: Final = 5.6
# The version of each operator that first took the type.
_VERSIONS: Final = {
    ("FULLY_CONNECTED", "float32"): 1,
    ("FULLY_CONNECTED", "int8"): 12,
    ("DEQUANTIZE", "int16"): 3,
    ("DEQUANTIZE", "float16"): 3,
}
_INT8_VERSION: Final = 2
_COLORS: Final = {"rgb": "rgb", "gray": "grayscale"}


@dataclass(frozen=True, slots=True, eq=False)
class NewHead:
    """A head with the names of its classes, and the range of its logits on the samples that it learned from."""

    head: Head
    classes: tuple[str, ...]
    """None where they have no names."""
    logits: tuple[float, float]
    """What a head of integers must be able to tell; beyond it logits are cut off."""


def telling_range(logits: Floats, *, multi_label: bool) -> tuple[float, float]:
    """The range of logits in which a prediction is decided: the finer its steps are, the fewer ties there are.

    Below it all other classes together have less than a step of probability; above it the likeliest has all the rest.
    """
    low, high = float(logits.min()), float(logits.max())
    if multi_label:
        return max(min(low, 0.0), -_STEP), min(max(high, 0.0), _STEP)
    sight = _STEP + np.log(logits.shape[1] - 1)
    second, first = np.sort(logits, axis=1)[:, -2:].T
    return max(low, float(first.min()) - sight), min(high, float(second.max()) + sight)


def backbone_bytes(graph: Graph, ending: Ending) -> bytes:
    """The model with its features as its only output, and nothing behind them; it says how it is fed, as before."""
    model = EditedModel.read(graph.path)
    edited = model.graphs[ending.subgraph]
    features = _features(edited, ending)
    edited.record.outputs = [features]
    for signature in edited.signatures():
        signature.outputs = [model.parts.schema.TensorMapT(name=FEATURES, tensorIndex=features)]
    model.clean()
    _describe(model, graph, (), -1, {})
    return model.to_bytes()


def model_with_head(graph: Graph, ending: Ending, new: NewHead, preprocess: Mapping[str, Preprocess]) -> bytes:
    """The model with a new head in place of the old one; other outputs stay. Labels and normalization are in it.

    `preprocess` says by the names of the input tensors how the samples were fed that the head has learned from.
    """
    model = EditedModel.read(graph.path)
    edited = model.graphs[ending.subgraph]
    wanted = edited.dtype(ending.output) if edited.dtype(ending.output) in _LOWEST else "float32"
    probabilities = _put_head(edited, _features(edited, ending), new)
    result = _converted(edited, probabilities, wanted)
    edited.tensor(result).name = edited.name(ending.output) or ending.name
    edited.tensor(ending.output).name = f"{edited.name(ending.output)}_before"
    _replace_output(edited, ending.output, result)
    scored = edited.outputs.index(result) if edited is model.main else -1
    model.clean()
    _describe(model, graph, new.classes, scored, preprocess)
    return model.to_bytes()


def with_labels(graph: Graph, classes: Sequence[str], preprocess: Mapping[str, Preprocess]) -> bytes:
    """A model whose first output tells these classes, with their names and its normalization inside."""
    model = EditedModel.read(graph.path)
    _describe(model, graph, classes, 0, preprocess)
    return model.to_bytes()


def _features(graph: EditedGraph, ending: Ending) -> int:
    """The features, averaged over their positions where they have some."""
    if not ending.pooled:
        return ending.features
    shape = graph.shape(ending.features)
    # Rows of a matrix are positions of one sample, as frames of a sound are; else the first dimension is the batch.
    axes = (0,) if len(shape) == 2 else tuple(range(1, len(shape) - 1))
    places = graph.add_constant(np.array(axes, np.int32), "pooling_axes")
    pooled = graph.add_tensor((1 if len(shape) == 2 else shape[0], shape[-1]), ending.features, "pooled_features")
    chosen = options("ReducerOptions", keepDims=len(shape) == 2)
    version = _version("MEAN", graph.dtype(ending.features))
    graph.insert("MEAN", [ending.features, places], [pooled], before=None, chosen=chosen, version=version)
    return pooled


def _put_head(graph: EditedGraph, features: int, new: NewHead) -> int:
    """Add the layer and what makes probabilities of its logits; the tensor that holds them."""
    if graph.dtype(features) == "uint8":
        known = graph.tensor(features).quantization
        features = _converted(graph, features, "int8", (known.scale[0], int(known.zeroPoint[0]) - 128))
    elif graph.dtype(features) not in ("int8", "float32"):
        features = _converted(graph, features, "float32")
    dtype, shape = graph.dtype(features), graph.shape(features)
    rows = (max(1, shape[0]) if len(shape) > 1 else 1, len(new.head.bias))
    logits = graph.add_tensor(rows, features, "logits")
    if dtype == "float32":
        weights = graph.add_constant(new.head.weights.astype(np.float32), "head/weights")
        bias = graph.add_constant(new.head.bias.astype(np.float32), "head/bias")
    else:
        weights, bias = _quantized_constants(graph, features, new.head)
        graph.tensor(logits).quantization = _logit_range(graph, new.logits)
    graph.insert(
        "FULLY_CONNECTED",
        [features, weights, bias],
        [logits],
        before=None,
        chosen=options("FullyConnectedOptions", keepNumDims=False),
        version=_version("FULLY_CONNECTED", dtype),
    )
    result = graph.add_tensor(rows, logits, "probabilities")
    if dtype != "float32":
        graph.tensor(result).quantization = _scales(graph, [_PROBABILITY_SCALE], [_LOWEST["int8"]])
    op = "LOGISTIC" if new.head.multi_label else "SOFTMAX"
    chosen = None if new.head.multi_label else options("SoftmaxOptions", beta=1.0)
    graph.insert(op, [logits], [result], before=None, chosen=chosen, version=_version(op, dtype))
    return result


def _quantized_constants(graph: EditedGraph, features: int, head: Head) -> tuple[int, int]:
    """Weights and bias of int8. The bias counts in the scale of the input times that of the weights, so that a
    class of tiny weights needs a scale that its bias fits."""
    step = float(graph.tensor(features).quantization.scale[0])
    least = max(float(np.abs(head.bias).max()) / (step * _LARGEST_BIAS), 1e-9)
    scales = np.maximum(np.abs(head.weights).max(axis=1) / 127, least)
    stored = np.clip(np.rint(head.weights / scales[:, np.newaxis]), -127, 127)
    weights = graph.add_constant(stored.astype(np.int8), "head/weights")
    graph.tensor(weights).quantization = _scales(graph, scales.tolist(), [0] * len(scales))
    counted = np.clip(np.rint(head.bias / (step * scales)), -_LARGEST_BIAS, _LARGEST_BIAS).astype(np.int32)
    bias = graph.add_constant(counted, "head/bias")
    graph.tensor(bias).quantization = _scales(graph, (step * scales).tolist(), [0] * len(scales))
    return weights, bias


def _logit_range(graph: EditedGraph, logits: tuple[float, float]) -> Any:
    """The scale of the logits: a little more than those of the training samples; 0 is a number of it."""
    room = _MARGIN * (logits[1] - logits[0])
    low, high = min(0.0, logits[0] - room), max(0.0, logits[1] + room)
    scale = max((high - low) / 255, 1e-6)
    return _scales(graph, [scale], [int(np.clip(round(-128 - low / scale), -128, 127))])


def _scales(graph: EditedGraph, scales: list[float], zero_points: list[int]) -> Any:
    return graph.parts.schema.QuantizationParametersT(scale=scales, zeroPoint=zero_points, quantizedDimension=0)


def _converted(graph: EditedGraph, tensor: int, dtype: str, known: tuple[float, int] | None = None) -> int:
    """The tensor in another type; integers by a scale and zero point that are known, or as those of probabilities."""
    own = graph.dtype(tensor)
    if own == dtype:
        return tensor
    made = graph.add_tensor(graph.shape(tensor), tensor, f"{graph.name(tensor)}_{dtype}")
    graph.tensor(made).type = ELEMENT_TYPES.index(dtype)
    op = "DEQUANTIZE" if dtype == "float32" else "QUANTIZE"
    scale, zero = known or (_PROBABILITY_SCALE, _LOWEST.get(dtype, 0))
    graph.tensor(made).quantization = None if dtype == "float32" else _scales(graph, [scale], [zero])
    chosen = options("DequantizeOptions" if op == "DEQUANTIZE" else "QuantizeOptions")
    graph.insert(op, [tensor], [made], before=None, chosen=chosen, version=_version(op, own))
    return made


def _version(op: str, dtype: str) -> int:
    return _VERSIONS.get((op, dtype), _INT8_VERSION if dtype == "int8" else 1)


def _replace_output(graph: EditedGraph, old: int, new: int) -> None:
    graph.record.outputs = [new if index == old else index for index in graph.outputs]
    for signature in graph.signatures():
        for entry in signature.outputs or []:
            if int(entry.tensorIndex) == old:
                entry.tensorIndex = new


def _labels_entry(classes: Sequence[str]) -> tuple[zipfile.ZipInfo, bytes]:
    """The file of labels, a line for each class; its date is fixed, so that equal heads give equal bytes."""
    for name in classes:
        if "\n" in name or "\r" in name:
            raise DataError(f"The class {name!r} has a line break in its name.", "Rename it.")
    return zipfile.ZipInfo(LABELS_FILE), ("\n".join(classes) + "\n").encode()


def _describe(
    model: EditedModel, graph: Graph, classes: Sequence[str], scored: int, preprocess: Mapping[str, Preprocess]
) -> None:
    """Say how the main graph is fed and what the classes of the output `scored` are called, in place of all that was
    said before."""
    model.files = (_labels_entry(classes),) if classes else ()
    schema, kept = model.parts.schema, []
    for entry in model.record.metadata or []:
        if text(entry.name) == BUFFER_NAME:
            model.record.buffers[int(entry.buffer)].data = None
        else:
            kept.append(entry)
    known = _known_metadata(graph)
    if known or classes or preprocess:
        names = [tensor.name for tensor in graph.inputs]
        inputs = tuple(_input_metadata(name, known.get(name), preprocess.get(name)) for name in names)
        labels = (AssociatedFile(LABELS_FILE, AXIS_LABELS),) if classes else ()
        outputs = tuple(
            TensorMetadata(tensor=model.main.name(index), files=labels if place == scored else ())
            for place, index in enumerate(model.main.outputs)
        )
        content = metadata_bytes(ModelMetadata(inputs, outputs), name=graph.path.stem)
        buffer = model.parts.add_buffer(np.frombuffer(content, np.uint8))
        kept.append(schema.MetadataT(name=BUFFER_NAME, buffer=buffer))
    model.record.metadata = kept or None


def _known_metadata(graph: Graph) -> dict[str, TensorMetadata]:
    found = read_metadata(graph)
    return {} if found is None else {entry.tensor: entry for entry in found.inputs}


def _input_metadata(name: str, known: TensorMetadata | None, preprocess: Preprocess | None) -> TensorMetadata:
    """How the features were fed: that is how the new model must be."""
    said = replace(known, files=(), tensor=name) if known is not None else TensorMetadata(tensor=name)
    if preprocess is None:
        return said
    color = _COLORS.get(preprocess.channels or "")
    if color is not None:
        said = replace(said, color_space=color)
    if preprocess.mean is not None and preprocess.std is not None:
        said = replace(said, mean=preprocess.mean, std=preprocess.std)
    return said
