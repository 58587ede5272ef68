"""What makes a better model of one: quantize, tune, retrain."""

from __future__ import annotations

import pathlib
from dataclasses import replace
from typing import TYPE_CHECKING

from hasten.api.border import or_error
from hasten.core.errors import UsageError
from hasten.core.failure import RunnerFailed
from hasten.core.goal import Goal
from hasten.core.plan import Plan, Workload
from hasten.data.request import Data
from hasten.measure.arguments import checked
from hasten.measure.effort import Effort
from hasten.measure.opening import error_of, open_model
from hasten.retraining.options import RetrainOptions

if TYPE_CHECKING:
    from hasten.api.border import Path
    from hasten.bundle.record import Bundle
    from hasten.core.session import Session
    from hasten.data.request import OpenData
    from hasten.measure.rounds import Candidate
    from hasten.model.graph import Graph
    from hasten.practices.quantize.facts import QuantizeFound
    from hasten.retraining.facts import RetrainFound
    from hasten.search.facts import TuneFound
    from hasten.search.settings import SearchSettings
    from hasten.search.variant_store import VariantStore

    Opened = tuple[Candidate, Graph, OpenData]


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
    from hasten.search.settings import QUANTIZE_SECONDS, SearchSettings

    opened = opened_with_data(model, plan, workload, data)
    store = quantize_store(opened, folder, settings or SearchSettings(), effort)
    found = quantizing.run(store, effort.seconds_or(QUANTIZE_SECONDS), effort.progress)
    return or_error(found, store.candidate, effort)


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
    from hasten.practices.choose.candidates import refuse_missing
    from hasten.search import tuning
    from hasten.search.folder import TUNE, SearchFolder
    from hasten.search.settings import TUNE_SECONDS, SearchSettings, refuse_unmeasurable, tune_settings_data
    from hasten.search.variant_store import VariantStore

    asked, target = settings or SearchSettings(), effort.target
    candidate, graph, given = opened_with_data(model, plan, replace(workload, seed=asked.seed), data)
    if asked.measures_energy:
        try:
            refuse_unmeasurable(asked, target.machine())
        except RunnerFailed as failed:
            raise error_of(failed.failure, candidate, target) from failed
    refuse_missing(asked.candidates)
    seconds = effort.seconds_or(TUNE_SECONDS)
    line = tune_settings_data(candidate, given, asked, target.name, seconds)
    place = SearchFolder(pathlib.Path(folder), TUNE, line, resume=asked.resume, version=VERSION)
    store = VariantStore(target, candidate, graph, given, asked, place)
    return or_error(tuning.run(store, seconds, companions, effort.progress), candidate, effort)


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
    return or_error(found, candidate, effort)


def quantize_store(opened: Opened, folder: Path, asked: SearchSettings, effort: Effort) -> VariantStore:
    """The variants that `quantize` makes and judges, in their folder."""
    from hasten.search.folder import QUANTIZE, SearchFolder
    from hasten.search.settings import compared_settings
    from hasten.search.variant_store import VariantStore

    if asked.goal not in (Goal.LATENCY, Goal.SIZE):
        raise UsageError(
            f"quantize does not search for {asked.goal.value}.", f"Use hasten tune --for {asked.goal.value}."
        )
    candidate, graph, given = opened
    place = SearchFolder(pathlib.Path(folder), QUANTIZE, compared_settings(candidate, given, asked))
    return VariantStore(effort.target, candidate, graph, given, asked, place)


def opened_with_data(model: Path, plan: Plan, workload: Workload, data: Data) -> Opened:
    """A model and the data to judge it by."""
    from hasten.data.request import open_data
    from hasten.data.tensor_forms import forms_from_graph

    candidate, graph = open_model(model, plan, workload)
    return candidate, graph, open_data(data, forms_from_graph(graph, workload).inputs)


def companions(bundle: Bundle, session: Session) -> dict[str, str]:
    """What stands in a bundle beside the model and its plan: code that runs it, and the report."""
    from hasten.bundle.code import code_files
    from hasten.report.page import html_report

    return {**code_files(bundle), "report.html": html_report(session, source=str(bundle.folder / "session.jsonl"))}
