"""XNNPACK's kernels by name: which operators of the graph each one can come from, and which come along with others.

The names are those of LiteRT 2.3's XNNPACK ("Fully Connected (NC, F32) GEMM"): what stands before the parenthesis tells
the kind. A 1x1 convolution runs as "Fully Connected", a fused activation as a "Clamp" of its own, and so on. Kinds are
the same on Arm and x86 (XNNPACK's src/xnnpack/operator-type-defs.inc lists them); types and implementations differ.
Only Arm has kernels whose input is packed first ("Pack LH", for those of KleidiAI with SME).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

_MATRIX: Final = ("Fully Connected", "Dynamic Fully Connected", "Batch Matrix Multiply")
_SHAPE: Final = ("Static Reshape", "Static Expand Dims", "Fuse Dims", "Split Dims", "Copy")
_PACKED_INPUT: Final = "Pack LH"
_UNARY: Final = ("Unary Elementwise", "Invalid Unary Op")
_BINARY: Final = ("Binary Elementwise", "Invalid Binary Op")

# operator → kinds of the kernel that does its work
MAIN_KERNELS: Final[dict[str, tuple[str, ...]]] = {
    "CONV_2D": ("Convolution", *_MATRIX),
    "DEPTHWISE_CONV_2D": ("Convolution",),
    "FULLY_CONNECTED": _MATRIX,
    "BATCH_MATMUL": _MATRIX,
    "TRANSPOSE_CONV": ("Deconvolution",),
    "ADD": ("Add", *_BINARY),
    "SUB": ("Subtract", *_BINARY),
    "MUL": ("Multiply", *_BINARY),
    "DIV": ("Divide", *_BINARY),
    "MAXIMUM": ("Maximum", *_BINARY),
    "MINIMUM": ("Minimum", *_BINARY),
    "SQUARED_DIFFERENCE": ("Squared Difference", *_BINARY),
    "POW": ("Power", *_BINARY),
    "FLOOR_MOD": ("Modulus", *_BINARY),
    "PRELU": ("PReLU", *_BINARY),
    "RELU": ("Clamp", *_UNARY),
    "RELU6": ("Clamp", *_UNARY),
    "RELU_N1_TO_1": ("Clamp", *_UNARY),
    "RELU_0_TO_1": ("Clamp", *_UNARY),
    "LOGISTIC": ("Sigmoid", *_UNARY),
    "TANH": ("TanH", *_UNARY),
    "HARD_SWISH": ("HardSwish", *_UNARY),
    "ELU": ("ELU", *_UNARY),
    "GELU": ("GELU", "ApproxGELU", *_UNARY),
    "LEAKY_RELU": ("LeakyReLU", *_UNARY),
    "ABS": ("Abs", *_UNARY),
    "NEG": ("Negate", *_UNARY),
    "SQUARE": ("Square", *_UNARY),
    "SQRT": ("Square Root", *_UNARY),
    "RSQRT": ("Reciprocal Square Root", *_UNARY),
    "EXP": ("Exp", *_UNARY),
    "LOG": ("Log", *_UNARY),
    "SIN": ("Sine", *_UNARY),
    "COS": ("Cosine", *_UNARY),
    "CEIL": ("Ceiling", *_UNARY),
    "FLOOR": ("Floor", *_UNARY),
    "ROUND": ("Bankders Rounding", *_UNARY),
    "SIGN": ("Sign", *_UNARY),
    "AVERAGE_POOL_2D": ("Average Pooling", "Mean"),
    "MAX_POOL_2D": ("Max Pooling",),
    "MEAN": ("Mean", "Sum", "Average Pooling"),
    "SUM": ("Sum",),
    "REDUCE_MAX": ("Reduce Max",),
    "REDUCE_MIN": ("Reduce Min",),
    "SOFTMAX": ("Softmax",),
    "RESHAPE": _SHAPE,
    "SQUEEZE": _SHAPE,
    "EXPAND_DIMS": _SHAPE,
    "TRANSPOSE": ("Transpose",),
    "CONCATENATION": ("Copy",),
    "PACK": ("Copy",),
    "SPLIT": ("Slice", "Copy"),
    "SLICE": ("Slice", "Copy"),
    "STRIDED_SLICE": ("Slice", "Copy"),
    "PAD": ("Constant Pad",),
    "PADV2": ("Constant Pad",),
    "MIRROR_PAD": ("Constant Pad",),
    "RESIZE_BILINEAR": ("Resize Bilinear",),
    "DEPTH_TO_SPACE": ("Depth To Space",),
    "SPACE_TO_DEPTH": ("Space To Depth",),
    "QUANTIZE": ("Convert",),
    "DEQUANTIZE": ("Convert",),
    "CAST": ("Convert", "Copy"),
    "NORMALIZATION": ("Normalize",),
}

# Kernels that an operator brings along: its input quantized on the fly or brought into form before the main kernel,
# and an activation that could not be fused into it after.
BEFORE_MAIN: Final[dict[str, tuple[str, ...]]] = {
    "CONV_2D": ("Convert", "Transpose", _PACKED_INPUT),
    "TRANSPOSE_CONV": ("Convert",),
    "FULLY_CONNECTED": ("Convert", "Static Reshape", _PACKED_INPUT),
    "BATCH_MATMUL": ("Convert", "Static Reshape", "Transpose", _PACKED_INPUT),
    "RELU": ("Copy",),
}
AFTER_MAIN: Final[dict[str, tuple[str, ...]]] = {
    "ADD": ("Clamp",),
    "SUB": ("Clamp",),
    "MUL": ("Clamp",),
    "DIV": ("Clamp",),
    "BATCH_MATMUL": ("Static Reshape",),
    "MEAN": ("Multiply",),
    "AVERAGE_POOL_2D": ("Clamp",),
    "MAX_POOL_2D": ("Clamp",),
}
# Operators that run one kernel for each of their inputs or outputs.
SEVERAL_MAINS: Final = frozenset({"CONCATENATION", "PACK", "SPLIT"})

# Operators that often have no kernel of their own, because they only rename a shape, or are folded into a neighbor.
OFTEN_WITHOUT_KERNEL: Final = frozenset(
    {
        "RESHAPE",
        "SQUEEZE",
        "EXPAND_DIMS",
        "DEQUANTIZE",
        "QUANTIZE",
        "PAD",
        "PADV2",
        "TRANSPOSE",
        "CAST",
        "RELU",
        "RELU6",
        "RELU_N1_TO_1",
        "RELU_0_TO_1",
        "CONCATENATION",
    }
)


def kind_of_kernel(tag: str) -> str:
    """The kernel's kind: its name without layout, types and implementation."""
    return tag.split(" (", 1)[0].strip()


def explains(op: str, kinds: Sequence[str]) -> bool:
    """Whether this operator can have run just these kernels, in this order."""
    mains = [position for position, kind in enumerate(kinds) if kind in MAIN_KERNELS.get(op, ())]
    if op in SEVERAL_MAINS:
        return len(mains) == len(kinds)
    before, after = BEFORE_MAIN.get(op, ()), AFTER_MAIN.get(op, ())
    return any(
        all(kind in before for kind in kinds[:main]) and all(kind in after for kind in kinds[main + 1 :])
        for main in mains
    )
