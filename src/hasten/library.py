"""hasten as a library: what the command line offers, as functions that return records and raise HastenError."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from hasten.core.bundle import Bundle
from hasten.core.comparison import DEFAULT_MARGIN
from hasten.core.errors import ModelError, UsageError
from hasten.core.failure import Failure, RunnerFailed
from hasten.core.gate_baseline import baseline_runs
from hasten.core.measurement import Model
from hasten.core.plan import Plan, Workload
from hasten.core.session import read_session
from hasten.core.thread_rows import QUIET, SITUATIONS
from hasten.data.forms import forms_from_graph
from hasten.data.metrics import metric_from_text
from hasten.data.preprocess import Preprocess
from hasten.data.sources import open_dataset, random_dataset
from hasten.measure import bench as bench_module
from hasten.measure import compare as compare_module
from hasten.measure import profiling as profiling_module
from hasten.measure import sustained as sustained_module
from hasten.measure.peaks import measure_peaks
from hasten.measure.prediction import predict
from hasten.measure.rounds import Candidate, Progress, no_progress
from hasten.model.reader import read_graph
from hasten.practices import accelerators as accelerators_module
from hasten.practices import copies as copies_module
from hasten.practices import explain as explain_module
from hasten.practices import pays_from as pays_from_module
from hasten.practices.accelerator_outputs import inputs_from_data, make_inputs
from hasten.practices.accelerator_placement import is_on_cpu
from hasten.practices.accelerator_race import keep_nothing
from hasten.practices.check import CheckPractice
from hasten.practices.check_request import CheckRequest, request_from
from hasten.practices.profile import profile_model
from hasten.practices.quantize import QuantizePractice
from hasten.practices.quantize_folder import QuantizeFolder
from hasten.practices.quantize_records import QuantizeData, QuantizeSettings, settings_to_compare
from hasten.practices.threads import ThreadsPractice
from hasten.report.code import snippet_in
from hasten.targets.local import LocalTarget
from hasten.tune.folder import TuneFolder
from hasten.tune.settings import TuneSettings, settings_data
from hasten.tune.tuning import Tuning
from hasten.tune.workshop import Workshop

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from hasten.core.acceleration import AcceleratorRow
    from hasten.core.app import AppResult
    from hasten.core.comparison import Comparison
    from hasten.core.copies import CopyStudy
    from hasten.core.errors import HastenError
    from hasten.core.explain import Explanation
    from hasten.core.gate import CheckResult
    from hasten.core.measurement import Measurement
    from hasten.core.platform_result import PlatformResult
    from hasten.core.platform_trace import PlatformTrace
    from hasten.core.profile import Peaks, Profile
    from hasten.core.session import Session
    from hasten.core.sustained import Sustained
    from hasten.core.thread_study import ThreadStudy
    from hasten.core.tuning import TuneResult
    from hasten.measure.compare import ComparisonResult
    from hasten.measure.prediction import Prediction
    from hasten.measure.profiling import RawProfile
    from hasten.measure.rounds import Track
    from hasten.model.graph import Graph
    from hasten.practices.app import AppStudy
    from hasten.practices.app_watch import Watching
    from hasten.practices.check import Keep as CheckKeep
    from hasten.practices.quantize_records import QuantizeResult
    from hasten.practices.threads import Keep
    from hasten.targets.base import Target


def bench(
    model: str | os.PathLike[str],
    plan: Plan = Plan(),
    workload: Workload = Workload(),
    *,
    target: Target | None = None,
    seconds: float = bench_module.DEFAULT_SECONDS,
    progress: Progress = no_progress,
    on_round: Callable[[Measurement], None] = lambda found: None,
) -> Measurement:
    """Time a model with a plan. `on_round` gets what there is so far after each of its processes."""

    def tell(track: Track) -> None:
        so_far = track.result()
        if not isinstance(so_far, Failure):
            on_round(so_far)

    candidate, _ = open_model(model, plan, workload)
    result = bench_module.bench(target or LocalTarget(), candidate, seconds, progress, tell)
    if isinstance(result, Failure):
        raise _error(result, candidate)
    return result


def sustain(
    model: str | os.PathLike[str],
    minutes: float,
    plan: Plan = Plan(),
    workload: Workload = Workload(),
    *,
    target: Target | None = None,
    progress: Progress = no_progress,
) -> Sustained:
    """Run a model without a pause for so many minutes, and tell how its latency changes."""
    candidate, _ = open_model(model, plan, workload)
    result = sustained_module.sustain(target or LocalTarget(), candidate, minutes, progress)
    if isinstance(result, Failure):
        raise _error(result, candidate)
    return result


def compare(
    first: tuple[str | os.PathLike[str], Plan],
    second: tuple[str | os.PathLike[str], Plan],
    workload: Workload = Workload(),
    *,
    target: Target | None = None,
    seconds: float = compare_module.DEFAULT_SECONDS,
    margin: float = DEFAULT_MARGIN,
    progress: Progress = no_progress,
    on_round: Callable[[ComparisonResult], None] = lambda found: None,
) -> ComparisonResult:
    """Is the second model and plan faster than the first? `on_round` gets what there is so far after each round."""
    a, b = (open_model(path, plan, workload)[0] for path, plan in (first, second))
    result = compare_module.compare(target or LocalTarget(), a, b, seconds, margin, progress, on_round)
    if isinstance(result, tuple):
        failed, failure = result
        raise _error(failure, failed)
    return result


def profile(
    model: str | os.PathLike[str],
    plan: Plan = Plan(),
    workload: Workload = Workload(),
    *,
    target: Target | None = None,
    seconds: float = profiling_module.DEFAULT_SECONDS,
    roofline: bool = True,
    progress: Progress = no_progress,
) -> Profile:
    """Each operator's time, mapped to the graph; with the machine's peaks if `roofline`."""
    return profile_with_runs(
        model, plan, workload, target=target, seconds=seconds, roofline=roofline, progress=progress
    )[0]


def profile_with_runs(
    model: str | os.PathLike[str],
    plan: Plan = Plan(),
    workload: Workload = Workload(),
    *,
    target: Target | None = None,
    seconds: float = profiling_module.DEFAULT_SECONDS,
    roofline: bool = True,
    progress: Progress = no_progress,
) -> tuple[Profile, RawProfile]:
    """The profile, and the profiled runs behind it: what a timeline is drawn from."""
    candidate, graph = open_model(model, plan, workload)
    where = target or LocalTarget()
    peaks: Peaks | Failure | None = measure_peaks(where, plan.threads, progress) if roofline else None
    if isinstance(peaks, Failure):
        raise peaks.error(plan)
    result = profile_model(where, candidate, graph, seconds, peaks, progress)
    if isinstance(result, Failure):
        raise _error(result, candidate)
    return result


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
    data: str = "",
    comparison: Comparison | None = None,
    progress: Progress = no_progress,
) -> Explanation:
    """Why the changed model is slower, or wrong: both side by side, node by node.

    `data` names inputs (as open_dataset takes them) on which the numbers of both are compared; a `comparison` of these
    two that was made before saves making one here.
    """
    subjects = [
        explain_module.Subject(*open_model(path, asked, workload))
        for path, asked in ((original, original_plan or plan), (changed, plan))
    ]
    where = target or LocalTarget()
    dataset = open_dataset(data) if data else None
    peaks: Peaks | Failure | None = measure_peaks(where, plan.threads, progress) if roofline else None
    if isinstance(peaks, Failure):
        raise peaks.error(plan)
    result = explain_module.explain(
        where, *subjects,
        seconds=seconds, peaks=peaks, dataset=dataset, comparison=comparison, progress=progress,
    )  # fmt: skip
    if isinstance(result, tuple):
        failed, failure = result
        raise _error(failure, failed)
    return result


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
        model, folder, plan, workload, data=data, calibration=calibration, preprocess=preprocess, metric=metric,
        settings=settings, target=target,
    )  # fmt: skip
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
    dataset = open_dataset(data) if data else random_dataset(forms_from_graph(graph, workload).inputs)
    given = QuantizeData(
        dataset, open_dataset(calibration) if calibration else None, preprocess,
        metric_from_text(metric) if metric else None,
    )  # fmt: skip
    place = QuantizeFolder(Path(folder), settings_to_compare(candidate, given, settings))
    return QuantizePractice(target or LocalTarget(), candidate, graph, given, settings, place)


def run_quantize(practice: QuantizePractice, progress: Progress = no_progress) -> None:
    """Run a search for variants to its end. What it has found until then is in its folder, however it ends."""
    try:
        practice.run(progress)
    except RunnerFailed as failed:
        raise _error(failed.failure, practice.candidate) from failed
    finally:
        practice.folder.close()


def accelerators(
    model: str | os.PathLike[str],
    workload: Workload = Workload(),
    *,
    threads: int = 1,
    delegates: Sequence[str] = (),
    target: Target | None = None,
    seconds: float = accelerators_module.DEFAULT_SECONDS,
    progress: Progress = no_progress,
    cache: str = "",
    keep: Keep | None = None,
    data: str = "",
    preprocess: Preprocess = Preprocess(),
) -> list[AcceleratorRow]:
    """What each accelerator does with a model: does it run, all of it, correctly, faster, when does it pay.

    Outputs are compared on samples of `data` (as open_dataset takes it), or else on seeded noise.
    """
    candidate, graph = open_model(model, Plan(threads=threads), workload)
    plans = accelerators_module.plans_to_examine(threads, delegates)
    make = inputs_from_data(graph, workload, open_dataset(data), preprocess) if data else make_inputs
    rows = accelerators_module.examine(
        target or LocalTarget(), candidate, graph, plans, seconds, progress, cache, keep or keep_nothing, make
    )
    failures = [row.failure for row in rows if row.failure is not None]
    if len(failures) == len(rows):
        raise _error(failures[0], candidate)  # the CPU's own: the model's trouble, whatever the others say
    return rows


def accelerators_pay_from(
    rows: Sequence[AcceleratorRow],
    *,
    target: Target | None = None,
    seconds: float = pays_from_module.DEFAULT_SECONDS,
    progress: Progress = no_progress,
) -> list[AcceleratorRow]:
    """The rows, each that runs beside the CPU with the size of a network from which on it is faster there."""
    plans = {row.name: row.plan for row in rows if row.latency is not None and not is_on_cpu(row.plan)}
    base = replace(rows[0].plan, accelerator="cpu", delegate="", kernel="delegate", options=())
    found = pays_from_module.pays_from(target or LocalTarget(), base, plans, seconds, progress) if plans else {}
    return [replace(row, pays=found.get(row.name)) for row in rows]


def threads(
    model: str | os.PathLike[str],
    plan: Plan = Plan(),
    workload: Workload = Workload(),
    *,
    target: Target | None = None,
    load: str = QUIET,
    counts: Sequence[int] = (),
    seconds: float = 0.0,
    progress: Progress = no_progress,
) -> ThreadStudy:
    """How many threads to use, in the situation that `load` names; the plan is the one in use now."""
    practice = study_threads(model, plan, workload, target=target, load=load, counts=counts, seconds=seconds)
    measure_threads(practice, progress)
    return practice.found()


def study_threads(
    model: str | os.PathLike[str],
    plan: Plan = Plan(),
    workload: Workload = Workload(),
    *,
    target: Target | None = None,
    load: str = QUIET,
    counts: Sequence[int] = (),
    seconds: float = 0.0,
    keep: Keep | None = None,
) -> ThreadsPractice:
    """A study of threads that has not begun: whoever runs it can ask at any time what it has found so far."""
    if load not in SITUATIONS:
        raise UsageError(f"there is no situation {load!r}", f"Use one of: {', '.join(SITUATIONS)}.")
    candidate, _ = open_model(model, plan, workload)
    practice = ThreadsPractice(target or LocalTarget(), candidate, load, tuple(counts), seconds)
    if keep is not None:
        practice.keep = keep
    return practice


def measure_threads(practice: ThreadsPractice, progress: Progress = no_progress) -> None:
    """Run a study of threads to its end."""
    failure = practice.run(progress)
    if failure is not None:
        raise _error(failure, practice.candidate)


def open_model(
    model: str | os.PathLike[str], plan: Plan = Plan(), workload: Workload = Workload()
) -> tuple[Candidate, Graph]:
    """A model ready to be timed, and its graph. Refuses what the engine is known not to have."""
    path = Path(model)
    graph = read_graph(path)
    if flex := graph.flex_operators():
        names = ", ".join(name.removeprefix("Flex") for name in flex)
        raise ModelError(
            f"{path.name} needs TensorFlow's own operators ({names}), which LiteRT does not have",
            "Convert it again without SELECT_TF_OPS, or replace these operators.",
        )
    return Candidate(path.name, path, Model(str(path), graph.size_bytes, graph.sha256), plan, workload), graph


def _error(failure: Failure, candidate: Candidate) -> HastenError:
    """The failure as an error; trouble with a model says which one, since a command may have been given two."""
    error = failure.error(candidate.plan)
    if isinstance(error, ModelError) and candidate.label not in error.message:
        return ModelError(f"{candidate.label}: {error.message}", error.hint)
    return error


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
    keep: CheckKeep | None = None,
) -> CheckPractice:
    """A gate that has not begun: whoever runs it can ask at any time how it stands."""
    request = (budget if isinstance(budget, CheckRequest) else request_from(budget)).checked()
    candidate, _ = open_model(model, request.plan, request.workload)
    baseline = None
    if request.baseline_model:
        baseline, _ = open_model(request.baseline_model, request.baseline_plan or request.plan, request.workload)
    practice = CheckPractice(
        target or LocalTarget(), candidate, request, baseline,
        baseline_runs(read_session(Path(request.baseline_session))) if request.baseline_session else None,
        open_dataset(request.data) if request.data else None,
        metric_from_text(request.metric) if request.metric else None,
    )  # fmt: skip
    if keep is not None:
        practice.keep = keep
    return practice


def run_check(practice: CheckPractice, progress: Progress = no_progress) -> None:
    """Run a gate to its end. That a limit is broken is no error, but that the model does not run is one."""
    try:
        failed = practice.run(progress)
    except RunnerFailed as error:
        raise _error(error.failure, practice.candidate) from error
    if failed is not None:
        candidate, failure = failed
        raise _error(failure, candidate)


def run_once(
    model: str | os.PathLike[str],
    source: str | os.PathLike[str],
    plan: Plan = Plan(),
    workload: Workload = Workload(),
    *,
    preprocess: Preprocess = Preprocess(),
    labels: Sequence[str] = (),
    label_offset: int = 0,
    target: Target | None = None,
) -> Prediction:
    """Run a model once, in a process of its own, on what a file holds (arrays, an image, a WAV file)."""
    candidate, graph = open_model(model, plan, workload)
    found = predict(target or LocalTarget(), candidate, graph, Path(source), preprocess, labels, label_offset)
    if isinstance(found, Failure):
        raise _error(found, candidate)
    return found


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
    import hasten

    settings = replace(settings or TuneSettings(), has_data=bool(data))
    workload = replace(workload, seed=settings.seed)
    candidate, graph = open_model(model, plan, workload)
    where = target or LocalTarget()
    dataset = open_dataset(data) if data else random_dataset(forms_from_graph(graph, workload).inputs)
    given = QuantizeData(
        dataset, open_dataset(calibration) if calibration else None, preprocess,
        metric_from_text(metric) if metric else None,
    )  # fmt: skip
    asked = settings_data(candidate, given, settings, where.name)
    place = TuneFolder(Path(folder), asked, resume=resume, version=hasten.__version__)
    workshop = Workshop(where, candidate, graph, given, settings.for_variants(), place, no_progress)
    return Tuning(workshop, settings, place, hasten.__version__, _companions)


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
        model, folder, plan, workload, data=data, calibration=calibration, preprocess=preprocess, metric=metric,
        settings=settings, target=target, resume=resume,
    )  # fmt: skip
    run_tune(tuning, progress)
    return tuning.found()


def _companions(bundle: Bundle, session: Session) -> dict[str, str]:
    """What stands in a bundle beside the model and its plan: code that runs it, and the report."""
    from hasten.report.code import code_files
    from hasten.report.html.page import html_report

    return {**code_files(bundle), "report.html": html_report(session, source=str(bundle.folder / "session.jsonl"))}


def study_app(command: Sequence[str], folder: Path, *, output: int | None = None) -> AppStudy:
    """Run a Python program under watch to its end, with what is seen in a folder. `output`: its standard output."""
    from hasten.practices.app import AppStudy
    from hasten.practices.app_program import run_program

    ended = run_program(command, folder, output=output)
    return AppStudy(folder, tuple(command), ended)


def measure_app(
    study: AppStudy, seconds: float, progress: Progress = no_progress, *, target: Target | None = None
) -> AppResult:
    """What was seen of a program, with its models measured by themselves for about so many seconds."""
    from hasten.practices.app_after import AfterTheRun

    return AfterTheRun(study, target or LocalTarget(), seconds, progress).result()


def copies(
    model: str | os.PathLike[str],
    plan: Plan = Plan(),
    workload: Workload = Workload(),
    *,
    target: Target | None = None,
    seconds: float = copies_module.DEFAULT_SECONDS,
    language: str = "python",
    progress: Progress = no_progress,
) -> CopyStudy:
    """What each way to feed and read a model costs, and the one to use, with code in a language."""
    practice = study_copies(model, plan, workload, target=target, seconds=seconds)
    measure_copies(practice, progress)
    return copies_found(practice, language)


def study_copies(
    model: str | os.PathLike[str],
    plan: Plan = Plan(),
    workload: Workload = Workload(),
    *,
    target: Target | None = None,
    seconds: float = copies_module.DEFAULT_SECONDS,
) -> copies_module.CopiesPractice:
    """A study of copies that has not begun: whoever runs it can ask at any time what it has found so far."""
    candidate, graph = open_model(model, plan, workload)
    return copies_module.CopiesPractice(target or LocalTarget(), candidate, graph, seconds)


def measure_copies(practice: copies_module.CopiesPractice, progress: Progress = no_progress) -> None:
    """Run a study of copies to its end."""
    failure = practice.run(progress)
    if failure is not None:
        raise _error(failure, practice.candidate)


def copies_found(practice: copies_module.CopiesPractice, language: str = "python") -> CopyStudy:
    """What a study of copies has found, with the code that goes the recommended way."""
    found, candidate = practice.found(), practice.candidate
    inputs, outputs = practice.tensors()
    as_bundle = Bundle(
        candidate.path.parent, candidate.path.name, candidate.model.sha256, candidate.plan, candidate.workload,
        inputs, outputs,
    )  # fmt: skip
    snippet = snippet_in(language, as_bundle, str(candidate.path), runner=found.recommended in ("host", "locked"))
    return replace(found, language=language, snippet=snippet)


def examine_platform_trace(
    path: str | os.PathLike[str], kind: str = "", progress: Progress = no_progress
) -> tuple[PlatformTrace, PlatformResult]:
    """What a platform's tool recorded, and what it says of TFLite. `kind`: its format, seen from the file if empty."""
    from hasten.practices.platform_trace import examine_trace
    from hasten.traces.reading import read_trace

    trace = read_trace(Path(path), kind, progress)
    progress(1.0, "looking at it")
    return trace, examine_trace(trace)


def watch(*, seconds: float = 0.0) -> Watching:
    """Watch the code of a `with`: `with hasten.watch() as seen: …`, then `seen.result`, `seen.findings`, `seen.text()`.

    `seconds`: measure the models by themselves for so long afterwards, as the command does.
    """
    from hasten.practices.app_watch import Watching

    return Watching(seconds)


def session_report(session: str | os.PathLike[str], form: str = "html") -> str:
    """The report of a session file as text: `html`, `md` or `json`."""
    from hasten.core.session import read_session
    from hasten.report.forms import report_text

    path = Path(session)
    return report_text(read_session(path), form, path.name)
