"""Profiles to be shown: a usual one, and one in which little is as it should be; and parts to build others from."""

from __future__ import annotations

from array import array
from dataclasses import replace
from typing import Any

from hasten.core import doubts
from hasten.core.block import Block, ProfiledRun, RawEvent
from hasten.core.measurement import Model
from hasten.core.plan import Plan
from hasten.core.profile import OperatorTime, PartitionTime, Peaks, Profile
from hasten.core.remark import remark
from hasten.core.samples import Samples
from hasten.measure.profiling import RawProfile
from hasten.targets.client import LoadReport


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
    fields = {"plan": Plan(), **fields, **changes}
    shared = tuple(replace(op, share=op.ms / fields["invoke_ms"] if fields["invoke_ms"] else 0.0) for op in operators)
    return Profile(model=model, operators=shared, **fields)


def raw(*runs: ProfiledRun) -> RawProfile:
    load = LoadReport(30.0, {"environment_ms": 10.0, "compile_ms": 20.0}, 5.0, "CompiledModel", 0, True, True, (), ())
    return RawProfile(runs, Samples((Block(0, 0.0, array("q", [1_000_000] * 20)),)), load)


def event(kind: str, tag: str, index: int, start_us: int, elapsed_us: int, subgraph: int = 0) -> RawEvent:
    return RawEvent(kind, tag, index, subgraph, start_us, elapsed_us)


def typical() -> Profile:
    """A small network on XNNPACK: 18 layers, of which convolutions take most."""
    kinds = ("CONV_2D", "DEPTHWISE_CONV_2D", "ADD")
    operators = [
        operator(
            index,
            kind := kinds[index % 3],
            ms := (0.24, 0.06, 0.008)[index % 3] * (1 + index / 40),
            shapes="1x48x48x24 → 1x48x48x96",
            macs=None if kind == "ADD" else 5_308_416 // (1 + index % 3),
            flops=221_184 if kind == "ADD" else 10_616_832,
            bytes=1_120_000,
            gflops=44.7 if kind != "ADD" else 7.1,
            bound="memory" if kind == "ADD" else "compute",
            headroom_ms=ms / 3,
            fused=("18 RELU",) if index == 17 else (),
        )
        for index in range(18)
    ]
    return profile(operators, "detector.tflite", invoke_ms=2.4, latency_ms=2.35, plain_ms=2.34)


def odd() -> Profile:
    """A delegate that tells nothing, mappings that are not sure, a loop that the profiler slows down, no peaks."""
    unknown: dict[str, Any] = dict.fromkeys(("macs", "flops", "bytes", "gflops", "bound", "headroom_ms"))
    operators = [
        operator(-1, "DELEGATE", 0.3, mapped="partition", fused=("0 CONV_2D", "1 TANH"), shapes="", **unknown),
        operator(2, "WHILE", 0.0004, mapped="engine", partition=None, kernels=(), **unknown),
        operator(3, "a_custom_operator_with_a_name_that_is_much_too_long_for_a_table", 1.2, mapped="ambiguous"),
        operator(4, mapped="guess"),
        operator(5, op="[bold]not markup[/bold]", location="new\nline\tand tab \x1b[31m", **unknown),
    ]
    told = (
        remark(doubts.UNSEEN, seen=0.31, rest="delegate"),
        remark(doubts.UNSEEN, seen=0.31, rest="short", short=2, operators=5),
        remark(doubts.UNSEEN, seen=0.31, rest="engine"),
        remark(doubts.PROFILING, cost=0.82, inside=["WHILE"]),
        remark(doubts.PROFILING, cost=7.5, inside=[]),
    )
    partitions = (
        PartitionTime(0, True, (0, 1), ("CONV_2D", "TANH"), 0.3),
        PartitionTime(1, False, (2,), ("WHILE",), 0.0004),
        PartitionTime(2, True, (3, 4), ("custom", "CONV_2D"), 1.7),
        PartitionTime(3, False, (5, 6), ("ADD", "ADD"), 0.5),
    )
    plan = Plan(threads=4, delegate="libvendor_delegate.so")
    return profile(operators, plan=plan, partitions=partitions, peaks=None, invoke_ms=2.8, doubts=told)


def unseen() -> Profile:
    """An accelerator whose compiler rewrote the graph, and of which the profiler sees little."""
    operators = [operator(-1, "Subgraph", 0.1, mapped="partition", macs=None, headroom_ms=None, shapes="")]
    partitions = (PartitionTime(0, True, (), ("Subgraph",), 0.1),)
    return profile(operators, plan=Plan("npu"), partitions=partitions, peaks=None)


def built_in() -> Profile:
    """No operator is delegated, and no time passed."""
    partitions = (PartitionTime(0, False, (0,), ("CONV_2D",), 0.0),)
    none: dict[str, Any] = {"invoke_ms": 0.0, "latency_ms": 0.0, "plain_ms": 0.0}
    return profile([operator(0, ms=0.0, mapped="engine", partition=None)], partitions=partitions, **none)
