"""What an accelerator is worth: are its numbers right, and when is its start-up repaid?"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hasten.core.doubts import doubts_data
from hasten.core.json_numbers import finite, latency_data

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from hasten.core.comparison import Comparison
    from hasten.core.failure import Failure
    from hasten.core.plan import Plan
    from hasten.core.remark import Remark
    from hasten.core.statistics import Interval
    from hasten.practices.accelerators.break_even import Pays

RUNS, PARTIAL, IMPRECISE, WRONG, FAILED, MISSING = "runs", "partial", "imprecise", "wrong", "failed", "missing"
RIGHT: Final = "right"
# A sound back end rounds differently: half precision loses three digits, integer kernels some last bits, and rounding
# adds up through the layers. What is off by more than this typically is another answer; what is off by more than this
# somewhere may still be right where it counts, but nobody should believe it without testing its accuracy.
_TYPICAL_SHARE, _TYPICAL_STEPS = 0.05, 2.0
_WORST_SHARE, _WORST_STEPS = 0.30, 8.0
# Outputs that hardly differ from each other still carry the rounding of their size: a range is at least so much of it.
_LEAST_RANGE = 0.1
# Off by the whole range is no rounding, even if it happens on one input only.
_BEYOND = 1.0


@dataclass(frozen=True, slots=True)
class OutputError:
    """How far outputs are from the reference kernels', as a share of the reference's range; infinite for no numbers."""

    worst: float
    typical: float
    judgement: str
    """`right`, `imprecise` (some outputs are far off) or `wrong` (outputs are off throughout, or no numbers at all)."""


NO_NUMBERS: Final = OutputError(math.inf, math.inf, WRONG)


@dataclass(frozen=True, slots=True)
class AcceleratorRow:
    """One accelerator and what was found about it. None: not known, or not applicable."""

    name: str
    plan: Plan
    status: str
    why: str
    placed_ops: int | None = None
    total_ops: int | None = None
    partitions: int | None = None
    placed_macs: float | None = None
    """The share of the model's multiply-accumulates that it runs."""
    placed_bytes: float | None = None
    refused: tuple[str, ...] = ()
    """Operators that it left to the CPU, as `OP x count`."""
    error: OutputError | None = None
    latency: Interval | None = None
    p95_ms: float | None = None
    processes: int = 0
    init_ms: float | None = None
    first_run_ms: float | None = None
    peak_memory_mb: float | None = None
    against_cpu: Comparison | None = None
    break_even_runs: int | None = None
    cached_start_ms: float | None = None
    """Start-up (init and first run) with its cache filled, where caches were asked for."""
    stand_in: str = ""
    """What runs in the place of the device that this machine does not have."""
    doubts: tuple[Remark, ...] = ()
    failure: Failure | None = None
    pays: Pays | None = None
    """From which size of a network on it is faster, where that was asked for."""

    @property
    def start_ms(self) -> float | None:
        """From the file to the end of the first run."""
        return None if self.init_ms is None or self.first_run_ms is None else self.init_ms + self.first_run_ms

    def as_data(self) -> dict[str, Any]:
        """The row with the keys that the command line promises."""
        latency = self.latency
        return {
            "name": self.name,
            "status": self.status,
            "placed_ops": self.placed_ops,
            "total_ops": self.total_ops,
            "partitions": self.partitions,
            "placed_macs": self.placed_macs,
            "placed_bytes": self.placed_bytes,
            "refused": list(self.refused),
            "max_error": None if self.error is None else finite(self.error.worst),
            "typical_error": None if self.error is None else finite(self.error.typical),
            "latency": None
            if latency is None
            else {**latency_data(latency), "p95_ms": self.p95_ms, "processes": self.processes},
            "init_ms": self.init_ms,
            "first_run_ms": self.first_run_ms,
            "peak_memory_mb": self.peak_memory_mb,
            "against_cpu": None if self.against_cpu is None else self.against_cpu.as_data(),
            "break_even_runs": self.break_even_runs,
            "cached_start_ms": self.cached_start_ms,
            "stand_in": self.stand_in or None,
            "doubts": doubts_data(self.doubts),
            "failure": None if self.failure is None else {"stage": self.failure.stage, "kind": self.failure.kind},
            "why": self.why,
            "plan": asdict(self.plan),
            **({} if self.pays is None else self.pays.as_data()),
        }


def output_error(
    reference: Sequence[NDArray[np.float64]], found: Sequence[NDArray[np.float64]], steps: Sequence[float]
) -> OutputError:
    """Compare outputs with the reference's, array by array; `steps` are their quantisation steps, 0 for floats."""
    worst, typical, judgement = 0.0, 0.0, RIGHT
    for expected, got, step in zip(reference, found, steps, strict=True):
        numbers = np.isfinite(expected)
        if expected.shape != got.shape or not np.array_equal(expected[~numbers], got[~numbers], equal_nan=True):
            return NO_NUMBERS
        if not np.isfinite(got[numbers]).all():
            return NO_NUMBERS
        if not numbers.any():
            continue
        with np.errstate(over="ignore"):  # an infinite difference is off indeed
            spread = _spread(expected[numbers])
            off = np.abs(got[numbers] - expected[numbers]) / spread
            largest = float(off.max())
            usual = min(largest, math.sqrt(float((off**2).mean())))
        worst, typical = max(worst, largest), max(typical, usual)
        if usual > max(_TYPICAL_SHARE, _TYPICAL_STEPS * step / spread):
            judgement = WRONG
        elif judgement == RIGHT and largest > max(_WORST_SHARE, _WORST_STEPS * step / spread):
            judgement = IMPRECISE
    return OutputError(worst, typical, judgement)


def _spread(values: NDArray[np.float64]) -> float:
    return max(float(np.ptp(values)), _LEAST_RANGE * float(np.abs(values).max())) or 1.0


def worst_of(errors: Sequence[OutputError]) -> OutputError:
    """The errors on several inputs as one: wrong is what is wrong on most of them, or beyond all bounds on any."""
    wrong = sum(error.judgement == WRONG for error in errors)
    right = all(error.judgement == RIGHT for error in errors)
    beyond = any(error.judgement == WRONG and error.typical > _BEYOND for error in errors)
    judgement = RIGHT if right else WRONG if 2 * wrong > len(errors) or beyond else IMPRECISE
    typical = float(np.mean([error.typical for error in errors]))
    return OutputError(max(error.worst for error in errors), typical, judgement)


def beside_the_cpu(error: OutputError, cpu_typical: float) -> OutputError:
    """The error of a model whose outputs are choices, which another rounding tips over on random inputs.

    Where the CPU's own kernels (typically off by so much) are as far from the reference, the error says nothing.
    Otherwise it is a reason to test the accuracy, but no proof that anything is wrong.
    """
    if math.isinf(error.worst) or error.judgement == RIGHT:
        return error
    return replace(error, judgement=RIGHT if error.typical <= 2 * cpu_typical else IMPRECISE)


def break_even_runs(start_ms: float, run_ms: float, other_start_ms: float, other_run_ms: float) -> int | None:
    """After how many runs the dearer start-up is repaid by quicker runs; None if it never is, 0 if there is no debt."""
    saved = other_run_ms - run_ms
    debt = start_ms - other_start_ms
    if saved <= 0:
        return None
    return max(0, math.ceil(debt / saved))
