"""The border to `ai-edge-quantizer`: a recipe in its terms, its calibration, its errors as ours, and no output."""

from __future__ import annotations

import contextlib
import io
import os
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hasten.core.errors import ModelError, UsageError
from hasten.model.variants.recipes import Ranges, Recipe, Rounding
from hasten.model.variants.variant import NothingToQuantizeError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

INSTALL = "pip install 'hasten[quantize]'"
BITS = {"float16": 16, "int4": 4, "int8": 8, "uint8": 8, "int16": 16}
# Calibration of small models gets slower with more.
MOST_THREADS = 4
# What the quantiser raises, for lack of exceptions of its own.
_ERRORS = (ArithmeticError, AssertionError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)


@dataclass(frozen=True, slots=True)
class Border:
    """The types that floats at the model's inputs and outputs get."""

    input_type: str = "float32"
    output_type: str = "float32"


@dataclass(frozen=True, slots=True)
class Order:
    """What the quantiser is asked for: a recipe on the nodes that a pattern matches."""

    recipe: Recipe
    pattern: str
    subgraph: int
    border: Border


def quantized_bytes(
    model: bytes, order: Order, signature: str | None, samples: Sequence[Mapping[str, Any]], name: str
) -> bytes:
    """Quantise a prepared and tagged model."""
    quantizer_module = _imported()
    try:
        with _silence():
            manager = _manager(order)
            quantizer = quantizer_module.Quantizer(model, manager.get_quantization_recipe())
            ranges = _ranges(model, manager, order.recipe, signature, samples) if samples else None
            if ranges is not None and not ranges:
                hint = "Static recipes quantise operators of the signature's own graph, not of loops and branches."
                raise NothingToQuantizeError(f"{order.recipe.name} changes nothing in {name}.", hint)
            result = quantizer.quantize(ranges, enable_progress_bar=False, enable_progress_report=False)
    except _ERRORS as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        hint = "Try another recipe, or leave the nodes out that it cannot do."
        raise ModelError(f"{name} cannot be quantised by {order.recipe.name}: {reason}", hint) from error
    return bytes(result.quantized_model)


def _imported() -> Any:
    try:
        with _silence():
            from ai_edge_quantizer import quantizer
    except ImportError:
        raise UsageError("Quantising needs the package ai-edge-quantizer.", f"Install it: {INSTALL}") from None
    return quantizer


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    """The quantiser draws bars and warns of what is meant to be: only the command line prints."""
    with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
        warnings.simplefilter("ignore")
        yield


def _manager(order: Order) -> Any:
    from ai_edge_quantizer import qtyping, recipe_manager

    manager = recipe_manager.RecipeManager()
    everything, names = qtyping.TFLOperationName.ALL_SUPPORTED, recipe_manager.AlgorithmName
    _add(manager, order.recipe, order.pattern, everything, names.MIN_MAX_UNIFORM_QUANT)
    if order.recipe.rounding is not Rounding.LARGEST:
        # Later entries win where their algorithm has the operator; one of the same pattern would replace the first.
        algorithm = {Rounding.OCTAV: names.OCTAV, Rounding.MSE: names.MSE}[order.recipe.rounding]
        _add(manager, order.recipe, f"(?:{order.pattern})", everything, algorithm)
    ends = (qtyping.TFLOperationName.INPUT, qtyping.TFLOperationName.OUTPUT)
    for operation, dtype in zip(ends, (order.border.input_type, order.border.output_type), strict=True):
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


def _ranges(
    model: bytes, manager: Any, recipe: Recipe, signature: str | None, samples: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    from ai_edge_quantizer import calibrator
    from ai_edge_quantizer.utils import qsv_utils

    threads = min(MOST_THREADS, os.cpu_count() or 1)
    update = {"qsv_update_func": qsv_utils.min_max_update} if recipe.ranges is Ranges.MIN_MAX else {}
    calibration = calibrator.Calibrator(model, num_threads=threads, **update)
    calibration.calibrate({signature: list(samples)}, manager)
    ranges: dict[str, Any] = calibration.get_model_qsvs()
    return ranges
