"""Runs of a model as it is: timed, against limits, profiled, or once on a user's input."""

from __future__ import annotations

import contextlib
import pathlib
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from hasten.api.border import or_error
from hasten.api.explanation import explain_inputs
from hasten.core.comparison import DEFAULT_MARGIN
from hasten.core.errors import Interrupted, UsageError
from hasten.core.failure import Failure
from hasten.core.plan import Plan, Workload
from hasten.data.request import Data
from hasten.measure.arguments import checked
from hasten.measure.effort import Effort
from hasten.measure.opening import open_model

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from hasten.api.border import Path
    from hasten.bundle.record import Bundle
    from hasten.core.measurement import Measurement
    from hasten.core.profile import Profile
    from hasten.core.sustained import SustainedFound
    from hasten.data.preprocess import Preprocess
    from hasten.evaluate.evaluation import EvaluationData
    from hasten.evaluate.prediction import Prediction
    from hasten.gate.facts import CheckFound
    from hasten.gate.request import CheckRequest
    from hasten.measure.compare import ComparisonResult
    from hasten.measure.rounds import Candidate, Track
    from hasten.practices.profile.exports import ProfileTimeline


@checked
def bench(
    model: Path, plan: Plan = Plan(), workload: Workload = Workload(), *, data: Data = Data(), effort: Effort = Effort()
) -> Measurement:
    """The latency of a model with a plan, in fresh processes, with its confidence interval and every doubt.

    It runs on a sample of the data, or on seeded inputs.
    """
    from hasten.measure import bench as measure
    from hasten.measure.race import keep_round

    so_far: list[Measurement] = []

    def tell(track: Track) -> None:
        found = track.result()
        so_far[:] = [] if isinstance(found, Failure) else [found]
        keep_round(track, effort.keep, str(candidate.path))

    candidate = _fed_candidate(model, plan, workload, data)
    seconds = effort.seconds_or(measure.DEFAULT_SECONDS)
    with _interruptible(so_far):
        return or_error(measure.bench(effort.target, candidate, seconds, effort.progress, tell), candidate, effort)


def _fed_candidate(model: Path, plan: Plan, workload: Workload, data: Data) -> Candidate:
    """A model ready to be timed, on a sample of the data if there is any."""
    from hasten.data.tensor_forms import forms_from_graph
    from hasten.measure.rounds import Feed

    candidate, graph = open_model(model, plan, workload)
    if not data.source:
        return candidate
    given = explain_inputs(model, data, workload)
    return replace(candidate, feed=Feed(given.source, forms_from_graph(graph, workload), given.samples[0]))


@contextlib.contextmanager
def _interruptible(so_far: Sequence[object]) -> Iterator[None]:
    """Let Ctrl-C carry what is known by then."""
    try:
        yield
    except KeyboardInterrupt:
        if so_far:
            raise Interrupted(so_far[-1]) from None
        raise


@checked
def compare(
    first: tuple[Path, Plan],
    second: tuple[Path, Plan],
    workload: Workload = Workload(),
    *,
    margin: float = DEFAULT_MARGIN,
    data: Data = Data(),
    effort: Effort = Effort(),
) -> ComparisonResult:
    """Whether the second model and plan is faster than the first; differences below the margin count as none.

    Both run on the same sample of the data, or on seeded inputs.
    """
    from hasten.measure.compare import DEFAULT_SECONDS
    from hasten.measure.compare import compare as run

    one, other = (_fed_candidate(path, plan, workload, data) for path, plan in (first, second))
    result = run(effort.target, one, other, effort.seconds_or(DEFAULT_SECONDS), margin, effort.progress)
    return or_error(result, one, effort)


@checked
def sustain(
    model: Path, minutes: float, plan: Plan = Plan(), workload: Workload = Workload(), *, effort: Effort = Effort()
) -> SustainedFound:
    """How the latency of a model changes over minutes without a pause."""
    from hasten.core.sustained import SustainedFound
    from hasten.measure import bench as measure

    candidate, _ = open_model(model, plan, workload)
    try:
        found = or_error(measure.sustain(effort.target, candidate, minutes, effort.progress), candidate, effort)
    except Interrupted as interrupted:
        raise Interrupted(SustainedFound(candidate.model, plan, interrupted.found)) from None
    return SustainedFound(candidate.model, plan, found)


