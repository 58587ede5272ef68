"""What the Hexagon delegate takes on older Qualcomm chips: 8-bit quantized operators of at most four dimensions.

The facts are those of the delegate's README (`tensorflow/lite/delegates/hexagon/README.md`). Newer Qualcomm chips are
reached by Qualcomm's own delegate, whose rules are not public.
"""

from __future__ import annotations

from typing import Final

from hasten.core.remark import Remark, remark
from hasten.practices.help.model_checks.delegates.rule import (
    EIGHT_BITS,
    Delegate,
    Site,
    activations,
    all_types,
    most_dimensions,
    option_at_most,
    option_in,
    settled_shapes,
)

_RECTIFIERS: Final = activations("NONE", "RELU", "RELU_N1_TO_1", "RELU6")
_NO_ACTIVATION: Final = activations("NONE")
_STRIDES: Final = (option_at_most("stride_w", 3), option_at_most("stride_h", 3))
_LARGEST_RESIZE: Final = 65
_PLAIN: Final = ("ARG_MAX", "ARG_MIN", "CONCATENATION", "DEPTH_TO_SPACE", "FULLY_CONNECTED", "HARD_SWISH", "LOGISTIC")
_MORE_PLAIN: Final = ("MAXIMUM", "MEAN", "MINIMUM", "MIRROR_PAD", "NEG", "PACK", "PAD", "RELU", "RELU6", "RESHAPE")
_LAST_PLAIN: Final = ("RESIZE_NEAREST_NEIGHBOR", "SLICE", "SOFTMAX", "SPACE_TO_DEPTH", "SPLIT", "STRIDED_SLICE", "TANH")


def _eight_bits(site: Site) -> Remark | None:
    """Images are 8-bit; indices that an operator returns are not asked."""
    given = [tensor.dtype for tensor in site.inputs if tensor.index not in site.constants]
    wrong = next((dtype for dtype in given if dtype not in EIGHT_BITS), "")
    return remark("refused.type", dtype=wrong, allowed=list(EIGHT_BITS)) if wrong else None


def _depthwise(site: Site) -> Remark | None:
    """Filters are three wide, and dilated only where they move by one."""
    weights = site.input(1)
    if weights is not None and len(weights.shape) == 4 and weights.shape[2] != 3:
        return remark("refused.filter", width=weights.shape[2], allowed=3)
    strides = max(site.option("stride_w", 1), site.option("stride_h", 1))
    dilation = max(site.option("dilation_w_factor", 1), site.option("dilation_h_factor", 1))
    if dilation > 1 and strides > 1:
        return remark("refused.option", option="dilation_w_factor", value=dilation, allowed=[1])
    return None


def _small_resize(site: Site) -> Remark | None:
    sides = [size for tensor in site.outputs for size in tensor.shape[1:3]]
    largest = max(sides, default=0)
    return None if largest <= _LARGEST_RESIZE else remark("refused.size", size=largest, most=_LARGEST_RESIZE)


HEXAGON: Final = Delegate(
    name="hexagon",
    source="TensorFlow, tensorflow/lite/delegates/hexagon/README.md",
    operators={
        **dict.fromkeys((*_PLAIN, *_MORE_PLAIN, *_LAST_PLAIN, "TRANSPOSE"), ()),
        **dict.fromkeys(("ADD", "MUL", "SUB"), (_RECTIFIERS,)),
        **dict.fromkeys(("AVERAGE_POOL_2D", "MAX_POOL_2D", "L2_NORMALIZATION"), (_NO_ACTIVATION,)),
        "CONV_2D": _STRIDES,
        "DEPTHWISE_CONV_2D": (*_STRIDES, option_in("depth_multiplier", 1, default=1), _depthwise),
        "QUANTIZE": (all_types(*EIGHT_BITS),),
        "RESIZE_BILINEAR": (_small_resize,),
        "TRANSPOSE_CONV": _STRIDES,
    },
    everywhere=(settled_shapes, most_dimensions(4), _eight_bits),
    wants_integers=True,
)
