"""Change a model, and explain what a change did."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from hasten.core.failure import RunnerFailed
from hasten.core.plan import Plan, Workload
from hasten.data.forms import forms_from_graph
from hasten.data.metrics import metric_from_text
from hasten.data.preprocess import Preprocess
from hasten.data.sources import open_dataset, random_dataset
from hasten.explain import run as explain_module
from hasten.explain.inputs import GivenInputs, inputs_from_data
from hasten.library.opening import error_of, open_model
from hasten.library.timing import peaks_of
from hasten.measure.rounds import FailedCandidate, Progress, no_progress
from hasten.practices.quantize.run import QuantizePractice
from hasten.practices.quantize_folder import QuantizeFolder
from hasten.practices.quantize_records import QuantizeData, QuantizeSettings, settings_to_compare
from hasten.targets.local import LocalTarget

if TYPE_CHECKING:
    import os

    from hasten.core.comparison import Comparison
    from hasten.explain.facts import Explanation
    from hasten.model.graph import Graph
    from hasten.practices.quantize_records import QuantizeResult
    from hasten.targets.base import Target


def explain(
    original: str | os.PathLike[str],
    changed: str | os.PathLike[str],
    plan: Plan = Plan(),
    workload: Workload = Workload(),
    *,
    original_plan: Plan | None = None,
    target: Target | None = None,
    seconds: float = explain_module.DEFAULT_SECONDS,
    roofline: bool = False,
    data: str | GivenInputs = "",
    preprocess: Preprocess = Preprocess(),
    skip_bad: bool = False,
    comparison: Comparison | None = None,
    progress: Progress = no_progress,
) -> Explanation:
    """Why the changed model is slower, or wrong: both side by side, node by node.

    `data` names inputs (as open_dataset takes them) on which the numbers of both are compared, prepared for the
    original as `preprocess` says; or it is what `inputs_to_explain` has prepared. A `comparison` of these two that was
    made before saves making one here.
    """
    inputs = None
    if isinstance(data, GivenInputs):
        inputs = data
    elif data:  # bad data are said before the work, not after
        inputs = inputs_to_explain(original, data, workload, preprocess=preprocess, skip_bad=skip_bad)
    subjects = [
        explain_module.Subject(*open_model(path, asked, workload))
        for path, asked in ((original, original_plan or plan), (changed, plan))
    ]
    where = target or LocalTarget()
    peaks = peaks_of(where, plan, progress) if roofline else None
    result = explain_module.explain(
        where, *subjects, seconds=seconds, peaks=peaks, inputs=inputs, comparison=comparison, progress=progress
    )
    if isinstance(result, FailedCandidate):
        raise error_of(result.failure, result.candidate)
    return result


def inputs_to_explain(
    original: str | os.PathLike[str],
    data: str,
    workload: Workload = Workload(),
    *,
    preprocess: Preprocess = Preprocess(),
    skip_bad: bool = False,
) -> GivenInputs:
    """The samples of the data on which `explain` compares two models, as the original is fed."""
    _, graph = open_model(original, workload=workload)
    return inputs_from_data(graph, workload, open_dataset(data), preprocess, skip_bad=skip_bad)


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
