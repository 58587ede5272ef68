"""The functions of hasten. The command line, the pytest plug-in and users all come through here; `import hasten` offers
the most used of them under its own name.

Each function measures and returns a record, or raises a HastenError; after Ctrl-C, what was found until then comes as
`Interrupted.found`. `blocks` and `document` show any of these records: on a terminal, on a page, as JSON.
"""

from __future__ import annotations

import contextlib
import importlib
import pathlib
import tempfile
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeVar

from hasten.core.checks import ABOVE_ZERO, check_kind, check_number, path_text, text_of
from hasten.core.comparison import DEFAULT_MARGIN
from hasten.core.errors import Interrupted, ModelError, UsageError
from hasten.core.failure import Failure, RunnerFailed
from hasten.core.goal import Goal
from hasten.core.plan import Plan, Workload
from hasten.data.request import Data
from hasten.measure.arguments import checked
from hasten.measure.effort import Effort
from hasten.measure.opening import error_of, open_model
from hasten.measure.rounds import FailedCandidate, no_progress
from hasten.practices.accelerators.facts import AcceleratorOptions
from hasten.practices.help.facts import DoctorOptions
from hasten.practices.operators.facts import OperatorOptions
from hasten.practices.threads.facts import QUIET, SITUATIONS
from hasten.retraining.options import HeadOptions, RetrainOptions, TrainingOptions

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from hasten.bundle.record import Bundle
    from hasten.core.comparison import Comparison
    from hasten.core.measurement import Measurement
    from hasten.core.profile import Profile
    from hasten.core.session import Session, SessionWriter
    from hasten.core.sustained import SustainedFound
    from hasten.data.preprocess import Preprocess
    from hasten.data.request import OpenData
    from hasten.evaluate.evaluation import EvaluationData
    from hasten.evaluate.prediction import Prediction
    from hasten.explanation.diff.facts import DiffFound
    from hasten.explanation.facts import ExplainFound
    from hasten.explanation.numbers import GivenInputs
    from hasten.explanation.recorded_inputs import PartFound
    from hasten.fleet.cluster import Cluster, Tls
    from hasten.fleet.facts import FleetFound
    from hasten.fleet.worker import WorkerRequest
    from hasten.gate.facts import CheckFound, Limits
    from hasten.gate.request import CheckRequest
    from hasten.measure.compare import ComparisonResult
    from hasten.measure.rounds import Candidate, Progress, Track
    from hasten.model.graph import Graph
    from hasten.practices.accelerators.facts import AcceleratorsFound
    from hasten.practices.app.facts import TraceFound, WatchedFound
    from hasten.practices.app.run import Timeline, Watching
    from hasten.practices.choose.facts import CatalogueFound, ChooseFound, ChooseRequest
    from hasten.practices.copies.facts import CopiesFound
    from hasten.practices.help.facts import CleanFound, DevicesFound, DoctorFound, IssueBundle, ModelFound
    from hasten.practices.operators.facts import OperatorsFound
    from hasten.practices.profile.exports import ProfileTimeline
    from hasten.practices.quantize.facts import QuantizeFound
    from hasten.practices.threads.facts import ThreadsFound
    from hasten.report.live import Serving
    from hasten.retraining.facts import RetrainFound
    from hasten.search.facts import TuneFound
    from hasten.search.settings import SearchSettings
    from hasten.show.blocks import Block
    from hasten.targets.base import Target
    from hasten.variants.io_types import IoTypes
    from hasten.variants.recipes import RECIPE_NAMES

    Path = str | os.PathLike[str]

T = TypeVar("T")
# Records that have no `view` beside their module → the module that shows them.
_VIEWS: Final = {
    "ComparisonResult": "hasten.report.timing",
    "Measurement": "hasten.report.timing",
    "Prediction": "hasten.report.prediction",
    "Profile": "hasten.practices.profile.view",
    "SustainedFound": "hasten.report.timing",
}

__all__ = [
    "RECIPE_NAMES",
    "AcceleratorOptions",
    "ChooseRequest",
    "Data",
    "DoctorOptions",
    "Effort",
    "Fleet",
    "HeadOptions",
    "IoTypes",
    "OperatorOptions",
    "RetrainOptions",
    "SearchSettings",
    "Tls",
    "TrainingOptions",
    "WorkerRequest",
    "accelerators",
    "app",
    "app_trace",
    "bench",
    "blocks",
    "catalogue",
    "check",
    "check_request",
    "choose",
    "choose_limits",
    "clean_devices",
    "compare",
    "copies",
    "cut",
    "devices",
    "diff",
    "diff_overlay",
    "doctor",
    "doctor_model",
    "document",
    "explain",
    "explain_inputs",
    "get_model",
    "has_charts",
    "kernel_delegate",
    "markdown",
    "new_delegate",
    "new_kernel",
    "operators",
    "practice",
    "profile",
    "profile_export",
    "quantize",
    "read_session",
    "retrain",
    "run_once",
    "serve_report",
    "serve_worker",
    "session_lines",
    "session_pictures",
    "session_report",
    "set_up_device",
    "sustain",
    "target",
    "threads",
    "trace",
    "tune",
    "watch",
]


