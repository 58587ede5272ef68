"""The checks of a model file, and of what happened when it ran."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from hasten.core.failure import Failure
from hasten.practices.help.model_checks.findings import Subject, better, broken, good, not_applicable
from hasten.practices.help.model_checks.graph_checks import graph_checks
from hasten.practices.help.model_checks.range_checks import range_checks
from hasten.practices.help.model_checks.weight_checks import weight_checks

if TYPE_CHECKING:
    from hasten.core.measurement import Measurement
    from hasten.practices.help.facts import Check
    from hasten.practices.help.model_checks.facts import DelegateFit

RUNS, OUTPUTS, INTERFACE = "runs", "outputs", "interface"
CURRENT: Final = "CompiledModel"
"""The interface that has accelerators and a profiler, as a loaded model names it."""
# As a check of a delegate is called; the names of the tables are codes.
_DELEGATES: Final = {"xnnpack": "XNNPACK", "gpu": "GPU delegate", "nnapi": "NNAPI", "hexagon": "Hexagon"}


def static_checks(subject: Subject) -> list[Check]:
    """What the file alone tells."""
    return [*graph_checks(subject), *weight_checks(subject), *range_checks(subject)]


def run_check(result: Measurement | Failure, plan: str) -> Check:
    """Whether the model runs on a plan, and how fast."""
    if isinstance(result, Failure):
        told = {"stage": result.stage, "kind": result.kind, "message": result.message, "advice": result.hint}
        return broken(RUNS, "model.does-not-run", plan=plan, **told)
    latency = result.samples.latency
    # A single round has no interval.
    ci95 = [latency.low, latency.high] if math.isfinite(latency.high) else None
    return good(RUNS, "model.runs", plan=plan, median_ms=latency.estimate, ci95_ms=ci95)


def output_check(broken_outputs: int | None) -> list[Check]:
    """Whether outputs are numbers on seeded inputs; none where the model did not run."""
    if broken_outputs is None:
        return []
    if broken_outputs:
        return [broken(OUTPUTS, "model.outputs-not-finite", count=broken_outputs)]
    return [good(OUTPUTS, "model.outputs-finite")]


def interface_check(api: str | None) -> list[Check]:
    """Which interface of LiteRT loaded the model; none where it did not load."""
    if api is None:
        return []
    return [good(INTERFACE, "model.interface") if api == CURRENT else better(INTERFACE, "model.classic-only")]


def delegate_check(fit: DelegateFit) -> Check:
    """How much of the model a delegate takes."""
    name = _DELEGATES.get(fit.name, fit.name)
    if fit.wants_integers:
        return not_applicable(name, "delegate.wants-integers", delegate=fit.name)
    told = {
        "delegate": fit.name,
        "observed": fit.observed,
        "taken": fit.taken,
        "total": fit.total,
        "partitions": fit.partitions,
        "macs": fit.taken_macs,
        "share": fit.left_share,
        "refused": [
            {"op": row.op, "count": len(row.nodes), "code": row.why.code, "facts": dict(row.why.facts)}
            for row in fit.refusals
        ],
    }
    whole = fit.taken == fit.total and fit.partitions <= 1
    return good(name, "delegate.whole", **told) if whole else better(name, "delegate.partial", **told)
