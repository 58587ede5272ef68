"""Studies of copies to be shown: one where copies cost much, one where only little could be timed."""

from __future__ import annotations

from hasten.core import doubts
from hasten.core.measurement import Model
from hasten.core.plan import Plan
from hasten.core.remark import remark, said
from hasten.core.statistics import Interval
from hasten.practices.copies.facts import CopiesFound
from hasten.practices.copies.rules import measured_row, refused_row
from hasten.runner.copy_ways import BY_KEY

_REFUSED = said("the gpu keeps tensors in its own memory and must copy them")


def typical() -> CopiesFound:
    """Copies that take as long as the inference, and most kinds of rows."""
    rows = [
        *(measured_row(BY_KEY["copying"], way, Interval(23.3, 22.8, 23.4), 24.5) for way in ("in", "out", "both")),
        *(measured_row(BY_KEY["views"], way, Interval(0.66, 0.6, 0.7), 24.5) for way in ("in", "out", "both")),
        measured_row(BY_KEY["signature"], "both", Interval(-1.5, -40.0, 1470.0), 24.5),
        measured_row(BY_KEY["list"], "in", Interval(4300.0, float("-inf"), float("inf")), 24.5),
        *(refused_row(BY_KEY[key], _REFUSED) for key in ("host", "unaligned")),
        refused_row(BY_KEY["reshape"], remark("copies.not-timed")),
    ]
    return CopiesFound(
        model=Model("/models/large.tflite", 1000, "0" * 64),
        plan=Plan(),
        rows=tuple(rows),
        inference_us=24.5,
        inference_ci95_us=(24.4, 24.6),
        input_bytes=1 << 20,
        output_bytes=1 << 20,
        snippet="print('hello')\n",
        language="python",
        processes=3,
        doubts=(remark(doubts.NOISY, half_width=0.08),),
    )


def odd() -> CopiesFound:
    """Only a mistake was timed before Ctrl-C."""
    rows = (
        measured_row(BY_KEY["list"], "in", Interval(9.0, 8.0, 10.0), 24.5),
        refused_row(BY_KEY["views"], remark("copies.not-timed")),
    )
    model = Model("/models/a_model_with_a_long_name_for_a_file.tflite", 1000, "0" * 64)
    return CopiesFound(model, Plan(threads=4), rows, 24.5, (24.4, 24.6), 4, 4, processes=1, interrupted=True)