@checked
def bench(
    model: Path, plan: Plan = Plan(), workload: Workload = Workload(), *, data: Data = Data(), effort: Effort = Effort()
) -> Measurement:
    """The latency of a model with a plan, in fresh processes, with its confidence interval and every doubt.

    It runs on a sample of the data, or on seeded inputs.
    """
    from hasten.measure import bench as measure

    so_far: list[Measurement] = []

    def tell(track: Track) -> None:
        found = track.result()
        so_far[:] = [] if isinstance(found, Failure) else [found]

    candidate = _fed_candidate(model, plan, workload, data)
    seconds = effort.seconds_or(measure.DEFAULT_SECONDS)
    with _interruptible(so_far):
        return _found(measure.bench(effort.target, candidate, seconds, effort.progress, tell), candidate, effort)


@checked
def sustain(
    model: Path, minutes: float, plan: Plan = Plan(), workload: Workload = Workload(), *, effort: Effort = Effort()
) -> SustainedFound:
    """How the latency of a model changes over minutes without a pause."""
    from hasten.core.sustained import SustainedFound
    from hasten.measure import bench as measure

    candidate, _ = open_model(model, plan, workload)
    found = _found(measure.sustain(effort.target, candidate, minutes, effort.progress), candidate, effort)
    return SustainedFound(candidate.model, plan, found)


@checked
def check(model: Path, limits: Path | Mapping[str, Any] | CheckRequest, *, effort: Effort = Effort()) -> CheckFound:
    """Whether a model keeps its limits: a file of limits, limits such as {"latency": "5 ms"}, or a whole request.

    That a limit is broken is no error; that the model does not run is one.
    """
    from hasten.core.session import read_session
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
        baseline_runs(read_session(session)) if asked.baseline_session else None,
        _evaluation_data(asked.data) if asked.data.source else None,
        EvaluationOptions(asked.data.samples, skip_bad=asked.data.skip_bad, label_offset=asked.data.label_offset),
    )
    return _found(run(asked, subject, effort), candidate, effort)


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
    return _found(result, one, effort)


@checked
def explain(
    original: tuple[Path, Plan],
    changed: tuple[Path, Plan],
    workload: Workload = Workload(),
    *,
    inputs: GivenInputs | None = None,
    comparison: Comparison | None = None,
    roofline: bool = False,
    effort: Effort = Effort(),
) -> ExplainFound:
    """Why the changed model is faster, slower or wrong: both side by side, node by node.

    Numbers are compared on `inputs` (see `explain_inputs`), or on random ones. A comparison of these two that was made
    before saves making one here.
    """
    from hasten.explanation.inner_tensors import Subject
    from hasten.explanation.run import Known, run
    from hasten.measure.peaks import peaks_first

    first, second = (Subject(*open_model(path, plan, workload)) for path, plan in (original, changed))
    peaks = _found(peaks_first(effort, changed[1].threads), second.candidate, effort) if roofline else None
    return _found(run(first, second, effort, Known(comparison, inputs, peaks)), first.candidate, effort)


def explain_inputs(original: Path, data: Data, workload: Workload = Workload()) -> GivenInputs:
    """Samples of the data on which `explain` compares two models, prepared for the original."""
    from hasten.data.preprocess import preprocess_from_text
    from hasten.data.sources import open_dataset
    from hasten.explanation.numbers import inputs_from_data

    _, graph = open_model(original, workload=workload)
    preprocess = preprocess_from_text(data.preprocess)
    found = inputs_from_data(graph, workload, open_dataset(data.source), preprocess, skip_bad=data.skip_bad)
    return replace(found, preprocess=data.preprocess)


@checked
def diff(
    first: tuple[Path, Plan],
    second: tuple[Path, Plan],
    workload: Workload = Workload(),
    *,
    inputs: GivenInputs | None = None,
    effort: Effort = Effort(),
) -> DiffFound:
    """Where the second model, or the first one on another plan, diverges from the first: the node, and what each adds.

    Both run on `inputs` (see `explain_inputs`), or on random ones. Each node is then run alone, on the values that it
    has in the first model. That they diverge is no error.
    """
    from hasten.explanation.diff.run import run
    from hasten.explanation.inner_tensors import Subject

    one, other = (Subject(*open_model(path, plan, workload)) for path, plan in (first, second))
    return _found(run(one, other, effort, inputs), one.candidate, effort)


