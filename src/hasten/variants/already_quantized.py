"""Whether a model is already quantized or sparsely encoded, by its weights and activations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hasten.core.errors import ModelError
from hasten.core.remark import remark
from hasten.model.graph import BITS_OF_DTYPE, FLOAT_DTYPES
from hasten.variants.words import INTEGER_WEIGHTS

if TYPE_CHECKING:
    from hasten.core.remark import Remark
    from hasten.model.graph import Graph

# The share of weight bytes in integers from which on a model counts as quantized.
MOSTLY = 0.5
_WEIGHT_BITS = (2, 4, 8, 16)


class AlreadyQuantizedError(ModelError):
    """The model is quantized already, so that there is no float original to make a variant of."""


def weight_bytes_by_dtype(graph: Graph) -> dict[str, int]:
    """Bytes of learned numbers by their type, the most frequent first; shared constants count once.

    Biases in int32 are left out: they follow from the weights and tell nothing.
    """
    spans: dict[tuple[int | None, int], str] = {}
    for subgraph in graph.subgraphs:
        for tensor in subgraph.tensors:
            if tensor.is_weight and (
                tensor.dtype in FLOAT_DTYPES or BITS_OF_DTYPE.get(tensor.dtype, 0) in _WEIGHT_BITS
            ):
                spans[tensor.buffer_offset, tensor.buffer_bytes] = tensor.dtype
    totals: dict[str, int] = {}
    for (_, length), dtype in spans.items():
        totals[dtype] = totals.get(dtype, 0) + length
    return dict(sorted(totals.items(), key=lambda item: -item[1]))


def integer_share(graph: Graph) -> float:
    """The share of the weights, by their number, that is in integers of at most 8 bits."""
    counts = {dtype: size * 8 / BITS_OF_DTYPE[dtype] for dtype, size in weight_bytes_by_dtype(graph).items()}
    total = sum(counts.values())
    small = [dtype for dtype in counts if dtype not in FLOAT_DTYPES and BITS_OF_DTYPE[dtype] <= 8]
    return sum(counts[dtype] for dtype in small) / total if total else 0.0


def refuse_quantized(graph: Graph) -> None:
    """Raise where the model is quantized already, and say in which way."""
    sizes = weight_bytes_by_dtype(graph)
    integers = {dtype: size for dtype, size in sizes.items() if dtype not in FLOAT_DTYPES}
    numbers = graph.number_format()
    mostly_float = sum(integers.values()) < MOSTLY * sum(sizes.values())
    if not integers or (mostly_float and not numbers.computes_in_integers):
        return
    how = numbers.describe()
    if numbers.has_integer_weights:
        how = f"its weights are {next(iter(integers))}, although inputs and outputs are float"
    message = f"{graph.path.name} is already quantized: {how}."
    raise AlreadyQuantizedError(message, "Give the float model that it was made from.")


def refuse_sparse(graph: Graph) -> None:
    """Raise where weights are stored without their zeros, which the quantizer cannot read."""
    if any(tensor.is_sparse for subgraph in graph.subgraphs for tensor in subgraph.tensors):
        message = f"{graph.path.name} stores weights in a sparse encoding, which the quantizer cannot read."
        raise ModelError(message, "Give the model without that encoding.")


def quantized_in_part(graph: Graph) -> Remark | None:
    """A remark where some weights are integers, but too few to call the model quantized."""
    integers = {dtype for dtype in weight_bytes_by_dtype(graph) if dtype not in FLOAT_DTYPES}
    if not integers:
        return None
    return remark(INTEGER_WEIGHTS, types=sorted(integers))
