"""Records to render: usual ones, and some that no machine ought to produce but one will."""

from __future__ import annotations

import math
from array import array
from typing import Any

from hasten.core.block import Block, Conditions
from hasten.core.doubts import PHRASES
from hasten.core.measurement import Effective, Measurement, Model
from hasten.core.plan import Plan, Workload
from hasten.core.remark import Remark, said
from hasten.core.samples import Samples
from hasten.measure.compare import ComparisonResult, compared


def samples(latency_ms: float = 1.0, processes: int = 4, blocks: int = 5, **conditions: Any) -> Samples:
    return Samples(
        tuple(
            Block(process, process + block / 10, array("q", [round(latency_ms * 1e6)] * 20), Conditions(**conditions))
            for process in range(processes)
            for block in range(blocks)
        ),
        30,
    )


def measurement(
    latency_ms: float = 1.0,
    name: str = "model.tflite",
    plan: Plan = Plan(),
    doubts: tuple[Remark, ...] = (),
    found: Samples | None = None,
    **effective: Any,
) -> Measurement:
    seen = {
        "accelerator": plan.accelerator,
        "threads": 1,
        "api": "CompiledModel",
        "zero_copy": True,
        "fully_accelerated": True,
    }
    return Measurement(
        Model(f"folder/{name}", 4_200_000, "ab" * 32),
        plan,
        Workload(),
        Effective(**{**seen, **effective}),
        found or samples(latency_ms),
        12.0 * latency_ms,
        3.0 * latency_ms,
        50,
        21.5,
        doubts,
    )


ALL_DOUBTS = tuple(said("evidence that takes quite a few words to put down properly " * 2, code) for code in PHRASES)


def comparison(log_ratios: list[float], **changes: Any) -> ComparisonResult:
    first, second = (rounds([ratio * place for ratio in log_ratios]) for place in (0.0, 1.0))
    return compared(measurement(found=first, **changes), measurement(found=second, **changes), 14.2)


def rounds(levels: list[float]) -> Samples:
    """Samples with a round for each of these logarithms of milliseconds."""
    return Samples(
        tuple(
            Block(number, number + block / 10, array("q", [round(math.exp(level) * 1e6)] * 20))
            for number, level in enumerate(levels)
            for block in range(5)
        ),
        30,
    )
