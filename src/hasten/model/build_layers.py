"""Operators with weights: convolutions and fully connected layers, with seeded random weights, float32 or int8."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from hasten.core.errors import UsageError
from hasten.model.build_bytes import Quantization
from hasten.model.build_graph import INT8_MAX, GraphBuilder, Spec, Value, positive_range, signed_range

if TYPE_CHECKING:
    from numpy.typing import NDArray

PADDINGS = {"same": 0, "valid": 1}
ACTIVATIONS = {None: 0, "relu": 1, "relu_n1_to_1": 2, "relu6": 3}
BIAS_RMS = 0.1
RELU6_LARGEST = 6.0
RELU_LARGEST_IN_RMS = 5.0
# The oldest version of each operator that defines int8 with a scale for each output channel.
INT8_VERSIONS = {"CONV_2D": 3, "DEPTHWISE_CONV_2D": 3, "FULLY_CONNECTED": 12}


@dataclass(frozen=True, slots=True)
class _Kernel:
    """The shape of a layer's weights, along which axis its output channels lie, and how many inputs feed an output."""

    shape: tuple[int, ...]
    channel_axis: int
    fan_in: int


def activation_code(name: str | None) -> int:
    """Return the schema's number of a fused activation."""
    if name not in ACTIVATIONS:
        raise UsageError(
            f"There is no fused activation {name!r}.", f"Choose among {', '.join(filter(None, ACTIVATIONS))}."
        )
    return ACTIVATIONS[name]


def padding_code(name: str) -> int:
    """Return the schema's number of a padding."""
    if name not in PADDINGS:
        raise UsageError(f"There is no padding {name!r}.", f"Choose among {', '.join(PADDINGS)}.")
    return PADDINGS[name]


