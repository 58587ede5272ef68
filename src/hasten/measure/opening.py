"""A model file as a candidate that is ready to be timed, and its graph; its failure as an error."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from hasten.core.checks import check_kind, path_text
from hasten.core.errors import ModelError
from hasten.core.measurement import Model
from hasten.core.plan import Plan, Workload
from hasten.measure.open_shapes import inputs_without_size, open_shape_doubts, with_shape_hint
from hasten.measure.rounds import Candidate
from hasten.model.reader import read_graph

if TYPE_CHECKING:
    import os

    from hasten.core.errors import HastenError
    from hasten.core.failure import Failure
    from hasten.model.graph import Graph
    from hasten.targets.base import Target


def open_model(
    model: str | os.PathLike[str], plan: Plan = Plan(), workload: Workload = Workload()
) -> tuple[Candidate, Graph]:
    """A model ready to be timed, and its graph. Refuses what the engine is known not to have."""
    path = Path(path_text("model", model))
    check_kind("plan", plan, Plan, "plan=hasten.Plan(threads=2)")
    check_kind("workload", workload, Workload, 'workload=hasten.Workload(signature="…")')
    graph = read_graph(path)
    if flex := graph.flex_operators():
        names = ", ".join(name.removeprefix("Flex") for name in flex)
        raise ModelError(
            f"{path.name} needs TensorFlow's own operators ({names}), which LiteRT does not have.",
            "Convert it again without SELECT_TF_OPS, or replace these operators.",
        )
    for name, shape in inputs_without_size(graph):
        raise ModelError(
            f"{path.name}: Input {name!r} has no size in the file (shape {shape}), and LiteRT does not load it.",
            "Convert the model again with a size for each dimension; -1 belongs in the shape signature only.",
        )
    told = Model(str(path), graph.size_bytes, graph.sha256)
    return Candidate(path.name, path, told, plan, workload, open_shape_doubts(graph, workload)), graph


def error_of(failure: Failure, candidate: Candidate, target: Target) -> HastenError:
    """The failure as an error. Trouble with a model says which one, since a command may have been given two."""
    error = with_shape_hint(failure, candidate, target).error(candidate.plan)
    if not isinstance(error, ModelError):
        return error
    return ModelError(f"{candidate.label}: {error.sentence}", error.hint, log=error.log)