def diff_overlay(found: DiffFound) -> str:
    """Node data for Model Explorer: the error that each node of the second model adds."""
    from hasten.explanation.diff.view import model_explorer

    return model_explorer(found)


@checked
def threads(
    model: Path,
    plan: Plan = Plan(),
    workload: Workload = Workload(),
    *,
    load: str = QUIET,
    counts: Sequence[int] = (),
    effort: Effort = Effort(),
) -> ThreadsFound:
    """How many threads to use, in the situation that `load` names; the plan is the one in use now."""
    from hasten.practices.threads.run import run

    if load not in SITUATIONS:
        raise UsageError(f"There is no situation {load!r}.", f"Use one of: {', '.join(SITUATIONS)}.")
    candidate, _ = open_model(model, plan, workload)
    return _found(run(candidate, load, tuple(counts), effort), candidate, effort)


@checked
def choose(
    request: ChooseRequest | None = None, *, output: Path | None = None, effort: Effort = Effort()
) -> ChooseFound:
    """Models for a task on this device: size, accuracy and latency of each, the Pareto front, and the one to take.

    `output` is a folder for the session and for files that are quantized; the same call again goes on from there.
    """
    import tempfile

    from hasten.core.version import VERSION
    from hasten.practices.choose.facts import ChooseRequest as Request
    from hasten.practices.choose.run import Workplace, run
    from hasten.search.folder import session_folder

    asked = request or Request()
    with tempfile.TemporaryDirectory(prefix="hasten-") as name:
        built = pathlib.Path(name)
        if output is None:
            return _chosen(run(asked, Workplace(built, built), effort), effort)
        folder = pathlib.Path(path_text("output", output))
        with session_folder(folder, "choose", VERSION) as (session, lines):
            place, kept = Workplace(built, folder / "models", lines), replace(effort, keep=session.add)
            return _recorded(lambda: _chosen(run(asked, place, kept), effort), session)


def choose_limits(limits: Mapping[str, Any]) -> Limits:
    """Limits for `choose` from names and quantities, such as {"latency": "20 ms", "accuracy": "70 %"}."""
    from hasten.gate.request import limits_from_mapping
    from hasten.practices.choose.rules import LIMIT_NAMES

    if unknown := [name for name in limits if name not in LIMIT_NAMES]:
        raise UsageError(f"A choice has no limit {unknown[0]!r}.", f"Known names: {', '.join(LIMIT_NAMES)}.")
    return limits_from_mapping(limits)


def get_model(
    name: str, folder: Path | None = None, *, precision: str = "", files: Sequence[Path] = (), effort: Effort = Effort()
) -> pathlib.Path:
    """Download a trained model of the catalogue, into a folder or else into the cache; its file.

    Without a precision it is the first that the catalogue knows; files add to the catalogue.
    """
    from hasten.practices.choose import catalogue as known

    place = None if folder is None else pathlib.Path(path_text("folder", folder))
    more = [pathlib.Path(file) for file in files]
    return known.get(name, place, effort.progress, precision=precision, files=more)


def catalogue(task: str = "", files: Sequence[Path] = ()) -> CatalogueFound:
    """The models of the catalogue: those for a task, or all; files add to it."""
    from hasten.practices.choose.candidates import listed_catalogue

    return listed_catalogue(task, [pathlib.Path(file) for file in files])


def _chosen(found: ChooseFound | Failure | FailedCandidate, effort: Effort) -> ChooseFound:
    """What was found; that the target fails, or that none of the models runs, is an error."""
    if isinstance(found, FailedCandidate):
        raise error_of(found.failure, found.candidate, effort.target)
    if isinstance(found, Failure):
        raise found.error(Plan())
    return found


def _recorded(measure: Callable[[], T], session: SessionWriter) -> T:
    """What was found, in the session as well; after Ctrl-C, what there was by then."""

    def keep(found: object) -> None:
        for line in session_lines(found):
            session.add(*line)

    try:
        found = measure()
    except Interrupted as interrupted:
        keep(interrupted.found)
        raise
    keep(found)
    return found


@checked
def copies(
    model: Path,
    plan: Plan = Plan(),
    workload: Workload = Workload(),
    *,
    language: str = "python",
    effort: Effort = Effort(),
) -> CopiesFound:
    """What each way to feed and read a model costs, and the one to use, with code in a language (empty for none)."""
    from hasten.bundle.code import refuse_language
    from hasten.bundle.record import Bundle
    from hasten.practices.copies.run import run

    candidate, graph = open_model(model, plan, workload)
    if language:
        refuse_language(language, Bundle(candidate.path.parent, plan=plan, workload=workload))
    return _found(run(candidate, graph, language, effort), candidate, effort)


