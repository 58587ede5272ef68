"""Samples of a model's inputs, checked against its signature before the quantizer sees them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from hasten.core.errors import DataError, ModelError
from hasten.core.remark import remark
from hasten.variants.recipes import Ranges, Rounding
from hasten.variants.words import FIRST_SAMPLE, ONE_SAMPLE

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from hasten.core.remark import Remark
    from hasten.model.graph import Graph, Signature, Subgraph, Tensor
    from hasten.variants.recipes import Recipe

    Sample = Mapping[str, np.ndarray[Any, Any]]

# What the quantizer's moving average keeps of its value at each further sample.
FORGETTING = 0.95
# The weight of the first sample from which on it is worth a note: that of 32 samples.
HEAVY = 0.2
# A matrix of half a gigabyte, inverted in a minute.
_WIDEST = 8192


@dataclass(frozen=True, slots=True)
class Calibration:
    """The ranges of a model's activations, found once and good for every static recipe that takes them this way."""

    model_sha256: str
    signature: str
    ranges: Ranges
    samples: int
    values: Mapping[str, Any]
    means: Mapping[Any, Any] = field(default_factory=dict)
    """The means of activations that biases are corrected by."""
    inputs: Sequence[Mapping[str, Any]] = ()
    """The samples that these means are of."""

    def check(self, graph: Graph, signature: str, recipe: Recipe) -> None:
        """Raise where it is of another model, another signature or another way to take ranges."""
        if (self.model_sha256, self.signature) != (graph.sha256, signature):
            raise DataError(f"The calibration is not of {graph.path.name}.", "Calibrate this model and signature.")
        if self.ranges is not recipe.ranges:
            message = f"{recipe.name} needs ranges by {recipe.ranges.value}; the calibration took them in another way."
            raise DataError(message, "Calibrate again for this recipe.")


def checked_samples(graph: Graph, signature: Signature, samples: Iterable[Sample] | None) -> list[dict[str, Any]]:
    """The samples as the quantizer needs them: a list, every input by name, in its type and shape."""
    tensors = {name: graph.subgraphs[signature.subgraph].tensors[index] for name, index in signature.inputs.items()}
    checked = [_checked(number, sample, tensors) for number, sample in enumerate(samples or [])]
    if not checked:
        hint = "Give about 100 samples of the model's inputs."
        raise DataError("This recipe needs calibration data.", hint)
    return checked


def refuse_large_layers(subgraph: Subgraph, recipe: Recipe) -> None:
    """GPTQ holds and inverts a square matrix of what a dense layer reads."""
    dense = [node for node in subgraph.nodes if node.op == "FULLY_CONNECTED"]
    widest = max((subgraph.tensors[node.inputs[1]].shape[-1] for node in dense), default=0)
    if recipe.rounding is Rounding.GPTQ and widest > _WIDEST:
        message = f"{recipe.name} takes dense layers of at most {_WIDEST} inputs, and this model has one of {widest}."
        raise ModelError(message, "Use weight_only_int4.")


def unread_results(subgraph: Subgraph) -> list[int]:
    """Results of loops and branches that nothing reads: the engine may give them no memory, and calibration would fail
    on them (every recurrent layer of Keras has one)."""
    read = {*subgraph.outputs, *(index for node in subgraph.nodes for index in node.inputs)}
    callers = [node for node in subgraph.nodes if node.called_subgraphs]
    return [index for node in callers for index in node.outputs if index not in read]


def few_samples_note(recipe: Recipe, count: int) -> list[Remark]:
    """A remark where the first sample decides: a moving average starts from it."""
    weight = FORGETTING ** (count - 1)
    if not recipe.is_static or recipe.ranges is not Ranges.MOVING_AVERAGE or weight < HEAVY:
        return []
    if count == 1:
        return [remark(ONE_SAMPLE)]
    return [remark(FIRST_SAMPLE, samples=count, weight=weight)]


def _checked(number: int, sample: Sample, tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    if set(sample) != set(tensors):
        message = f"Calibration sample {number} has the inputs {', '.join(sorted(sample)) or 'none'}."
        raise DataError(message, f"The model takes {', '.join(sorted(tensors))}.")
    return {name: _fitted(number, name, sample[name], tensor) for name, tensor in tensors.items()}


def _fitted(number: int, name: str, values: np.ndarray[Any, Any], tensor: Tensor) -> np.ndarray[Any, Any]:
    array = np.asarray(values)
    if array.dtype != tensor.dtype:
        if array.dtype.kind not in "iuf" or tensor.dtype not in ("float32", "int32", "int64"):
            raise DataError(
                f"Calibration sample {number} has {name!r} as {array.dtype}.", f"It must be {tensor.dtype}."
            )
        array = array.astype(tensor.dtype)
    expected = tensor.shape_signature
    if array.size == 1 and not tensor.shape and not tensor.is_unranked:
        array = array.reshape(())  # a scalar; on its way between processes it may have become a row of one
    fits = len(array.shape) == len(expected) and all(
        size in (-1, given) for size, given in zip(expected, array.shape, strict=True)
    )
    if not fits and not tensor.is_unranked:
        message = f"Calibration sample {number} has {name!r} in the shape {list(array.shape)}."
        raise DataError(message, f"It must be {list(expected)}.")
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise DataError(f"Calibration sample {number} has values in {name!r} that are not finite.", "Check the data.")
    return np.asarray(array, order="C")  # unlike ascontiguousarray, it leaves a scalar one
