"""Tunings to be shown: one that paid, one that was cut short before it kept a limit, and others for other goals."""

from __future__ import annotations

import math
from dataclasses import replace

from hasten.core import doubts
from hasten.core.accuracy import Accuracy
from hasten.core.comparison import Comparison, Verdict
from hasten.core.floor import FloorState
from hasten.core.goal import Amount, Goal
from hasten.core.plan import Plan
from hasten.core.remark import remark
from hasten.core.statistics import Interval
from hasten.core.trial import ORIGINAL, Purpose, Status, Step, Trial
from hasten.practices.practice import Evidence
from hasten.search.facts import TuneFound, front_of
from hasten.search.tuning import goal_notes, nine_findings

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


def undecided() -> TuneFound:
    """A file that keeps a limit which the original breaks, confirmed on a machine that was too busy to tell."""
    first, second = typical().steps
    busy = Verdict.UNDECIDED
    steps = (replace(first, verdict=busy), replace(second, ci95=(0.6, 1.04), verdict=busy))
    final = Comparison(busy, 0.4, (0.36, 0.63), rounds=6, smallest_detectable=math.inf, contention=1.2)
    best = replace(_BEST, against=final)
    findings = nine_findings(Evidence([_START, best], best, _START, steps))
    return replace(typical(), best=best, findings=tuple(findings), steps=steps, final=final, notes=())


def for_energy() -> TuneFound:
    """The least energy, with a limit on latency that is undecided, and time that was lacking."""
    start = replace(_START, amounts={"energy": Amount(22.0, (21.5, 22.6)), "start": Amount(31.0, (30.0, 32.2))})
    best = replace(
        _BEST,
        plan=Plan(),
        latency=Interval(2.1, 2.05, 2.16),
        doubts=(),
        amounts={"energy": Amount(8.9, (8.6, 9.2)), "start": Amount(24.0, (23.0, 25.1))},
    )
    step = Step(
        "quantize",
        4.0,
        2.1,
        0.405,
        (0.39, 0.42),
        remark("step.variant", variant="int8+float9", recipe="static_int8", float_nodes=9),
        Verdict.FASTER,
        Goal.ENERGY,
        (22.0, 8.9),
    )
    findings = nine_findings(Evidence([start, best], best, start, (step,), confirmed=True))
    return replace(
        typical(),
        original=start,
        best=best,
        findings=tuple(findings),
        front=front_of([start, best], [Goal.ENERGY]),
        steps=(step,),
        final=Comparison(Verdict.FASTER, 0.405, (0.39, 0.42), 0.02, 6),
        timed=Comparison(Verdict.FASTER, 0.525, (0.51, 0.54), 0.02, 6),
        goal=Goal.ENERGY,
        notes=(
            remark("tune.limit-undecided", limit="latency", asked=2.1, value=2.1, ci95=[2.05, 2.16]),
            *goal_notes(Goal.ENERGY),
        ),
        untried=(
            remark("untried.plans", trials=["original@npu, 2 threads", "float16@cpu, 2 threads"]),
            remark("untried.recipes", recipes=["static_int16"]),
            remark("untried.accuracy", trials=["weight_only_int4@cpu, 1 thread"]),
            remark("untried.mix", variant="weight_only_int4"),
            remark("untried.practices", practices=["accelerators", "threads"]),
            remark("untried.combinations", count=12, total=40),
        ),
        command="hasten tune model.tflite --data data.npz --for energy --limit latency=2.1ms -o tuned",
    )


def for_size() -> TuneFound:
    """The smallest file, on the plan that runs it fastest."""
    steps = (
        typical().steps[0],
        replace(typical().steps[1], ratio=0.383, ci95=(0.383, 0.383), goal=Goal.SIZE, amounts=(1_434_432, 549_800)),
    )
    final = Comparison(Verdict.FASTER, 549_800 / 1_434_432, (0.383, 0.383), 0.01, 5)
    return replace(
        typical(),
        goal=Goal.SIZE,
        findings=tuple(nine_findings(Evidence([_START, _BEST], _BEST, _START, steps, confirmed=True))),
        steps=steps,
        final=final,
        timed=typical().final,
        notes=tuple(goal_notes(Goal.SIZE)),
    )


def for_throughput() -> TuneFound:
    """Nothing is proven better, and the original stays; what came close is named."""
    start = replace(_START, amounts={"throughput": Amount(480.0, (470.0, 490.0))})
    return replace(
        typical(),
        original=start,
        best=start,
        findings=tuple(nine_findings(Evidence([start, _BEST], start, start))),
        steps=(),
        final=None,
        goal=Goal.THROUGHPUT,
        notes=(
            remark("tune.not-confirmed", trial="float16@cpu, 1 thread", verdict="same", ratio=0.99, goal="throughput"),
            *goal_notes(Goal.THROUGHPUT),
        ),
        untried=(remark("untried.undecided", trials=["float16@cpu, 1 thread"]),),
    )


def odd() -> TuneFound:
    """Ctrl-C after the first rounds, without data; a limit that nothing keeps yet."""
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
        unreachable=(remark("tune.not-reached", limit="latency", asked=0.5, nearest=4.0),),
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