@checked
def app(
    command: Sequence[str],
    *,
    output: int | None = None,
    timeline: Timeline | None = None,
    replay: bool = True,
    effort: Effort = Effort(),
) -> WatchedFound:
    """Where the time of a Python program goes: run it under watch, then measure its models by themselves (`replay`).

    `output` is the descriptor of its standard output; `timeline` takes the text of a timeline for Perfetto.
    """
    from hasten.practices.app.run import run

    return run(command, output, timeline, effort, replay=replay)


@checked
def app_trace(path: Path, kind: str = "", *, timeline: Timeline | None = None, effort: Effort = Effort()) -> TraceFound:
    """What a trace of Perfetto, atrace, perf, py-spy or Instruments says about LiteRT in an application.

    `kind` names its format, which hasten detects otherwise; `timeline` takes the text of a timeline for Perfetto.
    """
    from hasten.practices.app.run import run_trace

    return run_trace(pathlib.Path(path), kind, timeline, effort.progress)


@checked
def watch(*, seconds: float = 0.0) -> Watching:
    """Watch the code of a `with`: `with hasten.watch() as seen: …`, then `seen.result`, `seen.findings`.

    `seconds`: how long to measure the models by themselves afterwards, as the command does.
    """
    from hasten.practices.app.run import Watching

    return Watching(seconds)


@checked
def accelerators(
    model: Path,
    workload: Workload = Workload(),
    *,
    threads: int = 1,
    options: AcceleratorOptions = AcceleratorOptions(),
    effort: Effort = Effort(),
) -> AcceleratorsFound:
    """What each accelerator does with a model: does it run, all of it, correctly, faster, and when does it pay."""
    from hasten.practices.accelerators.run import run

    candidate, graph = open_model(model, Plan(threads=threads), workload)
    return _found(run(candidate, graph, options, effort), candidate, effort)


def new_delegate(folder: Path) -> list[pathlib.Path]:
    """Write a small, complete external delegate in C into a new folder; its files."""
    from hasten.practices.accelerators.new_delegate import write_delegate

    return write_delegate(pathlib.Path(folder))


def new_kernel(folder: Path, model: Path, replaces: str, *, effort: Effort = Effort()) -> list[pathlib.Path]:
    """Write a starting point for a kernel in C into a new folder, with a test; its files.

    `replaces` names nodes of the model: an operator (HARD_SWISH), a chain (MUL,ADD) or numbers (12 or 12:15).
    """
    from hasten.custom_kernels.new_kernel import write_kernel

    return write_kernel(pathlib.Path(folder), pathlib.Path(model), replaces, effort.target)


def kernel_delegate(folder: Path, *, effort: Effort = Effort()) -> pathlib.Path:
    """Build hasten's own kernels as an external delegate, for models that must stay as they are; its library."""
    from hasten.custom_kernels.build import build_delegate, toolchain_for

    built = build_delegate(pathlib.Path(folder), toolchain_for(effort.target))
    if isinstance(built, Failure):
        raise built.error(Plan())
    return built.path


def doctor(effort: Effort = Effort()) -> DoctorFound:
    """Whether a machine is fit to measure on, and what is missing there."""
    from hasten.practices.help.run import run

    return run(effort)


@checked
def doctor_model(
    model: Path,
    plan: Plan = Plan(),
    workload: Workload = Workload(),
    *,
    options: DoctorOptions = DoctorOptions(),
    out: Path = "",
    announce: Callable[[IssueBundle], None] | None = None,
    effort: Effort = Effort(),
) -> ModelFound:
    """What is wrong with a model, and what would make it better; with `out`, also an issue bundle (a zip archive).

    That the model does not run is a finding, no error. `announce` is told what the bundle will hold before it is
    written.
    """
    from hasten.practices.help.examination import Examination, model_candidate, refuse_options, say_nothing, with_doubts

    place = pathlib.Path(out) if out else None
    refuse_options(options, place)
    candidate, graph = model_candidate(pathlib.Path(model), plan)
    candidate = with_doubts(replace(candidate, workload=workload), graph)
    with tempfile.TemporaryDirectory(prefix="hasten-") as folder:
        examination = Examination(candidate, graph, options, pathlib.Path(folder), place)
        return _found(examination.run(effort, announce or say_nothing), candidate, effort)


@checked
def target(name: str = "local", *, seconds: float = 120.0, wait_seconds: float = 0.0) -> Target:
    """A device for `Effort(on=…)`: local, ssh://[user@]host[:port], or a name of the file of targets.

    `seconds` is the time limit for one request, `wait_seconds` how long to wait where another session has the device.
    Close it at the end: `with contextlib.closing(hasten.api.target(name)) as device: …`
    """
    from hasten.targets.base import Limits
    from hasten.targets.target_file import target_named

    return target_named(name, Limits(seconds, wait_seconds=wait_seconds))


