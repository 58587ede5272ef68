"""Records of `bench` and `compare` to be shown: usual ones, and some that no machine ought to produce but one will."""

from __future__ import annotations

import math
from array import array
from dataclasses import replace
from typing import Any

from hasten.core import doubts
from hasten.core.block import Block, Conditions
from hasten.core.measurement import Effective, Measurement, Model
from hasten.core.plan import Plan, Workload
from hasten.core.remark import Remark, remark
from hasten.core.samples import Samples
from hasten.core.sustained import Minute, Sustained, SustainedFound
from hasten.measure.compare import ComparisonResult, compared


def _samples(latency_ms: float, *, processes: int = 4, spread: float = 0.02, **conditions: Any) -> Samples:
    """Runs that differ a little, the same ones each time."""
    blocks = []
    for process in range(processes):
        for place in range(5):
            around = [1 + spread * ((7 * process + 3 * place + run) % 11 - 5) / 5 for run in range(20)]
            times = array("q", [round(latency_ms * factor * 1e6) for factor in around])
            seen = {"cpu_seconds": sum(times) / 1e9, "wall_seconds": sum(times) / 1e9, **conditions}
            blocks.append(Block(process, process + place / 10, times, Conditions(**seen)))
    return Samples(tuple(blocks), 30)


def _measurement(
    latency_ms: float,
    name: str = "models/detector.tflite",
    plan: Plan = Plan(),
    told: tuple[Remark, ...] = (),
    samples: Samples | None = None,
    **effective: Any,
) -> Measurement:
    seen = {"accelerator": plan.accelerator, "threads": 1, "api": "CompiledModel", "zero_copy": True}
    return Measurement(
        Model(name, 4_200_000, "ab" * 32),
        plan,
        Workload(),
        Effective(**{**seen, "fully_accelerated": True, **effective}),
        samples or _samples(latency_ms),
        12.0 * latency_ms,
        3.0 * latency_ms,
        50,
        21.5,
        told,
    )


def bench_typical() -> Measurement:
    """A quiet machine."""
    return _measurement(1.5, samples=_samples(1.5, joules=0.4))


def bench_noisy() -> Measurement:
    """Every doubt that a latency can have of itself, and most of those from outside."""
    told = (
        remark(doubts.PARTIAL, failure="The runner was killed (signal 9)."),
        remark(doubts.NOT_STEADY),
        remark(doubts.LOAD_MISSING, cores=1.2, wanted=4),
    )
    samples = _samples(80.0, spread=0.6, processes=2, other_cores_busy=1.3, stolen_share=0.2, frequency_mhz=1800.0)
    return _measurement(80.0, told=told, samples=samples)


def bench_accelerator() -> Measurement:
    """An accelerator that took a part, with options, and a name that is too long."""
    plan = Plan("npu", 16, precision="fp16", options=tuple((f"vendor.option_{i}", "a long value") for i in range(4)))
    told = (remark(doubts.PARTIAL, asked="NPU"),)
    name = "models/" + "a_name_that_is_much_too_long_" * 4 + ".tflite"
    return _measurement(0.021, name, plan, told, accelerator="npu+cpu", api="Interpreter", fully_accelerated=False)


def bench_one_run() -> Measurement:
    """One block of one run."""
    return _measurement(12.0, samples=Samples((Block(0, 0.0, array("q", [12_000_000])),)))


def _rounds(levels: list[float], **conditions: Any) -> Samples:
    """Runs whose median in each round is known: 2 ms times the exponential of each level."""
    found = [_samples(2.0 * math.exp(level), processes=1, **conditions) for level in levels]
    blocks = [replace(block, runner=number) for number, one in enumerate(found) for block in one.blocks]
    return Samples(tuple(blocks), 30)


def _compared(
    log_ratios: list[float],
    names: tuple[str, str] = ("models/detector.tflite", "models/detector_int8.tflite"),
    **changes: Any,
) -> ComparisonResult:
    first, second = (
        _measurement(2.0, name, samples=_rounds([place * ratio for ratio in log_ratios]), **changes)
        for place, name in enumerate(names)
    )
    return compared(first, second, 14.2)


def compare_faster() -> ComparisonResult:
    """A clear gain."""
    return _compared([-0.5, -0.52, -0.51, -0.5, -0.49])


def compare_slower() -> ComparisonResult:
    """A loss, with a doubt of both."""
    return _compared([0.05, 0.055, 0.05, 0.06, 0.05, 0.055], told=(remark(doubts.NOT_STEADY),))


def compare_same() -> ComparisonResult:
    """No difference; two files of one name."""
    return _compared([0.001, -0.001, 0.0, 0.0, 0.001, -0.002], ("before/model.tflite", "after/model.tflite"))


def compare_noisy() -> ComparisonResult:
    """More noise than difference."""
    return _compared([0.3, -0.3, 0.2, -0.2, 0.1])


def compare_few_pairs() -> ComparisonResult:
    """A clear difference for which too few processes were run."""
    return _compared([0.5, 0.51])


def compare_busy() -> ComparisonResult:
    """Two threads next to a program that needs one of two cores."""
    seen = {"other_cores_busy": 1.0, "cores": 2, "wall_seconds": 1.0}
    first, second = (
        _measurement(2.0, plan=Plan(threads=threads), samples=_rounds(levels, **seen))
        for threads, levels in ((1, [0.0] * 6), (2, [0.1, 0.11, 0.09, 0.1, 0.12, 0.1]))
    )
    return compared(first, second, 11.0)


def compare_disturbed() -> ComparisonResult:
    """Pairs of processes that others disturbed."""
    return _compared([-0.5, -0.5, 2.0, 1.5, 2.2])


def compare_one_pair() -> ComparisonResult:
    """One pair of processes, from which no interval follows."""
    return _compared([0.1], plan=Plan(threads=2))


def _sustained(onset: int | None, slice_seconds: float = 60.0, cut_short: str | None = None) -> SustainedFound:
    slices = tuple(
        Minute(
            number,
            median := 1.0 + (0.2 if onset and number >= onset else 0.0),
            (0.99 * median, 1.01 * median),
            1.3 * median,
            41_000,
            40.0 + number,
            None,
        )
        for number in range(1, 7)
    )
    found = Sustained(slice_seconds, slices, onset, 0.2 if onset else 0.004, cut_short)
    return SustainedFound(Model("models/detector.tflite", 4_200_000, "ab" * 32), Plan(threads=2), found)


def sustained_steady() -> SustainedFound:
    """A device that keeps its speed."""
    return _sustained(None)


def sustained_throttling() -> SustainedFound:
    """A device that gets warm, and a runner that dies."""
    return _sustained(4, 12.0, "The runner was killed (signal 9).")