def window_count(size: int, kernel: int, stride: int, padding: str) -> int:
    """Return how many places a sliding window takes along one side."""
    count = -(-size // stride) if padding == "same" else (size - kernel) // stride + 1
    if count < 1:
        raise UsageError(f"A window of {kernel} does not fit into {size}.", "Use padding='same' or a smaller kernel.")
    return count


def windowed_shape(x: Spec, kernel: int, stride: int, padding: str, channels: int) -> tuple[int, ...]:
    """Return the output shape of a convolution or pooling of an NHWC tensor."""
    if len(x.shape) != 4:
        raise UsageError(f"A convolution or pooling needs 4 dimensions, not {x.shape}.", "Use reshape() before it.")
    batch, height, width, _ = x.shape
    sides = (window_count(side, kernel, stride, padding) for side in (height, width))
    return (batch, *sides, channels)


def activated_range(rms: float, activation: str | None) -> Quantization:
    """Return the int8 quantization that suits what an activation lets through."""
    if activation == "relu6":
        return positive_range(RELU6_LARGEST)
    if activation == "relu":
        return positive_range(RELU_LARGEST_IN_RMS * rms)
    return signed_range(rms)


class LayerBuilder(GraphBuilder):
    """Adds layers with weights to a graph."""

    def conv2d(
        self,
        x: Value,
        filters: int,
        kernel: int = 1,
        stride: int = 1,
        *,
        padding: str = "same",
        activation: str | None = None,
    ) -> Value:
        """Convolve an NHWC value."""
        shape = windowed_shape(x, kernel, stride, padding, filters)
        channels = x.shape[3]
        weights = _Kernel((filters, kernel, kernel, channels), 0, kernel * kernel * channels)
        options = {"padding": padding_code(padding), "strideW": stride, "strideH": stride}
        return self._layer("CONV_2D", "Conv2DOptions", x, shape, weights, activation, options)

    def depthwise_conv2d(
        self,
        x: Value,
        kernel: int = 3,
        stride: int = 1,
        *,
        multiplier: int = 1,
        dilation: int = 1,
        padding: str = "same",
        activation: str | None = None,
    ) -> Value:
        """Convolve each channel of an NHWC value on its own; `dilation` spreads the taps."""
        channels = x.shape[-1] * multiplier
        shape = windowed_shape(x, (kernel - 1) * dilation + 1, stride, padding, channels)
        weights = _Kernel((1, kernel, kernel, channels), 3, kernel * kernel)
        options = {
            "padding": padding_code(padding),
            "strideW": stride,
            "strideH": stride,
            "depthMultiplier": multiplier,
            "dilationWFactor": dilation,
            "dilationHFactor": dilation,
        }
        return self._layer("DEPTHWISE_CONV_2D", "DepthwiseConv2DOptions", x, shape, weights, activation, options)

    def fully_connected(self, x: Value, units: int, *, activation: str | None = None) -> Value:
        """Multiply the last dimension by a matrix; the dimensions before it stay."""
        weights = _Kernel((units, x.shape[-1]), 0, x.shape[-1])
        options = {"keepNumDims": True}
        shape = (*x.shape[:-1], units)
        return self._layer("FULLY_CONNECTED", "FullyConnectedOptions", x, shape, weights, activation, options)

    def _layer(
        self,
        code: str,
        options_type: str,
        x: Value,
        shape: tuple[int, ...],
        kernel: _Kernel,
        activation: str | None,
        options: dict[str, Any],
    ) -> Value:
        options["fusedActivationFunction"] = activation_code(activation)
        # He's rule: a rectifier throws half of the power away, so the weights before it are larger by √2.
        gain = 1.0 if activation is None else 2.0
        real = self._random.standard_normal(kernel.shape, dtype=np.float32)
        real *= np.float32((gain / kernel.fan_in) ** 0.5 / x.rms)
        bias = self._random.standard_normal(kernel.shape[kernel.channel_axis], dtype=np.float32) * np.float32(BIAS_RMS)
        if x.dtype == "float32":
            constants = [self._float_weights(real, kernel.channel_axis), self.constant(bias)]
            output = Spec(shape, "float32", None, x.dynamic_batch)
        elif x.dtype == "int8" and x.quantization is not None:
            constants = self._quantized_constants(real, bias, kernel.channel_axis, x.quantization.scale[0])
            output = Spec(shape, "int8", activated_range(1.0, activation), x.dynamic_batch)
        else:
            raise UsageError(f"{code} takes float32 or quantized int8, not {x.dtype}.", "Give the input a scale.")
        # Dilation came with the second version of DEPTHWISE_CONV_2D.
        plain_version = 2 if options.get("dilationWFactor", 1) > 1 else 1
        version = INT8_VERSIONS[code] if constants[0].dtype == "int8" else plain_version
        (value,) = self.operator(code, [x, *constants], [output], version=version, options_type=options_type, **options)
        return value

    def _float_weights(self, real: NDArray[np.float32], axis: int) -> Value:
        """The weights of a layer of float32 values, whose output channels lie along `axis`."""
        return self.constant(real)

    def _quantized_constants(
        self, real: NDArray[np.float32], bias: NDArray[np.float32], axis: int, input_scale: float
    ) -> list[Value]:
        # The accumulator of a channel counts in input scale times weight scale, and the bias is added to it as it is.
        scales = _channel_scales(real, axis).reshape(-1) * np.float32(input_scale)
        quantization = Quantization(tuple(scales.tolist()), (0,) * scales.size)
        stored_bias = np.rint(bias / scales).astype(np.int32)
        return [self._int8_weights(real, axis), self.constant(stored_bias, quantization)]

    def _int8_weights(self, real: NDArray[np.float32], axis: int) -> Value:
        scales = _channel_scales(real, axis)
        quantization = Quantization(tuple(scales.reshape(-1).tolist()), (0,) * scales.size, axis)
        return self.constant(np.rint(real / scales).astype(np.int8), quantization)


def _channel_scales(real: NDArray[np.float32], axis: int) -> NDArray[np.float32]:
    """Return the int8 scale of each output channel, in a shape that broadcasts against the weights."""
    others = tuple(other for other in range(real.ndim) if other != axis)
    scales: NDArray[np.float32] = np.abs(real).max(axis=others, keepdims=True) / np.float32(INT8_MAX)
    return scales
