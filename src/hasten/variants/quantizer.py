"""The interface to `ai-edge-quantizer`: a recipe in its terms, its calibration, its errors as ours, and no output."""

from __future__ import annotations

import contextlib
import copy
import io
import os
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hasten.core.errors import ModelError, UsageError
from hasten.variants.io_types import FLOAT_IO, IoTypes
from hasten.variants.recipes import Ranges, Recipe, Rounding, recipe_from_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

INSTALL = "pip install 'hasten[quantize]'"
BITS = {"float16": 16, "int4": 4, "int8": 8, "uint8": 8, "int16": 16}
# Calibration of small models gets slower with more.
MOST_THREADS = 4
_LAYERS = ("CONV_2D", "CONV_2D_TRANSPOSE", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED")
# What the quantizer raises, for lack of exceptions of its own.
_ERRORS = (ArithmeticError, AssertionError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)

# What GPTQ supports.
_DENSE = ("FULLY_CONNECTED",)

# Neither ranges nor how inputs vary together depend on the number of bits.
_ANY_STATIC = recipe_from_name("static_int8")
_ANY_GPTQ = recipe_from_name("weight_only_int4_gptq")


@dataclass(frozen=True, slots=True)
class Order:
    """What the quantizer is asked for: a recipe on the nodes that a pattern matches."""

    recipe: Recipe
    pattern: str
    subgraph: int
    io_types: IoTypes


def quantized_bytes(model: bytes, order: Order, ranges: Mapping[str, Any] | None, name: str) -> bytes:
    """Quantize a prepared and tagged model; `ranges` are those of activations, by tag."""
    quantizer_module = _imported()
    hint = "Try another recipe, or keep the nodes that it does not support in float."
    with _silence(), _errors(f"{name} cannot be quantized with {order.recipe.name}", hint):
        quantizer = quantizer_module.Quantizer(model, _manager(order).get_quantization_recipe())
        # The quantizer writes into what it is given.
        own = None if ranges is None else copy.deepcopy(dict(ranges))
        result = quantizer.quantize(own, enable_progress_bar=False, enable_progress_report=False)
        return bytes(result.quantized_model)


def calibrated_ranges(
    model: bytes, subgraph: int, ranges: Ranges, signature: str, samples: Sequence[Mapping[str, Any]], name: str
) -> dict[str, Any]:
    """Run a prepared and tagged model on samples, and return the ranges of all activations of the subgraph, by tag."""
    _imported()
    from ai_edge_quantizer import calibrator
    from ai_edge_quantizer.utils import qsv_utils

    any_recipe, io_types = (_ANY_STATIC, IoTypes("int8", "int8"))
    if ranges is Ranges.TOGETHER:
        any_recipe, io_types = _ANY_GPTQ, FLOAT_IO
    everything = Order(any_recipe, rf"^<{subgraph}\.", subgraph, io_types)
    threads = min(MOST_THREADS, os.cpu_count() or 1)
    update = {"qsv_update_func": qsv_utils.min_max_update} if ranges is Ranges.MIN_MAX else {}
    with _silence(), _errors(f"{name} cannot be calibrated", "Try a recipe that needs no calibration."):
        calibration = calibrator.Calibrator(model, num_threads=threads, **update)
        calibration.calibrate({signature: list(samples)}, _manager(everything))
        found: dict[str, Any] = calibration.get_model_qsvs()
        return found


@contextlib.contextmanager
def _errors(what: str, hint: str) -> Iterator[None]:
    try:
        yield
    except _ERRORS as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise ModelError(f"{what}: {reason}.", hint) from error


def _imported() -> Any:
    try:
        with _silence():
            from ai_edge_quantizer import quantizer
    except ImportError as error:
        message = f"Quantizing needs the package ai-edge-quantizer ({error})."
        raise UsageError(message, f"Install it: {INSTALL}") from None
    return quantizer


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    """The quantizer draws bars and warns of what is meant to be: only the command line prints."""
    with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
        warnings.simplefilter("ignore")
        yield


def _manager(order: Order) -> Any:
    from ai_edge_quantizer import qtyping, recipe_manager

    manager = recipe_manager.RecipeManager()
    everything, names = qtyping.TFLOperationName.ALL_SUPPORTED, recipe_manager.AlgorithmName
    _add(manager, order.recipe, order.pattern, everything, names.MIN_MAX_UNIFORM_QUANT)
    if order.recipe.rounding is not Rounding.LARGEST:
        # For weights only: OCTAV refuses the constants of other operators. Later entries win over earlier ones.
        algorithm = {Rounding.OCTAV: names.OCTAV, Rounding.MSE: names.MSE, Rounding.GPTQ: names.GPTQ}[
            order.recipe.rounding
        ]
        for operation in _DENSE if order.recipe.rounding is Rounding.GPTQ else _LAYERS:
            _add(manager, order.recipe, f"(?:{order.pattern})", qtyping.TFLOperationName[operation], algorithm)
    ends = (qtyping.TFLOperationName.INPUT, qtyping.TFLOperationName.OUTPUT)
    for operation, dtype in zip(ends, (order.io_types.input_type, order.io_types.output_type), strict=True):
        manager.add_quantization_config(".*", operation, algorithm_key=names.NO_QUANTIZE)
        if dtype != "float32":
            config = _static_config(qtyping, dtype)
            manager.add_quantization_config(rf"^(<{order.subgraph}\.)", operation, config, names.MIN_MAX_UNIFORM_QUANT)
    return manager


def _add(manager: Any, recipe: Recipe, pattern: str, operation: Any, algorithm: Any) -> None:
    from ai_edge_quantizer import recipe_manager

    bits = BITS[recipe.weights]
    if recipe.activations is not None:
        manager.add_static_config(pattern, operation, BITS[recipe.activations], bits, algorithm_key=algorithm)
    elif recipe.computes_in_integers:
        manager.add_dynamic_config(pattern, operation, bits, algorithm_key=algorithm)
    else:
        casting = recipe_manager.AlgorithmName.FLOAT_CASTING
        key = casting if recipe.weights == "float16" else algorithm
        manager.add_weight_only_config(pattern, operation, bits, algorithm_key=key)


def _static_config(qtyping: Any, dtype: str) -> Any:
    kind = qtyping.TensorDataType.UINT if dtype == "uint8" else qtyping.TensorDataType.INT
    return qtyping.OpQuantizationConfig(
        activation_tensor_config=qtyping.TensorQuantizationConfig(
            num_bits=BITS[dtype], symmetric=dtype == "int16", dtype=kind
        ),
        weight_tensor_config=qtyping.TensorQuantizationConfig(
            num_bits=8, symmetric=True, granularity=qtyping.QuantGranularity.CHANNELWISE
        ),
        compute_precision=qtyping.ComputePrecision.INTEGER,
    )