@checked
def check(model: Path, limits: Path | Mapping[str, Any] | CheckRequest, *, effort: Effort = Effort()) -> CheckFound:
    """Whether a model keeps its limits: a file of limits, limits such as {"latency": "5 ms"}, or a whole request.

    That a limit is broken is no error; that the model does not run is one.
    """
    from hasten.evaluate.evaluation import EvaluationOptions
    from hasten.gate.baseline import baseline_runs
    from hasten.gate.request import CheckRequest
    from hasten.gate.run import GateSubject, run

    asked = (limits if isinstance(limits, CheckRequest) else check_request(limits)).checked()
    candidate, _ = open_model(model, asked.plan, asked.workload)
    baseline, session = None, pathlib.Path(asked.baseline_session)
    if asked.baseline_model:
        baseline, _ = open_model(asked.baseline_model, asked.baseline_plan or asked.plan, asked.workload)
    subject = GateSubject(
        candidate,
        baseline,
        baseline_runs(session) if asked.baseline_session else None,
        _evaluation_data(asked.data) if asked.data.source else None,
        EvaluationOptions(asked.data.samples, skip_bad=asked.data.skip_bad, label_offset=asked.data.label_offset),
    )
    return or_error(run(asked, subject, effort), candidate, effort)


def _evaluation_data(data: Data) -> EvaluationData:
    from hasten.data.metrics import metric_from_text
    from hasten.data.preprocess import preprocess_from_text
    from hasten.data.sources import open_dataset
    from hasten.evaluate.evaluation import EvaluationData

    metric = metric_from_text(data.metric) if data.metric else None
    return EvaluationData(open_dataset(data.source), preprocess_from_text(data.preprocess), metric)


def check_request(limits: Path | Mapping[str, Any] = MappingProxyType({})) -> CheckRequest:
    """What a file of limits, or a mapping such as {"latency": "5 ms"}, asks `check` for."""
    from hasten.gate.request import request_from

    return request_from(limits)


@checked
def profile(
    model: Path,
    plan: Plan = Plan(),
    workload: Workload = Workload(),
    *,
    roofline: bool = True,
    effort: Effort = Effort(),
) -> Profile:
    """Each operator's time, mapped to the graph; with its headroom below the machine's peak if `roofline`."""
    from hasten.practices.profile.run import run

    candidate, graph = open_model(model, plan, workload)
    return or_error(run(candidate, graph, effort, roofline=roofline), candidate, effort)


def profile_export(found: Profile, form: str) -> str:
    """The text of a file for other programs: `csv`, or `model-explorer` (node data to lay over a graph)."""
    from hasten.practices.profile.exports import FORMS

    if form not in FORMS:
        raise UsageError(f"There is no form {form!r} of a profile.", f"Use one of: {', '.join(FORMS)}.")
    return FORMS[form](found)


@checked
def trace(
    model: Path, plan: Plan = Plan(), workload: Workload = Workload(), *, effort: Effort = Effort()
) -> ProfileTimeline:
    """Profiled runs as a timeline; its `trace_json()` opens in Perfetto and Chrome."""
    from hasten.practices.profile.run import record_timeline

    candidate, graph = open_model(model, plan, workload)
    return or_error(record_timeline(candidate, graph, effort), candidate, effort)


def run_once(
    model: Path,
    source: Path,
    plan: Plan = Plan(),
    workload: Workload = Workload(),
    *,
    preprocess: Preprocess | None = None,
    bundle: Bundle | None = None,
    effort: Effort = Effort(),
) -> Prediction:
    """Run a model once, in a process of its own, on what a file holds: arrays, an image, a WAV file.

    A bundle that the model comes from has labels for its classes, and the preprocessing where none is given.
    """
    from hasten.data.preprocess import preprocess_from_text
    from hasten.evaluate.prediction import predict

    candidate, graph = open_model(model, plan, workload)
    prepared = preprocess or preprocess_from_text(bundle.preprocess if bundle else "")
    labels, offset = (bundle.labels, bundle.label_offset) if bundle else ((), 0)
    found = predict(effort.target, candidate, graph, pathlib.Path(source), prepared, labels, offset)
    return or_error(found, candidate, effort)
