"""Studies of operators to be shown: one with a gain, one with nothing to gain, one cut short, one with
counters."""

from __future__ import annotations

import math

from hasten.core import doubts
from hasten.core.comparison import Comparison, Verdict
from hasten.core.measurement import Model
from hasten.core.plan import Plan
from hasten.core.remark import Remark, remark
from hasten.measure.layer_times import LayerTime
from hasten.practices.operators.facts import OperatorsFound, Place, Tried

FASTER = Comparison(Verdict.FASTER, 0.653, (0.641, 0.665), 0.03, 5)
LAYOUT = Comparison(Verdict.FASTER, 0.86, (0.85, 0.87), 0.02, 5)
STEM = Comparison(Verdict.FASTER, 0.79, (0.78, 0.8), 0.02, 5)
WRONG = remark("operators.not-equal", error=3e-4, tolerance=1e-6)
SAME = Comparison(Verdict.SAME, 1.002, (0.997, 1.007), 0.015, 5)
UNDECIDED = Comparison(Verdict.UNDECIDED, 0.981, (0.94, 1.02), 0.06, 3)
CRASHED = remark("operators.failed", message="The runner crashed in native code (SIGSEGV) while loading the model.")


def typical() -> OperatorsFound:
    """A detector in NCHW that wins by a third, and most kinds of rows."""
    places = (
        Place("TRANSPOSE", tuple(range(3, 220)), "onnx/Transpose_1", 9.1, 0.21, 8.8, "memory", True, ("layout",)),
        Place("STRIDED_SLICE", (0, 1, 2, 4), "focus/slice", 4.6, 0.11, None, None, False, ("space-to-depth",)),
        Place("CONV_2D", (7, 9), "backbone/conv_3;relu", 11.0, 0.26, 1.2, "compute", True, ()),
    )
    tried = (
        Tried("layout", (3, 5), 218, 0.0, 0.0, 8, LAYOUT, True, _why("faster")),
        Tried("space-to-depth", (0, 1), 1, 0.0, 0.0, 8, STEM, True, _why("faster")),
        Tried("pad-into-same", (11,), 1, 0.0, 0.0, 8, SAME, False, _why("same")),
        Tried(
            "activations",
            (12,),
            3,
            1e-6,
            3e-4,
            8,
            None,
            False,
            remark("operators.not-equal", error=3e-4, tolerance=1e-6),
        ),
        Tried("together", (0, 1, 3, 5), 219, 0.0, 0.0, 8, FASTER, True, _why("faster")),
    )
    return OperatorsFound(
        model=Model("/models/detector.tflite", 36_000_000, "0" * 64),
        plan=Plan(),
        places=places,
        tried=tried,
        invoke_ms=43.0,
        seen=0.97,
        partitions=(5, 1),
        final=FASTER,
        latency_ms=(42.1, 27.5),
        max_error=0.0,
        path="rewritten/model.tflite",
        size_bytes=35_900_000,
        inputs="images",
        dropped_outputs=("embedding",),
        seconds=58.0,
        doubts=(remark(doubts.NOISY, half_width=0.08),),
    )


def odd() -> OperatorsFound:
    """Cut short before anything was decided."""
    tried = (
        Tried("layout", (3,), 1, 0.0, 0.0, 6, UNDECIDED, False, remark("operators.undecided", rounds=3)),
        Tried("widening", (4,), 1, 1e-6, None, 0, None, False, CRASHED),
    )
    place = Place("CUSTOM", (3,), "", 0.4, 0.5, None, None, False, ("layout",))
    return OperatorsFound(
        Model("/models/x.tflite", 10, "0" * 64),
        Plan(threads=2),
        (place,),
        tried,
        0.8,
        0.9,
        partitions=(1, 0),
        interrupted=True,
    )


def nothing() -> OperatorsFound:
    """The usual answer."""
    place = Place("CONV_2D", (0, 4), "stem", 0.5, 0.31, 0.02, "compute", True, ())
    return OperatorsFound(Model("/models/m.tflite", 10, "0" * 64), Plan(), (place,), (), 1.6, 0.96, partitions=(1, 0))


def counted() -> OperatorsFound:
    """On an accelerator whose back end has counters of its own."""
    layers = (
        LayerTime("Add_6035", "Subgraph", "jit_avx512_f32", 0.015, 0.1),
        LayerTime("Convolution_93", "Convolution", "brgconv_avx512_bf16", 0.12, 0.8, 0, 2),
        LayerTime("SOFTMAX_id_67", "Softmax", "jit_avx512_f32", 0.015, 0.1, 0, 65),
    )
    model = Model("/models/m.tflite", 10, "0" * 64)
    return OperatorsFound(model, Plan(accelerator="npu"), (), (), 0.3, 0.0, layers=layers, partitions=(1, 0))


def _why(verdict: str) -> Remark:
    facts = {"ratio": 1.0, "ci95": (0.99, math.inf), "rounds": 5}
    return remark(f"operators.{verdict}", **facts)
