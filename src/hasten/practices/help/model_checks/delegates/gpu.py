"""What LiteRT's GPU delegate takes.

The facts are those of LiteRT's own compatibility checker (`tflite/tools/versioning/gpu_compatibility.cc`, read at the
state of LiteRT 2.3), with broadcasting as its offline analysis assumes it. Element types are checked by drivers at run
time; what is certain from the checker stands here. Two facts were seen with the delegate of LiteRT 2.3 on a GPU made of
software: it runs the largest partition only, and leaves sparse weights to the CPU.
"""

from __future__ import annotations

from typing import Final

from hasten.core.remark import Remark, remark
from hasten.practices.help.model_checks.delegates.rule import (
    FLOATS,
    Delegate,
    Rule,
    Site,
    activations,
    constant_inputs,
    input_count,
    input_types,
    option_in,
    ranks,
    runtime_count,
    settled_shapes,
)

_FUSED: Final = activations("NONE", "RELU", "RELU_N1_TO_1", "RELU6", "TANH", "SIGMOID")
_ONE: Final = runtime_count(1)
_ONE_OR_TWO: Final = runtime_count(1, 2)
_AXES: Final = constant_inputs(1, dtype="int32")


def _broadcasts(site: Site) -> Remark | None:
    """Shapes fit each other from the right, dimension by dimension."""
    first, second = site.input(0), site.input(1)
    if first is None or second is None:
        return None
    pairs = zip(reversed(first.shape), reversed(second.shape), strict=False)
    if all(one == other or 1 in (one, other) for one, other in pairs):
        return None
    return remark("refused.broadcast", first=list(first.shape), second=list(second.shape))


def _depthwise(site: Site) -> Remark | None:
    """The channels of filter and output are those of the input, times the multiplier."""
    image, weights, result = site.input(0), site.input(1), next(iter(site.outputs), None)
    if image is None or weights is None or result is None:
        return None
    for tensor in (image, weights, result):
        if len(tensor.shape) != 4:
            return remark("refused.rank", rank=len(tensor.shape), allowed=[4])
    multiplier = site.option("depth_multiplier", 1)
    if weights.shape[3] == result.shape[3] == image.shape[3] * multiplier:
        return None
    return remark("refused.option", option="depth_multiplier", value=multiplier, allowed=[])


def _cast(site: Site) -> Remark | None:
    pairs = {(one.dtype, other.dtype) for one, other in zip(site.inputs, site.outputs, strict=False)}
    for source, goal in pairs:
        with_flags = {source, goal} & {"bool"} and {source, goal} <= {"bool", *FLOATS}
        if not with_flags and not {source, goal} <= {"float32", "int32"}:
            return remark("refused.cast", source=source, goal=goal)
    return None


def _paddings(site: Site) -> Remark | None:
    paddings = site.input(1)
    if paddings is None or paddings.shape in ((3, 2), (4, 2)):
        return None
    return remark("refused.rank", rank=paddings.shape[0] if paddings.shape else 0, allowed=[3, 4])


def _select(site: Site) -> Remark | None:
    """What is selected from has the shape of the output, or is a single number."""
    result = next(iter(site.outputs), None)
    for place in (1, 2):
        tensor = site.input(place)
        if tensor is None or result is None or tensor.elements == 1 or tensor.shape == result.shape:
            continue
        return remark("refused.broadcast", first=list(tensor.shape), second=list(result.shape))
    return None


def _keeps_rank(site: Site) -> Remark | None:
    first, result = site.input(0), next(iter(site.outputs), None)
    if first is None or result is None or not site.option("keep_num_dims", False):
        return None
    if len(first.shape) == len(result.shape):
        return None
    return remark("refused.option", option="keep_num_dims", value=True, allowed=[False])


def _block_above_one(site: Site) -> Remark | None:
    size = site.option("block_size", 0)
    return None if size > 1 else remark("refused.option", option="block_size", value=size, allowed=[])


def _corners(site: Site) -> Remark | None:
    both = site.option("align_corners", False) and site.option("half_pixel_centers", False)
    return remark("refused.option", option="half_pixel_centers", value=True, allowed=[False]) if both else None


def _not_sparse(site: Site) -> Remark | None:
    """Where weights are sparse, the CPU unpacks all of them."""
    sparse = any(node.op == "DENSIFY" for node in site.subgraph.nodes)
    return remark("refused.sparse") if sparse and not site.runtime_inputs else None


