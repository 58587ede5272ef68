"""What was found about applications: a typical program and trace, and odd ones."""

from __future__ import annotations

from dataclasses import replace

from hasten.core.platform_trace import NO_OPERATORS, TRUNCATED, TraceSource
from hasten.core.remark import remark
from hasten.practices.app.facts import (
    INPUT_CONVERTED,
    NO_CORE,
    CodeTime,
    Fault,
    Frames,
    Inferences,
    InsteadRow,
    ModelUse,
    NativeRuntime,
    OperatorRow,
    OperatorShare,
    Overhead,
    SchedulerTimes,
    SlowFrame,
    Split,
    ThreadSplit,
    TraceFound,
    WatchedFound,
)

FAULT = Fault(
    INPUT_CONVERTED,
    "/home/user/project/application.py",
    95,
    "Detector.detect",
    188.0,
    0.171,
    remark("app.input-not-contiguous", type="non-contiguous", bytes=1_050_000, calls=100, fit_ms=0.12),
)
SPLIT = Split(start_ms=300.0, load_ms=20.0, pre_ms=100.0, inference_ms=600.0, waiting_ms=80.0)


def watched() -> WatchedFound:
    """A program with one fault, a slow round and a model whose operators were measured."""
    operators = (OperatorShare("CONV_2D", 3, 0.8), OperatorShare("SOFTMAX", 1, 0.2))
    return WatchedFound(
        wall_ms=1100.0,
        split=SPLIT,
        thread="main",
        threads=(ThreadSplit(7, "main", 1100.0, SPLIT, 100),),
        findings=(FAULT,),
        doubts=(remark("app.queued", share=0.23),),
        command=("python", "application.py"),
        exit_code=0,
        code=(CodeTime("pre", "application.py", "prepare", 20, 90.0, 18),),
        models=(ModelUse("m.tflite", "ai_edge_litert", "Interpreter", None, 1, 100, 9.0, 6.0, 7.0, operators),),
        frames=Frames(100, 8.0, 9.0, 12.0, 330.0, (SlowFrame(3, 400.0, 30.0, 6.0),), ((400.0, 30.0, 6.0),)),
        overhead=Overhead(300, 600.0, 200, 4.0, 15.0, 19.2),
        processes=1,
    )


def clean() -> WatchedFound:
    """A program without a fault."""
    return replace(watched(), findings=(), doubts=())


def without_litert() -> WatchedFound:
    """A program that never used LiteRT, and failed."""
    split = Split(start_ms=300.0, other_ms=800.0)
    return replace(clean(), split=split, models=(), frames=None, exit_code=3)


def native() -> WatchedFound:
    """A program that runs LiteRT by ctypes."""
    return replace(without_litert(), exit_code=0, native=NativeRuntime(("/opt/lib/libtensorflowlite_c.so",), 3, 1234.0))


def unseen() -> WatchedFound:
    """A program that was not seen at all."""
    return replace(without_litert(), split=Split(), thread=None, threads=(), code=(), processes=0)


def recorded() -> TraceFound:
    """A trace of an application that waits for cores, cut off at its end."""
    split = Split(load_ms=30.0, pre_ms=40.0, inference_ms=160.0, post_ms=10.0, waiting_ms=95.0)
    fault = Fault(NO_CORE, "", 0, "", 40.0, 0.119, remark("app.no-core", thread="inference", share=0.25))
    return TraceFound(
        wall_ms=335.0,
        split=split,
        thread="inference",
        threads=(ThreadSplit(4100, "inference", 335.0, split, 20),),
        findings=(fault,),
        doubts=(remark(TRUNCATED, cause="packet", bytes=12), remark(NO_OPERATORS)),
        source=TraceSource("camera.perfetto-trace", "perfetto", "Perfetto trace", 52_000, False),
        process="com.example.camera (4100)",
        sampled=False,
        loads=1,
        allocations=1,
        inferences=Inferences(20, 9.1, 8.0, 8.4),
        scheduling=SchedulerTimes(120.0, 40.0, 0.0),
        partitions=1,
        operators=(OperatorRow("TfLiteXNNPackDelegate", 66, 0, True, 20, 100.0, 0.625),),
        instead=(
            InsteadRow("convertToBitmap", "inference", "pre", 40.0, 20),
            InsteadRow("", "surfaceflinger", "core", 40.0, 0),
        ),
        pid=4100,
    )