def devices(names: Sequence[str] = (), *, progress: Progress = no_progress) -> DevicesFound:
    """The targets that are named, or all that are known, each with its machine."""
    from hasten.practices.help.run import devices as look

    return look(names, progress)


def clean_devices(names: Sequence[str] = (), *, progress: Progress = no_progress) -> CleanFound:
    """Remove all that hasten has stored on these devices, or on all that are known."""
    from hasten.practices.help.run import clean

    return clean(names, progress)


def set_up_device(name: str, *, progress: Progress = no_progress) -> DevicesFound:
    """Install LiteRT on a device, in an environment of hasten's own there."""
    from hasten.practices.help.run import set_up

    found = set_up(name, progress)
    if isinstance(found, Failure):
        raise found.error(Plan())
    return found


@checked
def operators(
    model: Path,
    plan: Plan = Plan(),
    workload: Workload = Workload(),
    *,
    options: OperatorOptions = OperatorOptions(),
    data: Data = Data(),
    out: Path = "",
    effort: Effort = Effort(),
) -> OperatorsFound:
    """Which operators are worth work, and a rewritten model where that is equal and proven faster.

    Outputs are compared on the data, or on seeded noise. The rewritten model is written into the folder `out`.
    """
    from hasten.bundle.record import MODEL_FILE
    from hasten.practices.operators.run import run, write_model

    place = pathlib.Path(out) / MODEL_FILE if out else None
    if place is not None and place.exists():
        raise UsageError(f"{place} already exists.", "Choose another folder.")
    candidate, graph = open_model(model, plan, workload)
    inputs = explain_inputs(model, data, workload) if data.source else None
    with tempfile.TemporaryDirectory(prefix="hasten-") as folder:
        found = _found(run(candidate, graph, pathlib.Path(folder), effort, options, inputs), candidate, effort)
        return write_model(found, place)


def cut(
    model: Path,
    first: int,
    last: int,
    out: Path,
    *,
    private: bool = False,
    data: Data = Data(),
    effort: Effort = Effort(),
) -> PartFound:
    """Write the nodes `first` to `last` of a model as one of their own, with recorded inputs beside it (`.npz`).

    These are what the tensors hold when the whole model runs on the data, or on seeded inputs. A `private` part has
    random weights, no names and no recorded inputs.
    """
    from hasten.core.whole_file import write_whole
    from hasten.explanation.recorded_inputs import PartFound
    from hasten.model.edit.cut import cut_out, make_private

    place = pathlib.Path(out)
    part = cut_out(pathlib.Path(model), first, last)
    if private:
        make_private(part)
    write_whole(place, part.to_bytes(), replace=False)
    found = PartFound(str(place), (first, last))
    return found if private else _with_recorded_inputs(found, model, data, effort)


def _with_recorded_inputs(part: PartFound, model: Path, data: Data, effort: Effort) -> PartFound:
    """Record what a part reads; the part stays where that is not possible, with the reason."""
    import numpy as np

    from hasten.core.whole_file import whole_file
    from hasten.data.request import open_data
    from hasten.data.tensor_forms import forms_from_graph
    from hasten.explanation.inner_tensors import Subject
    from hasten.explanation.numbers import inputs_from_data
    from hasten.explanation.recorded_inputs import recorded_inputs, workload_of_main
    from hasten.model.edit.cut import inputs_of_cut

    candidate, graph = open_model(model)
    candidate = replace(candidate, workload=workload_of_main(graph, candidate.workload))
    tensors = inputs_of_cut(candidate.path, range(part.nodes[0], part.nodes[1] + 1))
    opened = open_data(data, forms_from_graph(graph, candidate.workload).inputs)
    given = inputs_from_data(graph, candidate.workload, opened.dataset, opened.preprocess, skip_bad=data.skip_bad)
    if not tensors:
        return part
    try:
        arrays = recorded_inputs(effort.target, Subject(candidate, graph), tensors, given.samples)
    except RunnerFailed as failed:
        return replace(part, why=failed.failure.message)
    except ModelError as error:
        return replace(part, why=error.message)
    place = pathlib.Path(part.path).with_suffix(".npz")
    with whole_file(place) as stream:
        np.savez(stream, **arrays)  # type: ignore[arg-type]
    source = "seeded inputs" if given.is_random else given.source
    return replace(part, inputs=str(place), samples=len(next(iter(arrays.values()))), source=source)


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
    return _found(run(candidate, graph, effort, roofline=roofline), candidate, effort)


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
    return _found(record_timeline(candidate, graph, effort), candidate, effort)


