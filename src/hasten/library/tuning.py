"""All of the guide in one call: the fastest model and plan that keep the accuracy asked for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from hasten.core.plan import Plan, Workload
from hasten.data.preprocess import Preprocess
from hasten.library.changing import data_to_judge_by
from hasten.library.opening import open_model
from hasten.measure.rounds import Progress, no_progress
from hasten.targets.local import LocalTarget
from hasten.tune.folder import TuneFolder
from hasten.tune.settings import TuneSettings, settings_data
from hasten.tune.tuning import Tuning
from hasten.tune.workshop import Workshop

if TYPE_CHECKING:
    import os

    from hasten.bundle.record import Bundle
    from hasten.core.session import Session
    from hasten.core.tuning import TuneResult
    from hasten.targets.base import Target


def tune(
    model: str | os.PathLike[str],
    folder: str | os.PathLike[str],
    plan: Plan = Plan(),
    workload: Workload = Workload(),
    *,
    data: str = "",
    calibration: str = "",
    preprocess: Preprocess = Preprocess(),
    metric: str = "",
    settings: TuneSettings | None = None,
    target: Target | None = None,
    resume: bool = False,
    progress: Progress = no_progress,
) -> TuneResult:
    """The fastest model and plan that keep the accuracy asked for, with proof, in a folder ready to ship."""
    tuning = study_tune(
        model,
        folder,
        plan,
        workload,
        data=data,
        calibration=calibration,
        preprocess=preprocess,
        metric=metric,
        settings=settings,
        target=target,
        resume=resume,
    )
    run_tune(tuning, progress)
    return tuning.found()


def study_tune(
    model: str | os.PathLike[str],
    folder: str | os.PathLike[str],
    plan: Plan = Plan(),
    workload: Workload = Workload(),
    *,
    data: str = "",
    calibration: str = "",
    preprocess: Preprocess = Preprocess(),
    metric: str = "",
    settings: TuneSettings | None = None,
    target: Target | None = None,
    resume: bool = False,
) -> Tuning:
    """A tuning that has not begun: whoever runs it can ask at any time what it has found so far."""
    from hasten.core.version import VERSION

    settings = replace(settings or TuneSettings(), has_data=bool(data))
    workload = replace(workload, seed=settings.seed)
    candidate, graph = open_model(model, plan, workload)
    where = target or LocalTarget()
    given = data_to_judge_by(graph, workload, data, calibration, preprocess, metric)
    asked = settings_data(candidate, given, settings, where.name)
    place = TuneFolder(Path(folder), asked, resume=resume, version=VERSION)
    workshop = Workshop(where, candidate, graph, given, settings.for_variants(), place, no_progress)
    return Tuning(workshop, settings, place, VERSION, _companions)


def run_tune(tuning: Tuning, progress: Progress = no_progress) -> None:
    """Run a tuning to its end; after Ctrl-C its folder holds the best so far as a bundle."""
    try:
        tuning.run(progress)
    except KeyboardInterrupt:
        if tuning.has_answer:
            tuning.conclude()
        raise
    finally:
        tuning.close()


def _companions(bundle: Bundle, session: Session) -> dict[str, str]:
    """What stands in a bundle beside the model and its plan: code that runs it, and the report."""
    from hasten.bundle.code import code_files
    from hasten.report.page import html_report

    return {**code_files(bundle), "report.html": html_report(session, source=str(bundle.folder / "session.jsonl"))}
