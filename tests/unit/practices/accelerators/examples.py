"""Examinations of accelerators to be shown: a win with reservations, more threads that are faster than an accelerator,
nothing faster, and nothing that runs."""

from __future__ import annotations

import math
from dataclasses import replace

from hasten.core import doubts
from hasten.core.comparison import Comparison, compare_rounds
from hasten.core.failure import Failure
from hasten.core.plan import Plan
from hasten.core.remark import remark
from hasten.core.statistics import Interval
from hasten.practices.accelerators.facts import AcceleratorRow, AcceleratorsFound, LadderPoint, Latency, Status
from hasten.practices.accelerators.placement import YNNPACK_OPTION
from hasten.practices.accelerators.rules import together, why_of

_COMPARED = {"max_error": 0.001, "typical_error": 0.0001, "compared_with": "reference"}
_WHOLE = {"placed_ops": 66, "total_ops": 66, "partitions": 1, "placed_macs": 1.0, "placed_bytes": 1.0}


def typical() -> AcceleratorsFound:
    """A faster NPU that kept two cores busy, a GPU that runs a part, and what is missing."""
    rows = [
        _ran("xnnpack", Plan(), 2.24, 6.06),
        _two_threads(),
        _ran("builtin", Plan(kernel="builtin"), 7.06, 9.47, ratio=3.15, rounds=1, cpu_threads=1),
        _missing("ynnpack", Plan(options=(YNNPACK_OPTION,)), "This release of LiteRT was built without YNNPACK."),
        _ran(
            "gpu",
            Plan(accelerator="gpu"),
            4.3,
            513.0,
            ratio=1.92,
            against_all_cores=_against(3.65),
            cpu_threads=2,
            status=Status.PARTIAL,
            placed_ops=64,
            refused=("SQUEEZE x1", "SOFTMAX x1"),
            stand_in="a software GPU (SwiftShader), because this machine has no GPU",
        ),
        _ran(
            "npu",
            Plan(accelerator="npu"),
            0.83,
            128.7,
            ratio=0.37,
            against_all_cores=_against(0.703),
            cpu_threads=2,
            break_even_runs=350,
            max_error=0.008,
            doubts=(remark(doubts.MORE_CORES, cores=2.0, threads=1),),
        ),
    ]
    return AcceleratorsFound("/models/digits.tflite", tuple(rows))


def more_threads() -> AcceleratorsFound:
    """A GPU that is slower than XNNPACK with all cores, and an NPU that may be faster."""
    rows = [
        _ran("xnnpack", Plan(), 2.24, 6.06),
        _two_threads(),
        _ran("gpu", Plan(accelerator="gpu"), 1.8, 513.0, ratio=0.8, against_all_cores=_against(1.525), cpu_threads=2),
        _ran(
            "npu", Plan(accelerator="npu"), 1.1, 128.7, ratio=0.49, against_all_cores=_against(0.932, 2), cpu_threads=2
        ),
    ]
    return AcceleratorsFound("/models/digits.tflite", tuple(rows))


def stay() -> AcceleratorsFound:
    """Nothing that may be used is faster: one is wrong, one imprecise; sizes were tried as well."""
    comparison = compare_rounds([0.4] * 6)
    points = tuple(
        LadderPoint(macs, Interval(1.0, 0.9, 1.1), Interval(1.5, 1.4, 1.6), comparison) for macs in (500_000, 4_000_000)
    )
    trouble = remark("accelerators.ladder-failed", macs=31_000_000, message="the runner died of SIGABRT")
    rows = [
        _ran("xnnpack", Plan(), 2.24, 6.06),
        _ran("gpu", Plan(accelerator="gpu"), 1.1, 513.0, ratio=0.5, status=Status.IMPRECISE, max_error=0.42),
        _ran(
            "npu",
            Plan(accelerator="npu"),
            0.9,
            128.7,
            ratio=0.4,
            status=Status.WRONG,
            max_error=None,
            typical_error=None,
            ladder=points,
            ladder_trouble=trouble,
        ),
    ]
    return AcceleratorsFound("/models/digits.tflite", tuple(rows), "data/digits", interrupted=True)


def nothing() -> AcceleratorsFound:
    """Only the CPU runs the model."""
    crash = Failure("load", "crash", "the runner died of SIGSEGV", "Try another driver.")
    why = remark("accelerators.failed", message=crash.message, hint=crash.hint)
    rows = (
        _ran("xnnpack", Plan(), 2.24, 6.06),
        AcceleratorRow("gpu", Status.FAILED, Plan(accelerator="gpu"), failure=crash, why=why),
        _missing("npu", Plan(accelerator="npu"), "The NPU accelerator needs OpenVINO.", "Run pip install openvino."),
    )
    return AcceleratorsFound("/models/digits.tflite", rows)


def _ran(name: str, plan: Plan, median_ms: float, start_ms: float, **more: object) -> AcceleratorRow:
    ratio, rounds = more.pop("ratio", None), more.pop("rounds", 6)
    assert isinstance(rounds, int)
    against = _against(ratio, rounds) if isinstance(ratio, float) else None
    row = AcceleratorRow(
        name,
        Status.RUNS,
        plan,
        latency=Latency(median_ms, (median_ms * 0.97, median_ms * 1.04), median_ms * 1.1, rounds),
        init_ms=start_ms * 0.9,
        first_run_ms=start_ms * 0.1,
        peak_memory_mb=92.0,
        against_cpu=against,
    )
    row = replace(row, **{**_COMPARED, **_WHOLE, **more})  # type: ignore[arg-type]
    return replace(row, why=why_of(row, chooses=False))


def _two_threads() -> AcceleratorRow:
    return _ran("xnnpack 2 threads", Plan(threads=2), 1.18, 6.3, ratio=0.527, cpu_threads=1, break_even_runs=1)


def _against(ratio: float, rounds: int = 6) -> Comparison:
    return compare_rounds([math.log(ratio) + 0.001 * (number % 2) for number in range(rounds)])


def _missing(name: str, plan: Plan, message: str, hint: str = "") -> AcceleratorRow:
    why = together([remark("accelerators.failed", message=message, hint=hint)])
    return AcceleratorRow(name, Status.MISSING, plan, why=why)
