"""A gate for CI: does a model keep its limits?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from hasten.core.failure import RunnerFailed
from hasten.core.session import read_session
from hasten.data.metrics import metric_from_text
from hasten.data.sources import open_dataset
from hasten.gate.baseline import baseline_runs
from hasten.gate.request import CheckRequest, request_from
from hasten.gate.run import CheckPractice
from hasten.library.opening import error_of, open_model
from hasten.measure.rounds import Progress, no_progress
from hasten.targets.local import LocalTarget

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping
    from typing import Any

    from hasten.core.session import Keep
    from hasten.gate.rules import CheckResult
    from hasten.targets.base import Target


def check(
    model: str | os.PathLike[str],
    budget: str | os.PathLike[str] | Mapping[str, Any] | CheckRequest,
    *,
    target: Target | None = None,
    progress: Progress = no_progress,
) -> CheckResult:
    """Does a model keep its limits? `budget` is a budget file, limits such as {"latency": "5 ms"}, or a request."""
    practice = study_check(model, budget, target=target)
    run_check(practice, progress)
    return practice.found()


def study_check(
    model: str | os.PathLike[str],
    budget: str | os.PathLike[str] | Mapping[str, Any] | CheckRequest,
    *,
    target: Target | None = None,
    keep: Keep | None = None,
) -> CheckPractice:
    """A gate that has not begun: whoever runs it can ask at any time how it stands."""
    request = (budget if isinstance(budget, CheckRequest) else request_from(budget)).checked()
    candidate, _ = open_model(model, request.plan, request.workload)
    baseline = None
    if request.baseline_model:
        baseline, _ = open_model(request.baseline_model, request.baseline_plan or request.plan, request.workload)
    practice = CheckPractice(
        target or LocalTarget(),
        candidate,
        request,
        baseline,
        baseline_runs(read_session(Path(request.baseline_session))) if request.baseline_session else None,
        open_dataset(request.data) if request.data else None,
        metric_from_text(request.metric) if request.metric else None,
    )
    if keep is not None:
        practice.keep = keep
    return practice


def run_check(practice: CheckPractice, progress: Progress = no_progress) -> None:
    """Run a gate to its end. That a limit is broken is no error, but that the model does not run is one."""
    try:
        failed = practice.run(progress)
    except RunnerFailed as error:
        raise error_of(error.failure, practice.candidate) from error
    if failed is not None:
        candidate, failure = failed
        raise error_of(failure, candidate)
