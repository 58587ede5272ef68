"""What XNNPACK, LiteRT's delegate on the CPU, takes.

The facts are those of the delegate's own visitor (`tflite/delegates/xnnpack/xnnpack_delegate.cc`) and of the README
next to it. Where the delegate was observed on the model, these rules only give the reasons.
"""

from __future__ import annotations

from typing import Final

from hasten.core.remark import Remark, remark
from hasten.practices.help.model_checks.delegates.rule import (
    EIGHT_BITS,
    Delegate,
    Rule,
    Site,
    activations,
    all_types,
    constant_inputs,
    input_count,
    input_types,
    option_in,
    ranks,
    runtime_count,
    settled_shapes,
)

_TYPES: Final = ("float32", "float16", *EIGHT_BITS)
_FUSED: Final = activations("NONE", "RELU", "RELU_N1_TO_1", "RELU6")
_COMPUTED: Final = all_types(*_TYPES)
_FLOAT: Final = all_types("float32", "float16")
_MOST_JOINED: Final = 5


def _scaled(site: Site) -> Remark | None:
    """Eight-bit numbers stand for reals."""
    for tensor in (*site.inputs, *site.outputs):
        if tensor.dtype in EIGHT_BITS and tensor.quantization is None:
            return remark("refused.unscaled", dtype=tensor.dtype)
    return None


def _pools(site: Site) -> Remark | None:
    """A window of one element that moves further than one."""
    window = (site.option("filter_height", 1), site.option("filter_width", 1))
    strides = (site.option("stride_h", 1), site.option("stride_w", 1))
    if window == (1, 1) and strides != (1, 1):
        return remark("refused.option", option="stride_w", value=strides[1], allowed=[1])
    return None


def _keeps_sign(site: Site) -> Remark | None:
    """It rescales within int8 or within uint8, but never goes from one to the other."""
    source, goal = site.inputs[0].dtype, site.outputs[0].dtype
    if source == goal or not {source, goal} <= set(EIGHT_BITS):
        return None
    return remark("refused.cast", source=source, goal=goal)


def _bias(site: Site) -> Remark | None:
    return None if site.input(2) is not None else remark("refused.inputs", count=2, allowed=[3])


def _every_scale(site: Site) -> Remark | None:
    weights = site.input(1)
    zero = weights is not None and weights.quantization is not None and 0.0 in weights.quantization.scales
    return remark("refused.zero-scale") if zero else None


def _dense(site: Site) -> Remark | None:
    """Sparse weights came with version 8, which the delegate leaves alone."""
    return None if site.node.version != 8 else remark("refused.version", version=8, most=7)


_LAYER: Final[tuple[Rule, ...]] = (_COMPUTED, _FUSED, constant_inputs(2), _bias, _every_scale)
_UNARY: Final = ("ABS", "CEIL", "COS", "ELU", "EXP", "FLOOR", "GELU", "HARD_SWISH", "LEAKY_RELU", "LOGISTIC", "NEG")
_MORE_UNARY: Final = ("RELU", "RELU6", "RELU_N1_TO_1", "ROUND", "RSQRT", "SIN", "SQRT", "SQUARE", "TANH")
_BINARY: Final = ("ADD", "DIV", "MAXIMUM", "MINIMUM", "MUL", "SQUARED_DIFFERENCE", "SUB", "PRELU")
_MASKS: Final = ("ellipsis_mask", "new_axis_mask", "shrink_axis_mask")

XNNPACK_RULES: Final = Delegate(
    name="xnnpack",
    source="LiteRT, tflite/delegates/xnnpack/xnnpack_delegate.cc and README.md",
    operators={
        **dict.fromkeys((*_UNARY, *_MORE_UNARY), (_COMPUTED, _scaled)),
        **dict.fromkeys(_BINARY, (input_count(2), _COMPUTED, _scaled, _FUSED)),
        **dict.fromkeys(("MEAN", "SUM", "REDUCE_MAX", "REDUCE_MIN"), (_COMPUTED, constant_inputs(1))),
        "AVERAGE_POOL_2D": (_FLOAT, _FUSED, _pools),
        "MAX_POOL_2D": (_COMPUTED, _FUSED, _pools),
        **dict.fromkeys(("DEPTH_TO_SPACE", "SPACE_TO_DEPTH"), (_COMPUTED,)),
        **dict.fromkeys(("VAR_HANDLE", "READ_VARIABLE", "ASSIGN_VARIABLE"), ()),
        "BATCH_MATMUL": (input_types("float32", "float16", "int8"),),
        "CONCATENATION": (input_count(*range(2, _MOST_JOINED + 1)), _COMPUTED),
        "CONV_2D": _LAYER,
        "DEPTHWISE_CONV_2D": _LAYER,
        "DENSIFY": (runtime_count(0),),
        "DEQUANTIZE": (input_types("float16", *EIGHT_BITS),),
        "EXPAND_DIMS": (_COMPUTED, constant_inputs(1)),
        "FULLY_CONNECTED": (_dense, _COMPUTED, _FUSED),
        "PAD": (_COMPUTED, constant_inputs(1)),
        "QUANTIZE": (all_types(*_TYPES), _keeps_sign),
        "RESHAPE": (_COMPUTED, constant_inputs(1)),
        "RESIZE_BILINEAR": (_COMPUTED, ranks(4), constant_inputs(1)),
        "SLICE": (_COMPUTED, constant_inputs(1, 2)),
        "SOFTMAX": (_FLOAT, option_in("beta", 1.0, default=1.0)),
        "SPLIT": (input_types(*_TYPES, places=(1,)), constant_inputs(0)),
        "STRIDED_SLICE": (_COMPUTED, constant_inputs(1, 2, 3), *(option_in(name, 0) for name in _MASKS)),
        "TRANSPOSE": (_COMPUTED, constant_inputs(1)),
        "TRANSPOSE_CONV": (input_types(*_TYPES, places=(2,)), constant_inputs(0)),
    },
    everywhere=(settled_shapes,),
    customs=frozenset(
        {"Convolution2DTransposeBias", "MaxPoolingWithArgmax2D", "MaxUnpooling2D", "odml.scaled_dot_product_attention"}
    ),
)
