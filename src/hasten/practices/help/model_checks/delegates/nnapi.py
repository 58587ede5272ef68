"""What the NNAPI delegate takes on Android 11 (NNAPI 1.3), before a driver has its say.

The facts are those of the delegate's validation (`tensorflow/lite/delegates/nnapi/nnapi_delegate.cc`). Android has
deprecated NNAPI since release 15: a model that is made for it now belongs on a GPU or a vendor's NPU delegate.
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
    constant_inputs,
    input_count,
    input_types,
    most_version,
    option_in,
    ranks,
    same_quantization,
    settled_shapes,
)

_USUAL: Final = input_types("float32", "float16", *EIGHT_BITS)
_WITH_INTEGERS: Final = input_types("float32", "float16", "int32", *EIGHT_BITS)
_FLOAT: Final = input_types("float32", "float16")
_NO_ACTIVATION: Final = activations("NONE")


def _arithmetic(most: int) -> tuple[Rule, ...]:
    return (most_version(most), _WITH_INTEGERS, ranks(0, 1, 2, 3, 4), ranks(0, 1, 2, 3, 4, place=1))


def _same_shapes(site: Site) -> Remark | None:
    """NNAPI's select does not broadcast."""
    condition, chosen = site.input(0), site.input(1)
    if condition is None or chosen is None or condition.shape == chosen.shape:
        return None
    return remark("refused.broadcast", first=list(condition.shape), second=list(chosen.shape))


def _has_dimensions(site: Site) -> Remark | None:
    scalar = any(not tensor.shape for tensor in site.outputs)
    return remark("refused.rank", rank=0, allowed=[1, 2, 3, 4]) if scalar else None


_INDEX: Final = input_types("int32", "int64", places=(1,))
_COMPARED: Final = (most_version(2), input_types("float32", "int32", "bool", *EIGHT_BITS))
_POOL: Final = (most_version(2), _USUAL)
_REDUCTION: Final = (most_version(2), _USUAL, constant_inputs(1, dtype="int32"), _has_dimensions)

NNAPI: Final = Delegate(
    name="nnapi",
    source="TensorFlow, tensorflow/lite/delegates/nnapi/nnapi_delegate.cc (NNAPI 1.3, Android 11)",
    operators={
        **dict.fromkeys(("ABS", "EXP", "LOG", "RSQRT", "POW", "SIN", "SQRT"), (most_version(1), _FLOAT)),
        **dict.fromkeys(("RELU", "RELU6", "RELU_N1_TO_1", "LOGISTIC", "TANH", "ELU"), (most_version(2), _USUAL)),
        **dict.fromkeys(("LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL", "EQUAL", "NOT_EQUAL"), _COMPARED),
        **dict.fromkeys(("LOGICAL_OR", "LOGICAL_AND", "LOGICAL_NOT"), (most_version(1), input_types("bool"))),
        **dict.fromkeys(("ARG_MAX", "ARG_MIN"), (most_version(2), _WITH_INTEGERS, _INDEX)),
        **dict.fromkeys(("AVERAGE_POOL_2D", "MAX_POOL_2D"), _POOL),
        **dict.fromkeys(("PAD", "PADV2"), (most_version(2), _USUAL)),
        **dict.fromkeys(("SPACE_TO_BATCH_ND", "BATCH_TO_SPACE_ND"), (most_version(2), _USUAL)),
        **dict.fromkeys(("REDUCE_MAX", "REDUCE_MIN"), _REDUCTION),
        **dict.fromkeys(("REDUCE_PROD", "SUM"), (most_version(1), _FLOAT, constant_inputs(1, dtype="int32"))),
        **dict.fromkeys(("LEAKY_RELU", "PRELU"), (most_version(1), _USUAL)),
        **dict.fromkeys(("MAXIMUM", "MINIMUM"), (most_version(3), _WITH_INTEGERS)),
        **dict.fromkeys(("RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR"), (most_version(3), _USUAL, constant_inputs(1))),
        "ADD": _arithmetic(2),
        "SUB": _arithmetic(3),
        "MUL": _arithmetic(2),
        "DIV": (most_version(1), _FLOAT),
        "BATCH_MATMUL": (_USUAL,),
        "CAST": (most_version(1), _WITH_INTEGERS),
        "CONCATENATION": (most_version(2), _NO_ACTIVATION, ranks(0, 1, 2, 3, 4), _USUAL),
        "CONV_2D": (most_version(3), input_count(3)),
        "DEPTHWISE_CONV_2D": (most_version(3),),
        "DEPTH_TO_SPACE": (most_version(2), _USUAL),
        "SPACE_TO_DEPTH": (most_version(2), _USUAL),
        "DEQUANTIZE": (most_version(2), input_types(*EIGHT_BITS)),
        "EMBEDDING_LOOKUP": (most_version(1), input_types("float32", places=(1,))),
        "EXPAND_DIMS": (most_version(1), _WITH_INTEGERS, constant_inputs(1, dtype="int32")),
        "FLOOR": (most_version(1),),
        "FULLY_CONNECTED": (most_version(5), option_in("weights_format", "DEFAULT", default="DEFAULT")),
        "GATHER": (most_version(2), _WITH_INTEGERS, input_types("int32", places=(1,))),
        "HARD_SWISH": (_USUAL,),
        "L2_NORMALIZATION": (most_version(2), _NO_ACTIVATION),
        "L2_POOL_2D": (most_version(1), _FLOAT),
        "LOCAL_RESPONSE_NORMALIZATION": (most_version(1),),
        "LOG_SOFTMAX": (most_version(1), _FLOAT),
        "LSTM": (most_version(3),),
        "MEAN": (most_version(2), _USUAL, _has_dimensions, same_quantization),
        "NEG": (most_version(2), input_types("float32", "int32")),
        "PACK": (_WITH_INTEGERS,),
        "QUANTIZE": (most_version(2), input_types("float32")),
        "RESHAPE": (most_version(1), _USUAL, constant_inputs(1)),
        "SELECT": (most_version(2), _same_shapes),
        "SLICE": (most_version(2), input_types("float32", "int32", *EIGHT_BITS)),
        "SOFTMAX": (most_version(2), _USUAL, ranks(1, 2, 3, 4)),
        "SPLIT": (most_version(3), input_types("float32", "int32", *EIGHT_BITS, places=(1,)), constant_inputs(0)),
        "SQUEEZE": (most_version(1),),
        "STRIDED_SLICE": (most_version(2),),
        "TILE": (most_version(1), input_types("float32", "int32", *EIGHT_BITS)),
        "TOPK_V2": (most_version(2), constant_inputs(1, dtype="int32")),
        "TRANSPOSE": (most_version(2), constant_inputs(1)),
        "TRANSPOSE_CONV": (most_version(3), constant_inputs(0, 1)),
        "UNIDIRECTIONAL_SEQUENCE_LSTM": (most_version(2),),
    },
    everywhere=(settled_shapes,),
)