_CONVOLUTION: Final[tuple[Rule, ...]] = (_ONE_OR_TWO, _FUSED)
_ELEMENTWISE: Final = ("ABS", "CEIL", "COS", "ELU", "EXP", "FLOOR", "GELU", "LOG", "LOGICAL_NOT", "LOGISTIC", "NEG")
_MORE_ELEMENTWISE: Final = ("ROUND", "RSQRT", "SIGN", "SIN", "SQRT", "SQUARE", "TANH", "HARD_SWISH")
_BINARY: Final = ("ATAN2", "DIV", "EQUAL", "FLOOR_DIV", "FLOOR_MOD", "GREATER", "GREATER_EQUAL", "LOGICAL_AND")
_MORE_BINARY: Final = ("LOGICAL_OR", "LESS", "LESS_EQUAL", "MAXIMUM", "MINIMUM", "NOT_EQUAL", "POW", "RIGHT_SHIFT")
_LAST_BINARY: Final = ("STABLEHLO_REMAINDER", "STABLEHLO_SHIFT_LEFT", "SQUARED_DIFFERENCE", "SUB")
_REDUCTIONS: Final = (
    "REDUCE_ALL",
    "REDUCE_ANY",
    "REDUCE_MAX",
    "REDUCE_MIN",
    "REDUCE_PROD",
    "SUM",
    "MEAN",
    "REVERSE_V2",
)
_ANYTHING: Final = ("CONCATENATION", "PACK", "RELU_N1_TO_1", "PRELU", "SPLIT", "SPLIT_V", "RELU", "RELU6", "LEAKY_RELU")
_MASKS: Final = ("ellipsis_mask", "new_axis_mask", "shrink_axis_mask")

GPU: Final = Delegate(
    name="gpu",
    source="LiteRT, tflite/tools/versioning/gpu_compatibility.cc",
    operators={
        **dict.fromkeys(_ANYTHING, ()),
        **dict.fromkeys((*_ELEMENTWISE, *_MORE_ELEMENTWISE), (_ONE,)),
        **dict.fromkeys((*_BINARY, *_MORE_BINARY, *_LAST_BINARY), (_ONE_OR_TWO, _FUSED)),
        **dict.fromkeys((*_REDUCTIONS, "REVERSE_V2"), (_ONE, _AXES)),
        **dict.fromkeys(("RESHAPE", "TILE", "TRANSPOSE", "QUANTIZE", "TOPK_V2", "RESIZE_NEAREST_NEIGHBOR"), (_ONE,)),
        **dict.fromkeys(("PAD", "PADV2"), (_ONE, _paddings)),
        **dict.fromkeys(("AVERAGE_POOL_2D", "MAX_POOL_2D"), (_ONE, _FUSED)),
        **dict.fromkeys(("DEPTH_TO_SPACE", "SPACE_TO_DEPTH"), (_ONE, _block_above_one)),
        **dict.fromkeys(("SELECT", "SELECT_V2"), (input_count(3), input_types("bool", *FLOATS), _select)),
        "ADD": (input_count(2), _broadcasts),
        "ADD_N": (input_count(2),),
        "MUL": (input_count(2), _broadcasts, _FUSED),
        "BATCH_MATMUL": (input_count(2),),
        "CAST": (_ONE, _cast),
        "CONV_2D": _CONVOLUTION,
        "CUMSUM": (input_types(*FLOATS), constant_inputs(1, dtype="int32")),
        "DEPTHWISE_CONV_2D": (*_CONVOLUTION, _depthwise),
        "DEQUANTIZE": (input_types("float32", "float16", "int8", "uint8", "int32", "int4"), _not_sparse),
        "DYNAMIC_UPDATE_SLICE": (input_count(3), input_types("int32", places=(2,)), ranks(1, place=2)),
        "EMBEDDING_LOOKUP": (input_count(2), ranks(1), input_types("int8", "int4", "float32", places=(1,))),
        "FULLY_CONNECTED": (option_in("weights_format", "DEFAULT", default="DEFAULT"), _ONE_OR_TWO, _keeps_rank),
        "GATHER": (_ONE_OR_TWO, ranks(1, place=1), input_types("int32", places=(1,))),
        "LSTM": (),
        "MIRROR_PAD": (option_in("mode", "REFLECT", default="REFLECT"), _ONE, _paddings),
        "ONE_HOT": (input_types("int32"), constant_inputs(2, 3, dtype="float32")),
        "RESIZE_BILINEAR": (_ONE, _corners),
        "SLICE": (ranks(3, 4),),
        "SOFTMAX": (option_in("beta", 1.0, default=1.0),),
        "STRIDED_SLICE": (*(option_in(name, 0) for name in _MASKS), ranks(3, 4)),
        "TRANSPOSE_CONV": (_ONE_OR_TWO,),
    },
    everywhere=(settled_shapes,),
    most_partitions=1,
    customs=frozenset({"Convolution2DTransposeBias", "MaxPoolingWithArgmax2D", "MaxUnpooling2D", "Resampler"}),
)