@checked
def quantize(
    model: Path,
    folder: Path,
    plan: Plan = Plan(),
    workload: Workload = Workload(),
    *,
    data: Data = Data(),
    settings: SearchSettings | None = None,
    effort: Effort = Effort(),
) -> QuantizeFound:
    """Variants of a model with measured accuracy, size and speed, and the best that keeps its accuracy.

    The folder keeps all of it: the same call again goes on from there. `effort.seconds` is for timing.
    """
    from hasten.search import quantizing
    from hasten.search.folder import QUANTIZE, SearchFolder
    from hasten.search.settings import QUANTIZE_SECONDS, SearchSettings, compared_settings
    from hasten.search.variant_store import VariantStore

    asked = settings or SearchSettings()
    if asked.goal not in (Goal.LATENCY, Goal.SIZE):
        raise UsageError(
            f"quantize does not search for {asked.goal.value}.", f"Use hasten tune --for {asked.goal.value}."
        )
    candidate, graph, given = _opened(model, plan, workload, data)
    place = SearchFolder(pathlib.Path(folder), QUANTIZE, compared_settings(candidate, given, asked))
    store = VariantStore(effort.target, candidate, graph, given, asked, place)
    return _found(quantizing.run(store, effort.seconds_or(QUANTIZE_SECONDS), effort.progress), candidate, effort)


@checked
def tune(
    model: Path,
    folder: Path,
    plan: Plan = Plan(),
    workload: Workload = Workload(),
    *,
    data: Data = Data(),
    settings: SearchSettings | None = None,
    effort: Effort = Effort(),
) -> TuneFound:
    """The best model and plan that keep the accuracy asked for, with proof, in a folder ready to ship.

    `settings.goal` says what the best is: the fastest, unless told otherwise. `effort.seconds` is the budget;
    `settings.resume` goes on with what the folder holds.
    """
    from hasten.core.version import VERSION
    from hasten.search import tuning
    from hasten.search.folder import TUNE, SearchFolder
    from hasten.search.settings import TUNE_SECONDS, SearchSettings, refuse_unmeasurable, tune_settings_data
    from hasten.search.variant_store import VariantStore

    asked, target = settings or SearchSettings(), effort.target
    candidate, graph, given = _opened(model, plan, replace(workload, seed=asked.seed), data)
    if asked.measures_energy:
        try:
            refuse_unmeasurable(asked, target.machine())
        except RunnerFailed as failed:
            raise error_of(failed.failure, candidate, target) from failed
    seconds = effort.seconds_or(TUNE_SECONDS)
    line = tune_settings_data(candidate, given, asked, target.name, seconds)
    place = SearchFolder(pathlib.Path(folder), TUNE, line, resume=asked.resume, version=VERSION)
    store = VariantStore(target, candidate, graph, given, asked, place)
    return _found(tuning.run(store, seconds, _companions, effort.progress), candidate, effort)


@checked
def retrain(
    model: Path,
    out: Path,
    plan: Plan = Plan(),
    workload: Workload = Workload(),
    *,
    data: Data = Data(),
    options: RetrainOptions = RetrainOptions(),
    effort: Effort = Effort(),
) -> RetrainFound:
    """A new head for a model, fitted to the classes of labeled data, and the file of it.

    The plan runs the model while its features are taken. A part of the data is kept for the test, and listed beside
    the new file.
    """
    from hasten.retraining.run import run

    candidate, graph = open_model(model, plan, workload)
    found = run(candidate, graph, pathlib.Path(out), data, options, effort)
    return _found(found, candidate, effort)


