"""Records to render: usual ones, and some that no machine ought to produce but one will."""

from __future__ import annotations

from array import array
from typing import Any

from hasten.core.block import Block, Conditions, ProfiledRun, RawEvent
from hasten.core.comparison import compare_rounds
from hasten.core.doubts import PHRASES
from hasten.core.measurement import Effective, Measurement, Model
from hasten.core.plan import Plan, Workload
from hasten.core.profile import OperatorTime, PartitionTime, Peaks, Profile
from hasten.core.remark import Remark, said
from hasten.core.samples import Samples
from hasten.measure.compare import ComparisonResult
from hasten.measure.profiling import RawProfile
from hasten.targets.client import LoadReport

HOSTILE = [
    "plain",
    "[bold]not markup[/bold] :smile:",
    "quotes \" and ' and , commas; semicolons",
    "new\nline\r\nand\ttab",
    "escape \x1b[31mred\x1b[0m \x00 \x07",
    "ünïcödé → 模型 🚀",
    "=cmd|' /C calc'!A0",
    "",
    "x" * 300,
    "very/long/" * 20 + "name",
]


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
    return ComparisonResult(compare_rounds(log_ratios), measurement(**changes), measurement(2.0, **changes), 14.2)


def operator(index: int, op: str = "CONV_2D", ms: float = 0.5, **changes: Any) -> OperatorTime:
    fields: dict[str, Any] = {
        "kernels": ("Convolution (NHWC, F32) IGEMM",),
        "location": f"layer_{index}/out",
        "shapes": "1x8x8x2 → 1x8x8x2",
        "share": 0.25,
        "partition": 0,
        "mapped": "exact",
        "events": (index + 1,),
        "macs": 4608,
        "flops": 9216,
        "bytes": 1200,
        "gflops": 18.4,
        "bound": "compute",
        "headroom_ms": 0.1,
    }
    return OperatorTime(index=index, op=op, ms=ms, **{**fields, **changes})


def profile(operators: list[OperatorTime], name: str = "model.tflite", **changes: Any) -> Profile:
    nodes = tuple(op.index for op in operators if op.index >= 0)
    labels = tuple(op.op for op in operators if op.index >= 0)
    fields: dict[str, Any] = {
        "latency_ms": 2.0,
        "plain_ms": 2.0,
        "profiled_ms": 2.1,
        "invoke_ms": 2.05,
        "coverage": 0.97,
        "runs": 40,
        "partitions": (PartitionTime(0, True, nodes, labels, 2.0),),
        "peaks": Peaks(1, 57.0, 212.0, ((196608, 80.0), (10**8, 12.0))),
    }
    model = Model(f"folder/{name}", 4_200_000, "ab" * 32)
    return Profile(model=model, plan=Plan(), operators=tuple(operators), **{**fields, **changes})


def raw(*runs: ProfiledRun) -> RawProfile:
    load = LoadReport(30.0, {"environment_ms": 10.0, "compile_ms": 20.0}, 5.0, "CompiledModel", 0, True, True, (), ())
    return RawProfile(runs, samples(), load)


def event(kind: str, tag: str, index: int, start_us: int, elapsed_us: int, subgraph: int = 0) -> RawEvent:
    return RawEvent(kind, tag, index, subgraph, start_us, elapsed_us)
