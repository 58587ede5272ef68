"""Tunings to be shown: one that paid, and one that was cut short with a limit out of reach."""

from __future__ import annotations

from dataclasses import replace

from hasten.core import doubts
from hasten.core.accuracy import Accuracy
from hasten.core.comparison import Comparison, Verdict
from hasten.core.floor import FloorState
from hasten.core.plan import Plan
from hasten.core.remark import remark
from hasten.core.statistics import Interval
from hasten.core.trial import ORIGINAL, Purpose, Status, Step, Trial
from hasten.practices.practice import Evidence
from hasten.search.facts import TuneFound, front_of
from hasten.search.tuning import nine_findings

_TOP_1 = Accuracy("top-1", 0.921, 0.90, 0.94, 500, "data.npz")
_START = Trial(
    ORIGINAL,
    status=Status.KEPT,
    floor=FloorState.KEPT,
    latency=Interval(4.0, 3.9, 4.1),
    reporting=_TOP_1,
    drop=0.0,
    size_bytes=1_434_432,
)
_BEST = Trial(
    "int8+float9",
    Plan(threads=2),
    recipe="static_int8",
    purpose=Purpose.SLOW_NODES,
    parent="static_int8",
    float_nodes=tuple(range(9)),
    status=Status.CHOSEN,
    floor=FloorState.KEPT,
    latency=Interval(1.6, 1.55, 1.66),
    against=Comparison(Verdict.FASTER, 0.4, (0.38, 0.43), 0.02, 6),
    reporting=replace(_TOP_1, value=0.918),
    drop=0.003,
    size_bytes=549_800,
    doubts=(remark(doubts.OTHER_LOAD, cores=0.4), remark(doubts.NOISY, half_width=0.1)),
)


def typical() -> TuneFound:
    """Two threads and int8, confirmed."""
    final = Comparison(Verdict.FASTER, 0.4, (0.385, 0.417), 0.02, 6)
    steps = (
        Step("threads", 4.0, 2.5, 0.625, (0.61, 0.64), remark("step.threads", threads=2, before=1), Verdict.FASTER),
        Step(
            "quantize",
            2.5,
            1.6,
            0.64,
            (0.62, 0.66),
            remark("step.variant", variant="int8+float9", recipe="static_int8", float_nodes=9),
            Verdict.FASTER,
        ),
    )
    trials = [_START, _BEST]
    findings = nine_findings(Evidence(trials, _BEST, _START, steps, confirmed=True))
    return TuneFound(
        "/models/model.tflite",
        _START,
        _BEST,
        "tuned/model.tflite",
        tuple(findings),
        front_of(trials),
        steps,
        final,
        17,
        94.6,
        notes=(remark("tune.simpler", trial="static_int16@npu, 2 threads", than="original@npu, 2 threads"),),
        folder="tuned",
        files=("model.tflite", "plan.json", "report.html"),
        command="hasten tune model.tflite --data data.npz -o tuned",
        max_drop=0.01,
        floor={"text": "at most 1 percentage point of top-1 lost"},
    )


def odd() -> TuneFound:
    """Ctrl-C after the first rounds, without data; a limit that nothing keeps."""
    start = replace(_START, reporting=None)
    npu = Trial(
        ORIGINAL,
        Plan(accelerator="npu", threads=2),
        status=Status.FAILED,
        why=remark("trial.failed", message="The NPU has no driver here."),
    )
    return TuneFound(
        "/models/model.tflite",
        start,
        start,
        "tuned/model.tflite",
        tuple(nine_findings(Evidence([start, npu], start, start))),
        (start,),
        (),
        None,
        1,
        2.1,
        interrupted=True,
        unreachable=(remark("tune.unreachable", limit="latency", asked=0.5, nearest=4.0),),
        notes=(
            remark(
                "search.no-variants",
                message="The quantizer is not installed.",
                hint="Run pip install hasten[quantize].",
            ),
            remark("tune.not-confirmed", trial="float16@cpu, 1 thread", verdict="undecided", ratio=0.97),
        ),
        folder="tuned",
        files=("model.tflite", "plan.json"),
    )