class Fleet:
    """The devices of a cluster, by the address of its Dask scheduler; needs the extra `cluster`.

    `devices` names those to use, of all that the workers offer. `weights` say how much each counts for the single
    choice: devices without one count 1.
    """

    def __init__(
        self,
        cluster: str,
        *,
        tls: Tls | None = None,
        devices: Sequence[str] = (),
        weights: Mapping[str, float] | None = None,
    ) -> None:
        from hasten.fleet.cluster import Tls, check_address

        check_kind("cluster", cluster, str, 'cluster="tcp://127.0.0.1:8786"')
        check_kind("tls", tls, (Tls, type(None)), "tls=hasten.api.Tls(ca, certificate, key)")
        check_kind("devices", devices, (tuple, list), 'names, such as devices=("kitchen-pi",)')
        check_kind("weights", weights, (dict, type(None)), 'weights={"kitchen-pi": 3}')
        for weight in (weights or {}).values():
            check_number("weights", weight, ABOVE_ZERO)
        self._tls = tls or Tls()
        self._address = check_address(cluster, self._tls)
        self._devices = tuple(text_of("devices", name) for name in devices)
        self._weights = {text_of("weights", name): weight for name, weight in (weights or {}).items()}

    def devices(self) -> DevicesFound:
        """What the workers offer, each with its machine."""
        from hasten.fleet.devices import devices_of

        with self._connected() as cluster:
            return devices_of(cluster, self._devices)

    @checked
    def tune(
        self,
        model: Path,
        folder: Path,
        plan: Plan = Plan(),
        workload: Workload = Workload(),
        *,
        data: Data = Data(),
        settings: SearchSettings | None = None,
        effort: Effort = Effort(),
    ) -> FleetFound:
        """The best choice for each device, and the best single one for all; `effort.seconds` is the budget of each.

        Its folder holds a bundle for each device, one for all, and a page that shows the fleet.
        """
        from hasten.fleet import tuning
        from hasten.search.settings import TUNE_SECONDS, SearchSettings

        asked = settings or SearchSettings()
        if asked.goal != Goal.LATENCY:
            raise UsageError("A fleet is tuned for latency only.", "Tune one device for another goal, with --target.")
        if asked.also:
            raise UsageError("A fleet races one model.", "Leave out --also, or tune one device with --target.")
        if asked.kernels:
            raise UsageError(
                "A fleet takes no custom kernels.", "Leave out --kernels, or tune one device with --target."
            )
        request = tuning.FleetRequest(
            pathlib.Path(model),
            plan,
            replace(workload, seed=asked.seed),
            data,
            asked,
            effort.seconds_or(TUNE_SECONDS),
            pathlib.Path(folder),
            self._devices,
            self._weights,
        )
        with self._connected() as cluster:
            return tuning.run(cluster, request, _companions, _fleet_page, effort.progress)

    @checked
    def quantize(
        self,
        model: Path,
        folder: Path,
        plan: Plan = Plan(),
        workload: Workload = Workload(),
        *,
        data: Data = Data(),
        settings: SearchSettings | None = None,
        effort: Effort = Effort(),
    ) -> QuantizeFound:
        """`quantize`, with the workers making variants, and evaluating on devices that compute as the target does.

        Latency is that of the target, as always.
        """
        from hasten.fleet.spreading import spread
        from hasten.search import quantizing
        from hasten.search.folder import QUANTIZE, SearchFolder
        from hasten.search.settings import QUANTIZE_SECONDS, SearchSettings, compared_settings
        from hasten.search.variant_store import VariantStore

        asked = settings or SearchSettings()
        candidate, graph, given = _opened(model, plan, workload, data)
        with self._connected() as cluster, contextlib.ExitStack() as stack:
            place = SearchFolder(pathlib.Path(folder), QUANTIZE, compared_settings(candidate, given, asked))
            store = VariantStore(effort.target, candidate, graph, given, asked, place)
            stack.callback(store.close)
            try:
                stack.enter_context(spread(cluster, store, data, self._devices, effort.progress))
            except RunnerFailed as failed:  # the target is asked for its machine
                raise error_of(failed.failure, candidate, effort.target) from None
            found = quantizing.run(store, effort.seconds_or(QUANTIZE_SECONDS), effort.progress)
        return _found(found, candidate, effort)

    @contextlib.contextmanager
    def _connected(self) -> Iterator[Cluster]:
        from hasten.fleet.cluster import Cluster

        with Cluster(self._address, self._tls) as cluster:
            yield cluster


def serve_worker(request: WorkerRequest, tell: Callable[[str], None] = lambda text: None) -> None:
    """Offer devices to a cluster until the scheduler ends, or the user. `tell` is told what is offered."""
    from hasten.fleet.worker import serve

    serve(request, tell)


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
    return _found(found, candidate, effort)


def practice(
    name: str,
    model: Path,
    plan: Plan = Plan(),
    workload: Workload = Workload(),
    *,
    effort: Effort = Effort(),
    **options: Any,
) -> Any:
    """What a practice finds that has a command, but no function of its own here; options are those of its `run`."""
    from hasten.practices.registry import GUIDE

    if name in __all__ or name not in {entry.name for entry in GUIDE if entry.help}:
        raise UsageError(f"No general function serves the practice {name!r}.", "Call the function of its command.")
    candidate, _ = open_model(model, plan, workload)
    run = importlib.import_module(f"hasten.practices.{name}.run").run
    return _found(run(candidate, effort=effort, **options), candidate, effort)


def blocks(found: object, **options: Any) -> list[Block]:
    """What a record shows: the same blocks on a terminal, on a page and in Markdown. Some views have options."""
    shown: list[Block] = _view_of(found).view(found, **options)
    return shown


