"""Keeps the biases of channels whose weights are next to nothing.

A quantizer scales the weights of each channel by the largest of them, and its bias by that scale times the input's.
Where training or pruning has emptied a channel, the bias in such units is beyond 32 bits and is cut off, or the scale
is 0, with which XNNPACK does not take the layer at all. What the channel gives is its bias, so that this loses all of
it. Its weights are as good in a larger scale.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hasten.variants.bias_correction import LARGEST_BIAS, int8_layers, own_buffer, real_values

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hasten.variants.bias_correction import Layer

    Floats = NDArray[np.float64]

# In how many steps a bias is kept: fine enough for the weights beside it, and corrections of it have room.
_STEPS: Final = 2.0**26


def keep_biases(original: Any, quantized: Any, subgraph: int) -> int:
    """Give channels of a model quantized to int8 a scale that their bias fits, in place; returns how many."""
    pairs = int8_layers(original, quantized, subgraph)
    return sum(_mended(original, source, quantized, layer, subgraph) for layer, source in pairs)


def _mended(original: Any, source: Layer, quantized: Any, layer: Layer, subgraph: int) -> int:
    tensors = quantized.subgraphs[subgraph].tensors
    weights, bias = tensors[layer.weights], tensors[layer.bias]
    biases = real_values(original, subgraph, source.bias).ravel()
    scales, of_input = np.asarray(weights.quantization.scale), float(tensors[layer.input].quantization.scale[0])
    if len(scales) != len(biases) or not np.isfinite(biases).all():
        return 0  # one scale for all channels, or no bias to keep
    lost = (scales <= 0) | (np.abs(biases) > LARGEST_BIAS * of_input * scales.astype(np.float64))
    if not lost.any():
        return 0
    scales = np.where(lost, _fitting(biases, scales, of_input), scales)
    axis = int(weights.quantization.quantizedDimension)
    exact = np.moveaxis(real_values(original, subgraph, source.weights), axis, -1)
    stored = np.moveaxis(_stored(quantized, weights, np.int8), axis, -1).copy()
    stored[..., lost] = np.clip(np.rint(exact[..., lost] / scales[lost]), -127, 127).astype(np.int8)
    kept = _stored(quantized, bias, np.int32).ravel().copy()
    kept[lost] = np.rint(biases[lost] / (of_input * scales[lost])).astype(np.int32)
    own_buffer(quantized, weights).data = np.ascontiguousarray(np.moveaxis(stored, -1, axis)).view(np.uint8).ravel()
    own_buffer(quantized, bias).data = kept.view(np.uint8)
    weights.quantization.scale = scales.astype(np.float32)
    bias.quantization.scale = (of_input * scales).astype(np.float32)
    return int(lost.sum())


def _fitting(biases: Floats, scales: NDArray[Any], of_input: float) -> Floats:
    """Scales that the biases fit, as the file stores them; of a channel without either, the smallest of the others."""
    smallest = scales[scales > 0].min(initial=1.0)
    wanted = np.where(biases == 0, smallest, np.abs(biases) / (of_input * _STEPS))
    found: Floats = np.maximum(scales, wanted).astype(np.float32).astype(np.float64)
    return found


def _stored(model: Any, tensor: Any, dtype: Any) -> NDArray[Any]:
    found: NDArray[Any] = np.frombuffer(bytes(model.buffers[tensor.buffer].data), dtype).reshape(tensor.shape)
    return found
