"""Searches for variants to be shown: a mix that pays, and one where much went wrong."""

from __future__ import annotations

import math
from dataclasses import replace

from hasten.core import accuracy_notes
from hasten.core.accuracy import Accuracy, Kind, PairedAccuracy
from hasten.core.comparison import Comparison, Verdict
from hasten.core.floor import FloorState
from hasten.core.goal import Goal
from hasten.core.remark import remark, said
from hasten.core.statistics import Interval
from hasten.core.trial import ORIGINAL, Purpose, Trial
from hasten.evaluate import words
from hasten.practices.quantize.facts import QuantizeFound, Sensitivity
from hasten.variants.io_types import IoTypes

_ACCURACY = Accuracy("top-1", 0.921, 0.895, 0.941, 500, "data.npz")
_CHANGE = PairedAccuracy("top-1", 500, -0.006, -0.028, 0.015)
_FLOOR = {"max_drop": 0.01, "kind": "points", "text": "at most 1 percentage point of top-1 lost"}
ORIGINAL_TRIAL = Trial(
    ORIGINAL,
    path="model.tflite",
    size_bytes=1_434_432,
    zipped_bytes=1_303_759,
    floor=FloorState.KEPT,
    reporting=_ACCURACY,
    latency=Interval(2.24, 2.23, 2.26),
)


def variant(name: str, size: int, ms: float, ratio: float, verdict: Verdict = Verdict.FASTER) -> Trial:
    """A variant that keeps the floor."""
    return Trial(
        name,
        recipe=name,
        path=f"out/{name}.tflite",
        size_bytes=size,
        zipped_bytes=size - 90_000,
        floor=FloorState.KEPT,
        latency=Interval(ms, ms * 0.98, ms * 1.03),
        against=Comparison(verdict, ratio, (ratio * 0.97, ratio * 1.03), 0.02, 6),
        choosing=_ACCURACY,
        reporting=replace(_ACCURACY, value=0.915),
        change=_CHANGE,
        drop=0.004,
    )


def typical() -> QuantizeFound:
    """An int8 variant with a few operators in float is the choice."""
    mix = replace(
        variant("int8+float9", 549_800, 1.25, 0.55),
        recipe="static_int8",
        purpose=Purpose.SLOW_NODES,
        parent="static_int8",
        float_nodes=tuple(range(9)),
        integer_share=0.99,
        notes=(
            remark("quantize.slow-nodes", ms=0.93, nodes=9, kinds=["HARD_SWISH (built-in kernel)"], more=0),
            said("The same note of all."),
        ),
    )
    slower = replace(
        variant("dynamic_int8", 546_064, 3.1, 1.38, Verdict.SLOWER), notes=(said("The same note of all."),)
    )
    broken = replace(
        variant("weight_only_int4", 389_000, 2.25, 1.0, Verdict.SAME),
        floor=FloorState.BROKEN,
        reporting=None,
        change=None,
        drop=0.069,
        choosing=replace(_ACCURACY, value=0.852, samples=58),
        notes=(said("The same note of all."),),
    )
    step = Trial("int8+float30", recipe="static_int8", purpose=Purpose.FLOOR, floor=FloorState.BROKEN)
    return QuantizeFound(
        model="/models/model.tflite",
        trials=(ORIGINAL_TRIAL, slower, broken, mix, step),
        chosen="int8+float9",
        path="out/chosen.tflite",
        max_drop=0.01,
        data="data.npz",
        floor=_FLOOR,
        sensitivity=(
            Sensitivity("static_int8", (4, 5), "CONV_2D and 1 more", "model/block_1/conv", 0.25, 0.1, "time"),
            Sensitivity("static_int8", (7,), "HARD_SWISH", "model/block_1/swish", math.inf, 0.1, "time"),
        ),
        notes=(remark(accuracy_notes.GUESSED_FLOAT),),
        feeding=("--data", "data.npz"),
    )


def odd() -> QuantizeFound:
    """Integers at the inputs, agreement instead of accuracy, a crash, a ruined output, bad samples; interrupted."""
    agreement = replace(_ACCURACY, kind=Kind.AGREEMENT, metric="mae", value=0.0213, low=0.02, high=0.022)
    ruined = replace(
        variant("static_int8", 546_064, 12.1, 5.4, Verdict.SLOWER),
        floor=FloorState.BROKEN,
        reporting=None,
        change=None,
        choosing=agreement,
        why=remark("trial.ruined-output", judged="class", output="boxes", error=12.0),
    )
    failed = Trial(
        "static_int16",
        recipe="static_int16",
        floor=FloorState.FAILED,
        why=remark("trial.failed", message="It [crashed]."),
    )
    return QuantizeFound(
        model="/models/model.tflite",
        trials=(replace(ORIGINAL_TRIAL, reporting=replace(agreement, value=0.0)), ruined, failed),
        chosen=ORIGINAL,
        path="out/chosen.tflite",
        goal=Goal.SIZE,
        max_drop=0.01,
        data="images",
        resumed=True,
        interrupted=True,
        skipped=tuple((f"{number}.png", f"images/{number}.png cannot be read.") for number in range(5)),
        io_types=IoTypes("int8"),
        types_still=(remark("search.types-still", ends="inputs", dtypes=["float32"], wanted="int8"),),
        notes=(
            remark("search.resumed", folder="out"),
            remark("search.io-types", types="int8 inputs", left_out=["float16", "dynamic_int8"]),
            remark("search.one-output-judged", output="class", count=2, metric="mae"),
            remark("search.setbacks", variants=["int8+float4"]),
            remark("search.sparsity", share=0.31, blocks=[], sparse_nodes=0),
            remark(words.FEW, samples=24),
        ),
    )


def already_quantized() -> QuantizeFound:
    """Nothing to do."""
    return QuantizeFound(
        model="/models/int8.tflite",
        trials=(ORIGINAL_TRIAL,),
        chosen=ORIGINAL,
        path="out/chosen.tflite",
        data="data.npz",
        already=said("int8.tflite is already quantized: 98 % of its weights are int8.", "quantize.already"),
    )
