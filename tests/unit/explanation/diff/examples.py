"""Diffs to show: equal models, rounding, a fault, integers, values that are no numbers, and everything odd."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from hasten.core.measurement import Model
from hasten.core.plan import Plan
from hasten.core.remark import remark, said
from hasten.explanation.diff.facts import CONSTANT, INSIDE, DiffFound, DiffOutput, DiffRow, Side, Status
from hasten.explanation.diff.rules import Divergence, first_divergent, ranked, verdict_of
from hasten.explanation.facts import Clipping, LossyInput
from hasten.model.matching import Certainty

DATA = remark("explain.inputs-data", source="folder/images.npz")
OPS = ("CONV_2D", "DEPTHWISE_CONV_2D", "ADD", "FULLY_CONNECTED", "SOFTMAX")


def _row(index: int, status: Status = Status.EQUAL, **fields: Any) -> DiffRow:
    op = OPS[index % len(OPS)]
    known = {"location": f"layer_{index}", "shape": "1x8x8x2", "differing": 0.0, "status": status, **fields}
    return DiffRow(index, index, op, Certainty.EXACT, **known)


def _found(rows: list[DiffRow], outputs: list[DiffOutput], divergence: dict[str, Any], **fields: Any) -> DiffFound:
    first = first_divergent(rows)
    whole = Divergence(rows, outputs, first, **divergence)
    known: dict[str, Any] = {
        "before": Side(Model("models/float.tflite", 1, "ab" * 32)),
        "after": Side(Model("models/int8.tflite", 1, "cd" * 32)),
        "samples": 8,
        "inputs": DATA,
        "is_random": False,
        "span": whole.span,
        **fields,
    }
    return DiffFound(verdict=verdict_of(whole), first=first, rows=tuple(ranked(rows)), outputs=tuple(outputs), **known)


def _on_plans(found: DiffFound) -> DiffFound:
    model = Model("models/float.tflite", 1, "ab" * 32)
    return replace(found, before=Side(model, Plan(kernel="reference")), after=Side(model, Plan(threads=2)))


def equal() -> DiffFound:
    """The same to the last bit."""
    return _found([_row(index) for index in range(5)], [DiffOutput("probabilities")], {})


def only_rounding() -> DiffFound:
    """One model on two kinds of kernels."""
    off: dict[str, Any] = {"differing": 0.4, "snr_db": 131.0, "max_error": 2.4e-7}
    alone = {"added_db": 134.0, "added_max_error": 1.2e-7, "expected_db": 100.0}
    rows = [_row(0, Status.ROUNDING, **off, **alone), _row(1, inherited_db=131.0, **off)]
    return _on_plans(_found(rows, [DiffOutput("y", 130.2, 3e-7, 0.4)], {"model": "models/float.tflite"}))


def fault() -> DiffFound:
    """One node of one plan is wrong."""
    wrong = {"added_db": 12.3, "added_max_error": 3.1, "expected_db": 100.0}
    rows = [
        _row(0),
        _row(1, Status.UNEXPLAINED, differing=0.25, snr_db=12.3, max_error=3.1, **wrong),
        _row(2, differing=0.9, snr_db=14.0, max_error=3.1, inherited_db=12.3),
        _row(3, Status.UNEXPLAINED, differing=0.9, snr_db=11.0, max_error=2.0, inherited_db=14.0, added_db=77.0),
    ]
    return _on_plans(_found(rows, [DiffOutput("y", 11.0, 2.0, 0.9)], {"model": "models/float.tflite"}))


def integers() -> DiffFound:
    """A quantized model without a fault; one tensor clips, and a conversion stands before the first layer."""
    rows = [
        _row(0, Status.PRECISION, differing=1.0, snr_db=39.0, max_error=0.02, added_db=41.0, expected_db=33.0),
        _row(1, Status.PRECISION, differing=1.0, snr_db=31.0, max_error=0.2, added_db=33.0, expected_db=30.0),
        replace(_row(2, Status.UNKNOWN, differing=None), why=remark(CONSTANT)),
        _row(3, Status.ROUNDING, differing=0.7, snr_db=30.5, max_error=0.2, added_db=104.0, expected_db=100.0),
    ]
    return _found(
        rows,
        [DiffOutput("probabilities", 35.2, 0.012, 0.8)],
        {"lossy": LossyInput("image", "int8", 39.3)},
        lossy_inputs=(LossyInput("image", "int8", 39.3),),
        clipped=(Clipping(1, None, 0.021, (-7.2, 8.1), (-6.0, 5.9)),),
    )


def clipping() -> DiffFound:
    """A range that is too small."""
    rows = [
        _row(0, Status.PRECISION, differing=1.0, snr_db=39.0, max_error=0.02, added_db=41.0, expected_db=33.0),
        _row(1, Status.CLIPPED, differing=1.0, snr_db=9.0, max_error=5.2, added_db=9.0, expected_db=30.0),
    ]
    clipped = Clipping(1, None, 0.21, (-7.2, 8.1), (-3.0, 2.9))
    divergence = {"clipped": {1: clipped.share}}
    return _found(rows, [DiffOutput("probabilities", 8.2, 0.5, 1.0)], divergence, clipped=(clipped,))


def other_training() -> DiffFound:
    """Two models with the same layers and other weights."""
    rows = [
        _row(
            index,
            Status.UNEXPLAINED,
            differing=1.0,
            snr_db=2.0 - index,
            max_error=4.0,
            added_db=1.5 - index,
            expected_db=33.0,
            causes=(remark("diff.weights", node=index, op=OPS[index], input=1, snr_db=-2.8, not_finite=0),),
        )
        for index in range(5)
    ]
    return _found(rows, [DiffOutput("probabilities", -1.7, 0.9, 1.0)], {})


def changed_files() -> DiffFound:
    """Every kind of difference that two files can have in a node."""
    causes = (
        remark("diff.operator", node=0, op="CONV_2D", before="DEPTHWISE_CONV_2D", after="CONV_2D"),
        remark("diff.order", node=0, op="CONV_2D"),
        remark("diff.option", node=0, op="CONV_2D", name="stride_w", before="1", after="2"),
        remark("diff.constant-values", node=0, op="CONV_2D", input=1, before=[0, 2, 1], after=[0, 1, 2]),
        remark("diff.range", node=0, op="CONV_2D", before=[-4.0, 3.97], after=[-1.0, 0.99]),
        remark("diff.weights", node=0, op="CONV_2D", input=2, snr_db=None, not_finite=3),
    )
    row = _row(0, Status.UNEXPLAINED, differing=1.0, snr_db=3.0, max_error=2.0, added_db=3.0, causes=causes)
    return _found([row], [DiffOutput("y", 3.0, 2.0, 1.0)], {})


def not_finite() -> DiffFound:
    """Overflow behind a node that is wrong."""
    rows = [
        _row(0),
        _row(1, Status.UNEXPLAINED, differing=0.5, snr_db=3.0, max_error=90.0, added_db=3.0, expected_db=100.0),
        _row(2, Status.NOT_FINITE, differing=0.5, not_finite=12, inherited_db=3.0),
    ]
    outputs = [DiffOutput("y", None, None, 0.5, 12), DiffOutput("classes", None, 3.0, 0.25)]
    return _found(rows, outputs, {"not_finite": 2})


def fusion() -> DiffFound:
    """Nodes that are wrong together, and right alone."""
    rows = [_row(index, Status.ROUNDING, differing=0.2, snr_db=128.0, added_db=131.0) for index in range(4)]
    divergence = {"span": (1, 2), "is_fusion": True}
    return _on_plans(_found(rows, [DiffOutput("y", 22.0, 0.4, 1.0)], divergence, disturbance_db=22.0))


def odd() -> DiffFound:
    """Nodes without a counterpart, some that could not be run, a choice, random inputs, disturbed outputs."""
    rows = [
        _row(0, Status.UNEXPLAINED, differing=1.0, snr_db=9.0, max_error=1.0, added_db=9.0, only_before=("#1 RELU",)),
        replace(_row(1, Status.UNKNOWN, differing=None), match=Certainty.NONE, why=remark(INSIDE, node=0)),
        replace(_row(2, Status.UNKNOWN, differing=1.0, snr_db=8.0), why=remark("diff.not-alone")),
        replace(_row(3, Status.UNKNOWN, differing=None), match=Certainty.NONE, why=remark("diff.added")),
        replace(_row(4, Status.UNKNOWN, differing=None), why=said("The engine stopped.")),
        DiffRow(None, 1, "RELU", why=remark("diff.gone")),
    ]
    return _found(
        rows,
        [],
        {},
        inputs=remark("explain.inputs-unit"),
        is_random=True,
        disturbance_db=50.0,
        clipped=(Clipping(None, "x", 0.5, (-1.0, 1.0), (0.0, 1.0)),),
        lossy_inputs=(LossyInput("x", "uint8", -math.inf),),
        notes=(
            remark("explain.skipped", samples=1, first="3.png is no image."),
            remark("diff.first-not-finite", node=3, op="EXP", values=1),
            remark("diff.choice", node=4, op="ARG_MAX", share=0.031, inherited_db=98.0),
        ),
    )


def span() -> DiffFound:
    """An operator that nobody could run alone."""
    rows = [
        _row(0),
        replace(_row(1, Status.UNKNOWN, differing=None), why=remark("diff.not-alone")),
        _row(2, differing=1.0, snr_db=20.0, max_error=0.5),
    ]
    return _found(rows, [DiffOutput("y", 20.0, 0.5, 1.0)], {"span": (1, 1)})
