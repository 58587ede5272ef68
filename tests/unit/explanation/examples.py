"""Explanations to show: a usual one, one without times, and one with everything that can be odd."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from hasten.core import doubts
from hasten.core.comparison import compare_rounds
from hasten.core.measurement import Model
from hasten.core.remark import Remark, remark, said
from hasten.explanation.facts import (
    Cause,
    CauseKind,
    Change,
    Clipping,
    ExplainFound,
    Instructions,
    LossyInput,
    NodeRow,
    NumericalErrors,
    Side,
    Unread,
)
from hasten.explanation.rules import hints_of, verdict_of
from hasten.model.matching import Certainty

DATA = remark("explain.inputs-data", source="folder/images.npz")


def exactly(value: float) -> Change:
    """A change that all rounds agree on."""
    return Change(value, value, value)


def row(index: int, op: str = "CONV_2D", change: float = 0.5, **changes: Any) -> NodeRow:
    """A node that both models have."""
    timings = {"ms_before": 1.0, "ms_after": 1.0 + change, "kernel_before": "a", "kernel_after": "b"}
    fields = {**timings, "change_ms": exactly(change), "snr_db": 40.0, "drop_db": 1.0, **changes}
    return NodeRow(index, index, Certainty.EXACT, op, f"layer_{index}", "1x8x8x2", **fields)


def cause(op: str = "CONV_2D", change: float = 5.0, kind: CauseKind = CauseKind.LEFT_DELEGATE) -> Cause:
    """Eleven nodes with one fate."""
    kernels = "Convolution (NHWC, F32) DWConv", "built-in kernel"
    return Cause(kind, op, *kernels, 11, 0.4, 0.4 + change, exactly(change))


def side(name: str = "float.tflite", left: tuple[str, ...] = (), **changes: Any) -> Side:
    """A model of 66 operators."""
    return Side(Model(f"models/{name}", 1, name * 8), 2.0, 2.0, 66, 66 - len(left), 1 + len(left), left, **changes)


def errors(**changes: Any) -> NumericalErrors:
    """Error that enters at node 1 and is worst at node 2."""
    fields: dict[str, Any] = {
        "samples": 4,
        "inputs": DATA,
        "is_random": False,
        "compared": 3,
        "output_snr_db": 31.5,
        "first_drop": 1,
        "largest_drop": 2,
        "first_below": 2,
    }
    return NumericalErrors(**{**fields, **changes})


def explanation(**changes: Any) -> ExplainFound:
    """A model that got slower."""
    comparison, causes = compare_rounds([1.0] * 5), (cause("DEPTHWISE_CONV_2D"), cause("ADD", 0.001, CauseKind.KERNEL))
    fields: dict[str, Any] = {
        "before": side(),
        "after": side("int8.tflite", left=("#5 DEPTHWISE_CONV_2D", "#9 DEPTHWISE_CONV_2D"), headroom_ms=None),
        "comparison": comparison,
        "verdict": verdict_of(comparison, causes, 2.0),
        "rows": (
            row(0, snr_db=math.inf, same_to_the_bit=True, drop_db=0.0),
            row(1, snr_db=45.0, drop_db=75.0),
            row(2, snr_db=12.0, drop_db=33.0),
        ),
        "causes": causes,
        "outside_ms": exactly(0.02),
        "instructions": Instructions(
            "A CPU", ("F16C conversions",), ("AVX-512 VNNI",), remark("explain.no-int8-dot-product")
        ),
        "errors": errors(),
        "hints": hints_of(causes, 2.0),
    }
    return ExplainFound(**{**fields, **changes})


def usual() -> ExplainFound:
    """Depthwise layers that left the delegate."""
    return explanation()


def untimed() -> ExplainFound:
    """Models that the engine cannot profile, on other inputs."""
    rows = tuple(
        replace(row(at), ms_before=None, ms_after=None, kernel_before=None, kernel_after=None, change_ms=Change())
        for at in (1, 2)
    )
    unknown = Side(Model("models/float.tflite", 1, "ab" * 32), math.nan, math.nan, 66)
    return explanation(
        before=unknown,
        after=replace(unknown, model=Model("models/int8.tflite", 1, "cd" * 32)),
        verdict=verdict_of(compare_rounds([1.0] * 5), None, math.nan),
        rows=rows,
        causes=(),
        outside_ms=Change(),
        errors=None,
        hints=(),
        why_no_times=remark("explain.not-timed", model="float.tflite", failure="The engine has no profiler for it."),
        why_no_errors=remark("explain.other-inputs", before=2, after=1),
    )


def odd() -> ExplainFound:
    """Unclear causes, a rewritten graph, clipping, lossy inputs, unread nodes, random inputs and doubts."""
    clipped = [Clipping(at, name, 0.53, (32.07, 71.2), (0.0, 49.2)) for at, name in ((None, "x"), (2, None))]
    unclear = replace(cause("RELU", 1.5, CauseKind.KERNEL), change_ms=Change(1.5, -1.0, 6.0))
    conversions = replace(
        cause("inputs of layers", 3.1, CauseKind.CONVERSIONS), kernel_before="", kernel_after="Convert"
    )
    causes = (conversions, unclear, cause("TANH", -0.9, CauseKind.ENTERED_DELEGATE))
    comparison = compare_rounds([0.61, 0.60])
    return explanation(
        before=side(headroom_ms=0.5),
        after=Side(Model("models/npu.tflite", 1, "ef" * 32), 2.0, 5.7, 0, 0, 1, headroom_ms=4.0),
        comparison=comparison,
        verdict=verdict_of(comparison, causes, 2.0),
        causes=causes,
        rows=(row(1), row(2, snr_db=-math.inf, drop_db=160.0)),
        instructions=Instructions("unknown"),
        errors=errors(
            inputs=remark("explain.inputs-range"),
            is_random=True,
            disturbance_db=50.0,
            unread=(Unread(3, remark("explain.not-shown")), Unread(4, said("The engine stopped."))),
            notes=(remark("explain.skipped", samples=1, first="3.png is no image."),),
            lossy_inputs=(LossyInput("image", "int8", 39.3, 0),),
            clipped=(*clipped, clipped[1], clipped[1]),
        ),
        hints=(),
        doubts=(remark(doubts.PROFILING, cost=0.3, inside=[]), Remark(doubts.NOISY, {"half_width": 0.08})),
    )
