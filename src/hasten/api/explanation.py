"""Two models side by side, node by node; and a part of a model as one of its own."""

from __future__ import annotations

import pathlib
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hasten.api.border import or_error
from hasten.core.errors import ModelError
from hasten.core.failure import RunnerFailed
from hasten.core.plan import Plan, Workload
from hasten.data.request import Data
from hasten.measure.arguments import checked
from hasten.measure.effort import Effort
from hasten.measure.opening import open_model

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hasten.api.border import Path
    from hasten.core.comparison import Comparison
    from hasten.explanation.diff.facts import DiffFound
    from hasten.explanation.facts import ExplainFound
    from hasten.explanation.numbers import GivenInputs
    from hasten.explanation.recorded_inputs import PartFound


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
    peaks = or_error(peaks_first(effort, changed[1].threads), second.candidate, effort) if roofline else None
    return or_error(run(first, second, effort, Known(comparison, inputs, peaks)), first.candidate, effort)


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
    return or_error(run(one, other, effort, inputs), one.candidate, effort)


def diff_overlay(found: DiffFound) -> str:
    """Node data for Model Explorer: the error that each node of the second model adds."""
    from hasten.explanation.diff.view import model_explorer

    return model_explorer(found)


def cut(
    model: Path,
    nodes: tuple[int, int],
    out: Path,
    plan: Plan = Plan(),
    *,
    private: bool = False,
    data: Data = Data(),
    effort: Effort = Effort(),
) -> PartFound:
    """Write the nodes from the first to the last as a model of their own, with recorded inputs beside it (`.npz`).

    These are what the tensors hold when the whole model runs with the plan on the data, or on seeded inputs. A
    `private` part has random weights, no names and no recorded inputs.
    """
    from hasten.explanation.recorded_inputs import PartFound, write_part
    from hasten.model.edit.cut import cut_out, make_private

    part = cut_out(pathlib.Path(model), *nodes)
    if private:
        make_private(part)
    found = PartFound(str(pathlib.Path(out)), nodes)
    arrays: dict[str, NDArray[Any]] = {}
    if not private:
        found, arrays = _with_recorded_inputs(found, (model, plan), data, effort)
    write_part(found, part.to_bytes(), arrays)
    return found


def _with_recorded_inputs(
    part: PartFound, whole: tuple[Path, Plan], data: Data, effort: Effort
) -> tuple[PartFound, dict[str, NDArray[Any]]]:
    """What a part reads, recorded; no arrays and the reason where that is not possible."""
    from hasten.data.request import open_data
    from hasten.data.tensor_forms import forms_from_graph
    from hasten.explanation.inner_tensors import Subject
    from hasten.explanation.numbers import inputs_from_data
    from hasten.explanation.recorded_inputs import recorded_inputs, workload_of_main
    from hasten.model.edit.cut import inputs_of_cut

    candidate, graph = open_model(*whole)
    candidate = replace(candidate, workload=workload_of_main(graph, candidate.workload))
    tensors = inputs_of_cut(candidate.path, range(part.nodes[0], part.nodes[1] + 1))
    opened = open_data(data, forms_from_graph(graph, candidate.workload).inputs)
    try:
        given = inputs_from_data(graph, candidate.workload, opened.dataset, opened.preprocess, skip_bad=data.skip_bad)
        if not tensors:
            return part, {}
        arrays = recorded_inputs(effort.target, Subject(candidate, graph), tensors, given.samples)
    except RunnerFailed as failed:
        return replace(part, why=failed.failure.message), {}
    except ModelError as error:
        return replace(part, why=error.message), {}
    except MemoryError:
        return replace(part, why="There is not enough memory for them."), {}
    place = pathlib.Path(part.path).with_suffix(".npz")
    source = "seeded inputs" if given.is_random else given.source
    return replace(part, inputs=str(place), samples=len(next(iter(arrays.values()))), source=source), arrays
