"""The arithmetic of each operator: one small formula per kind, and one table that names them all.

Layouts of weights are those of the TensorFlow Lite kernels: CONV_2D [out, height, width, in / groups],
DEPTHWISE_CONV_2D [1, height, width, out], TRANSPOSE_CONV [out, height, width, in], FULLY_CONNECTED [out, in],
CONV_3D [depth, height, width, in / groups, out], CONV_3D_TRANSPOSE [depth, height, width, out, in].
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import prod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hasten.model.cost_view import NodeView

Work = tuple[int, int]
"""MACs and flops."""
Formula = Callable[["NodeView"], Work]


def _macs(count: int) -> Work:
    return count, 2 * count


def _convolution(view: NodeView) -> Work:
    # The weights' last axis already is in / groups, and dilation spreads the taps without adding any.
    _, height, width, channels = view.shape(view.input(1), rank=4)
    return _macs(view.elements(view.output()) * height * width * channels)


def _depthwise_convolution(view: NodeView) -> Work:
    _, height, width, _ = view.shape(view.input(1), rank=4)
    return _macs(view.elements(view.output()) * height * width)


def _transposed_convolution(view: NodeView) -> Work:
    # Each input element is spread over a window of each output channel; input 0 is the output's shape.
    out_channels, height, width, _ = view.shape(view.input(1), rank=4)
    return _macs(view.elements(view.input(2)) * height * width * out_channels)


def _convolution_3d(view: NodeView) -> Work:
    window = view.shape(view.input(1), rank=5)
    return _macs(view.elements(view.output()) * prod(window[:4]))


def _transposed_convolution_3d(view: NodeView) -> Work:
    window = view.shape(view.input(1), rank=5)
    return _macs(view.elements(view.input(2)) * prod(window[:4]))


def _fully_connected(view: NodeView) -> Work:
    return _macs(view.elements(view.output()) * view.dimension(view.input(1), -1))


def _batch_matmul(view: NodeView) -> Work:
    inner_axis = -2 if view.node.options.get("adj_x") else -1
    return _macs(view.elements(view.output()) * view.dimension(view.input(0), inner_axis))


def _steps(view: NodeView) -> int:
    """Batch times time steps: everything but the features."""
    return prod(view.shape(view.input(0))[:-1])


def _weights_once_a_step(weights: Iterable[int]) -> Formula:
    """A recurrent cell uses each weight once a step. Optional ones (peepholes, projection) count where they are."""
    positions = tuple(weights)

    def formula(view: NodeView) -> Work:
        view.input(positions[1])  # every kind of cell has this one; without it the node is not what it says
        present = [view.input(position) for position in positions if view.has_input(position)]
        return _macs(_steps(view) * sum(view.elements(tensor) for tensor in present))

    return formula


# Positions of weights: input to gates 1-4, recurrent 5-8, peepholes 9-11, projection 16.
_LSTM_WEIGHTS = (*range(1, 12), 16)
_full_lstm = _weights_once_a_step(_LSTM_WEIGHTS)


def _lstm(view: NodeView) -> Work:
    if view.node.options.get("kernel_type") != "BASIC":
        return _full_lstm(view)
    # One matrix for all four gates, over input and last output side by side.
    return _macs(_steps(view) * view.elements(view.input(2)))


# The same for each direction, the backward one shifted by 17; weights of the auxiliary input are 40-47.
_BIDIRECTIONAL_LSTM_WEIGHTS = (*_LSTM_WEIGHTS, *(position + 17 for position in _LSTM_WEIGHTS), *range(40, 48))


def _svdf(view: NodeView) -> Work:
    # Features of the newest frame, then a filter over the memory of each.
    filters, features = view.shape(view.input(1), rank=2)
    _, memory = view.shape(view.input(2), rank=2)
    batch = view.dimension(view.input(0), 0)
    return _macs(batch * filters * (features + memory))


def _pool(operations: int) -> Formula:
    def formula(view: NodeView) -> Work:
        window = view.number("filter_height") * view.number("filter_width")
        return 0, view.elements(view.output()) * window * operations

    return formula


def _for_each_output(operations: int) -> Formula:
    return lambda view: (0, view.elements(view.output()) * operations)


def _for_each_input(operations: int) -> Formula:
    return lambda view: (0, view.elements(view.input(0)) * operations)


def _gelu(view: NodeView) -> Work:
    # x/√2, erf, +1, ·x, ·½; or by tanh: x·x·x·c + x, ·c, tanh, +1, ·x, ·½
    operations = 9 if view.node.options.get("approximate") else 5
    return 0, view.elements(view.output()) * operations


def _add_n(view: NodeView) -> Work:
    return 0, view.elements(view.output()) * max(len(view.node.inputs) - 1, 0)


def _moves(view: NodeView) -> Work:
    return 0, 0


_OPERATIONS_OF_ELEMENTWISE = {
    **dict.fromkeys(("ADD", "SUB", "MUL", "DIV", "MAXIMUM", "MINIMUM", "POW", "FLOOR_DIV", "FLOOR_MOD", "ATAN2"), 1),
    **dict.fromkeys(("ABS", "NEG", "SIGN", "SQUARE", "SQRT", "EXP", "LOG", "SIN", "COS", "TANH"), 1),
    **dict.fromkeys(("FLOOR", "CEIL", "ROUND", "RELU", "SELECT", "SELECT_V2", "CUMSUM", "COMPLEX_ABS"), 1),
    **dict.fromkeys(("EQUAL", "NOT_EQUAL", "LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL"), 1),
    **dict.fromkeys(("LOGICAL_AND", "LOGICAL_OR", "LOGICAL_NOT", "BITWISE_XOR", "RIGHT_SHIFT"), 1),
    **dict.fromkeys(("RELU6", "RELU_N1_TO_1", "RELU_0_TO_1"), 2),  # two bounds
    "RSQRT": 2,  # square root, divide
    "SQUARED_DIFFERENCE": 2,
    "PRELU": 2,  # compare, multiply
    "LEAKY_RELU": 2,
    "ELU": 3,  # compare, exp, subtract
    "L2_NORMALIZATION": 3,  # square, add, multiply
    "LOGISTIC": 4,  # negate, exp, add, divide
    "HARD_SWISH": 5,  # add, two bounds, multiply twice
    "SOFTMAX": 5,  # maximum, subtract, exp, add, divide
    "LOG_SOFTMAX": 5,  # maximum, subtract, exp, add, subtract the logarithm
    "RESIZE_BILINEAR": 7,  # four multiplications, three additions
}

_REDUCTIONS = (
    "MEAN",
    "SUM",
    "REDUCE_MAX",
    "REDUCE_MIN",
    "REDUCE_PROD",
    "REDUCE_ANY",
    "REDUCE_ALL",
    "ARG_MAX",
    "ARG_MIN",
    "SEGMENT_SUM",
    "UNSORTED_SEGMENT_SUM",
    "UNSORTED_SEGMENT_PROD",
    "UNSORTED_SEGMENT_MAX",
    "UNSORTED_SEGMENT_MIN",
)
_MOVES = (
    "RESHAPE",
    "SQUEEZE",
    "EXPAND_DIMS",
    "BITCAST",
    "SHAPE",
    "RANK",
    "TRANSPOSE",
    "CONCATENATION",
    "SPLIT",
    "SPLIT_V",
    "SLICE",
    "STRIDED_SLICE",
    "PAD",
    "PADV2",
    "MIRROR_PAD",
    "GATHER",
    "GATHER_ND",
    "SCATTER_ND",
    "PACK",
    "UNPACK",
    "CAST",
    "QUANTIZE",
    "DEQUANTIZE",
    "FAKE_QUANT",
    "DEPTH_TO_SPACE",
    "SPACE_TO_DEPTH",
    "BATCH_TO_SPACE_ND",
    "SPACE_TO_BATCH_ND",
    "TILE",
    "BROADCAST_TO",
    "BROADCAST_ARGS",
    "REVERSE_V2",
    "REVERSE_SEQUENCE",
    "FILL",
    "ZEROS_LIKE",
    "RANGE",
    "ONE_HOT",
    "RESIZE_NEAREST_NEIGHBOR",
    "EMBEDDING_LOOKUP",
    "DYNAMIC_UPDATE_SLICE",
    "MATRIX_DIAG",
    "MATRIX_SET_DIAG",
    "REAL",
    "IMAG",
    "DENSIFY",
    "SPARSE_TO_DENSE",
    "VAR_HANDLE",
    "READ_VARIABLE",
    "ASSIGN_VARIABLE",
)

FORMULAS: dict[str, Formula] = {
    "CONV_2D": _convolution,
    "DEPTHWISE_CONV_2D": _depthwise_convolution,
    "TRANSPOSE_CONV": _transposed_convolution,
    "CONV_3D": _convolution_3d,
    "CONV_3D_TRANSPOSE": _transposed_convolution_3d,
    "FULLY_CONNECTED": _fully_connected,
    "BATCH_MATMUL": _batch_matmul,
    "LSTM": _lstm,
    "UNIDIRECTIONAL_SEQUENCE_LSTM": _full_lstm,
    "BIDIRECTIONAL_SEQUENCE_LSTM": _weights_once_a_step(_BIDIRECTIONAL_LSTM_WEIGHTS),
    "RNN": _weights_once_a_step((1, 2)),
    "UNIDIRECTIONAL_SEQUENCE_RNN": _weights_once_a_step((1, 2)),
    "BIDIRECTIONAL_SEQUENCE_RNN": _weights_once_a_step((1, 2, 5, 6, 10, 11)),
    "SVDF": _svdf,
    "AVERAGE_POOL_2D": _pool(1),
    "MAX_POOL_2D": _pool(1),
    "L2_POOL_2D": _pool(2),
    "GELU": _gelu,
    "ADD_N": _add_n,
    **{op: _for_each_output(operations) for op, operations in _OPERATIONS_OF_ELEMENTWISE.items()},
    **{op: _for_each_input(1) for op in _REDUCTIONS},
    **dict.fromkeys(_MOVES, _moves),
}
