"""Time a model on a plan: fresh processes, warm-up until steady, an interval and every reason to doubt it.

The latency is the median of undisturbed runs, those within 15 % of the quickest tenth; p95 has every run.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from hasten.cli import options
from hasten.cli.keeping import Keeper
from hasten.cli.output import show
from hasten.cli.progress import progress_bar
from hasten.core.codec import to_data
from hasten.core.doubts import doubts_data

if TYPE_CHECKING:
    import argparse

    from hasten.core.measurement import Measurement
    from hasten.core.plan import Plan, Workload
    from hasten.core.sustained import Sustained
    from hasten.targets.base import Target

EXAMPLES = """
hasten bench demo
hasten bench model.tflite
hasten bench model.tflite --threads 4 --seconds 20
hasten bench model.tflite --accelerator npu --json
hasten bench speech.tflite --shape audio=1x16000
hasten bench model.tflite --sustained 10
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    parser.add_argument("model", metavar="MODEL", help=options.MODEL_HELP)
    parser.add_argument(
        "--seconds",
        type=options.positive_float,
        default=6.0,
        metavar="S",
        help="about how long to measure (default: 6)",
    )
    parser.add_argument(
        "--sustained",
        type=options.positive_float,
        metavar="MINUTES",
        help="run without a pause; a median for each minute, and when throttling sets in",
    )
    options.add_plan(parser)
    options.add_workload(parser)
    options.add_target(parser)
    options.add_output(parser)


def run(arguments: argparse.Namespace) -> int:
    """Measure and show."""
    model, plan = options.model_and_plan(arguments.model, options.plan_from(arguments))
    workload, target = options.workload_from(arguments), options.target_from(arguments)
    if arguments.sustained:
        return _run_sustained(arguments, model, plan, workload, target)
    from hasten.library import bench
    from hasten.report.text import measurement_text

    session = options.session_from(arguments, "bench")
    with Keeper(session, "measurement", model) as keeper, progress_bar("timing") as progress:
        found = bench(
            model,
            plan,
            workload,
            target=target,
            seconds=arguments.seconds,
            progress=progress,
            on_round=lambda so_far: keeper.keep(to_data(so_far)),
        )
    show(options.as_json(bench_data(found)) if arguments.json else measurement_text(found))
    return 0


def bench_data(found: Measurement) -> dict[str, Any]:
    """A measurement with the keys that the command line promises."""
    samples = found.samples
    return {
        "model": asdict(found.model),
        "plan": asdict(found.plan),
        "effective": asdict(found.effective),
        "latency": {
            "median_ms": samples.median_ms,
            "ci95_ms": [samples.latency.low, samples.latency.high],
            "plain_median_ms": samples.plain_median_ms,
            "disturbed_share": samples.disturbed_share,
            "p95_ms": samples.p95_ms,
            "min_ms": samples.min_ms,
            "samples": samples.count,
            "processes": samples.processes,
        },
        "init_ms": found.init_ms,
        "first_run_ms": found.first_run_ms,
        "warm_up_runs": found.warm_up_runs,
        "peak_memory_mb": found.peak_memory_mb,
        "cpu_ms": samples.cpu_ms,
        "energy_mj": None if samples.joules is None else samples.joules * 1e3,
        "doubts": doubts_data(found.doubts),
    }


def _run_sustained(arguments: argparse.Namespace, model: str, plan: Plan, workload: Workload, target: Target) -> int:
    from hasten.library import sustain
    from hasten.report.text import sustained_text

    session = options.session_from(arguments, "bench --sustained")
    with Keeper(session, "sustained", model) as keeper, progress_bar("running") as progress:
        found: Sustained = sustain(model, arguments.sustained, plan, workload, target=target, progress=progress)
        keeper.keep(to_data(found))
    data = {"model": {"path": model}, "plan": asdict(plan), "sustained": to_data(found)}
    show(options.as_json(data) if arguments.json else sustained_text(model, plan, found))
    return 0
