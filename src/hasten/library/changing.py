"""Change a model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from hasten.core.failure import RunnerFailed
from hasten.core.plan import Plan, Workload
from hasten.data.forms import forms_from_graph
from hasten.data.metrics import metric_from_text
from hasten.data.preprocess import Preprocess
from hasten.data.sources import open_dataset, random_dataset
from hasten.library.opening import error_of, open_model
from hasten.measure.rounds import Progress, no_progress
from hasten.practices.quantize.run import QuantizePractice
from hasten.practices.quantize_folder import QuantizeFolder
from hasten.practices.quantize_records import QuantizeData, QuantizeSettings, settings_to_compare
from hasten.targets.local import LocalTarget

if TYPE_CHECKING:
    import os

    from hasten.model.graph import Graph
    from hasten.practices.quantize_records import QuantizeResult
    from hasten.targets.base import Target


def quantize(
    model: str | os.PathLike[str],
    folder: str | os.PathLike[str],
    plan: Plan = Plan(),
    workload: Workload = Workload(),
    *,
    data: str = "",
    calibration: str = "",
    preprocess: Preprocess = Preprocess(),
    metric: str = "",
    settings: QuantizeSettings | None = None,
    target: Target | None = None,
    progress: Progress = no_progress,
) -> QuantizeResult:
    """Variants of a model with measured accuracy, size and speed, and the best that keeps its accuracy."""
    practice = study_quantize(
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
    )
    run_quantize(practice, progress)
    return practice.found()


def study_quantize(
    model: str | os.PathLike[str],
    folder: str | os.PathLike[str],
    plan: Plan = Plan(),
    workload: Workload = Workload(),
    *,
    data: str = "",
    calibration: str = "",
    preprocess: Preprocess = Preprocess(),
    metric: str = "",
    settings: QuantizeSettings | None = None,
    target: Target | None = None,
) -> QuantizePractice:
    """A search for variants that has not begun: whoever runs it can ask at any time what it has found so far."""
    settings = settings or QuantizeSettings()
    candidate, graph = open_model(model, plan, workload)
    given = data_to_judge_by(graph, workload, data, calibration, preprocess, metric)
    place = QuantizeFolder(Path(folder), settings_to_compare(candidate, given, settings))
    return QuantizePractice(target or LocalTarget(), candidate, graph, given, settings, place)


def run_quantize(practice: QuantizePractice, progress: Progress = no_progress) -> None:
    """Run a search for variants to its end. What it has found until then is in its folder, however it ends."""
    try:
        practice.run(progress)
    except RunnerFailed as failed:
        raise error_of(failed.failure, practice.candidate) from failed
    finally:
        practice.close()


def data_to_judge_by(
    graph: Graph, workload: Workload, data: str, calibration: str, preprocess: Preprocess, metric: str
) -> QuantizeData:
    """The user's data; without any, random inputs, on which only agreement can be told."""
    dataset = open_dataset(data) if data else random_dataset(forms_from_graph(graph, workload).inputs)
    return QuantizeData(
        dataset,
        open_dataset(calibration) if calibration else None,
        preprocess,
        metric_from_text(metric) if metric else None,
    )