def document(found: object) -> dict[str, Any]:
    """The JSON document of a record, as `--json` prints it."""
    data: dict[str, Any] = _view_of(found).document(found)
    return data


def markdown(found: object) -> str:
    """A record as Markdown, as a pull request shows it."""
    from hasten.show.markdown import block_lines

    own = getattr(_view_of(found), "markdown", None)
    return str(own(found)) if own else "\n".join(block_lines(blocks(found)))


def read_session(path: Path) -> Session:
    """What a session file holds, as far as it can be read."""
    from hasten.core.session import read_session as read

    return read(pathlib.Path(path))


@checked
def session_report(session: Path | Session, form: str = "html", source: str = "") -> str:
    """The report of a session as text: `html`, `md` or `json`."""
    from hasten.core.session import Session
    from hasten.report.forms import refuse_form, report_text

    refuse_form(form)
    if isinstance(session, Session):
        return report_text(session, form, source)
    return report_text(read_session(session), form, source or pathlib.Path(session).name)


def session_pictures(session: Session, form: str, source: str = "") -> Iterator[tuple[str, bytes]]:
    """The charts of a session's report, one after the other as they are drawn: file name and content."""
    from hasten.report.forms import pictures

    return pictures(session, form, source)


def has_charts() -> bool:
    """Whether the package is there that draws the charts of a report."""
    from hasten.report.page import chart_library

    return bool(chart_library())


def serve_report(session: Path, port: int = 0) -> contextlib.AbstractContextManager[Serving]:
    """Serve the report of a session file on this machine while it grows; port 0 takes a free one."""
    from hasten.report.live import serve

    return serve(pathlib.Path(session), port)


def session_lines(found: object) -> list[tuple[str, str, dict[str, Any]]]:
    """The lines of a session file (kind, label, data) that keep a record: its facts, and the finding that follows."""
    lines: list[tuple[str, str, dict[str, Any]]] = _view_of(found).session_lines(found)
    return lines


def _fed_candidate(model: Path, plan: Plan, workload: Workload, data: Data) -> Candidate:
    """A model ready to be timed, on a sample of the data if there is any."""
    from hasten.data.tensor_forms import forms_from_graph
    from hasten.measure.rounds import Feed

    candidate, graph = open_model(model, plan, workload)
    if not data.source:
        return candidate
    given = explain_inputs(model, data, workload)
    return replace(candidate, feed=Feed(given.source, forms_from_graph(graph, workload), given.samples[0]))


def _opened(model: Path, plan: Plan, workload: Workload, data: Data) -> tuple[Candidate, Graph, OpenData]:
    """A model and the data to judge it by."""
    from hasten.data.request import open_data
    from hasten.data.tensor_forms import forms_from_graph

    candidate, graph = open_model(model, plan, workload)
    return candidate, graph, open_data(data, forms_from_graph(graph, workload).inputs)


def _companions(bundle: Bundle, session: Session) -> dict[str, str]:
    """What stands in a bundle beside the model and its plan: code that runs it, and the report."""
    from hasten.bundle.code import code_files
    from hasten.report.page import html_report

    return {**code_files(bundle), "report.html": html_report(session, source=str(bundle.folder / "session.jsonl"))}


def _fleet_page(session: Session) -> str:
    """The page that shows a fleet."""
    from hasten.report.page import html_report

    return html_report(session, source="session.jsonl")


@contextlib.contextmanager
def _interruptible(so_far: Sequence[object]) -> Iterator[None]:
    """Let Ctrl-C carry what is known by then."""
    try:
        yield
    except KeyboardInterrupt:
        if so_far:
            raise Interrupted(so_far[-1]) from None
        raise


def _view_of(found: object) -> Any:
    """The `view` in the folder of the record's `facts`, or the one named above."""
    folder, _, _ = type(found).__module__.rpartition(".")
    return importlib.import_module(_VIEWS.get(type(found).__name__, f"{folder}.view"))


def _found(result: T | Failure | FailedCandidate, candidate: Candidate, effort: Effort) -> T:
    """What was found, or the failure as an error: here values become exceptions."""
    if isinstance(result, FailedCandidate):
        raise error_of(result.failure, result.candidate, effort.target)
    if isinstance(result, Failure):
        raise error_of(result, candidate, effort.target)
    return result


# Options that need what other commands do not wait for, by the module that has them.
_LATER: Final = {
    "ChooseRequest": "hasten.practices.choose.facts",
    "IoTypes": "hasten.variants.io_types",
    "RECIPE_NAMES": "hasten.variants.recipes",
    "SearchSettings": "hasten.search.settings",
    "Tls": "hasten.fleet.cluster",
    "WorkerRequest": "hasten.fleet.worker",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_LATER[name]), name)
