"""A model file as a candidate that is ready to be timed, and its graph."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from hasten.core.errors import ModelError
from hasten.core.measurement import Model
from hasten.core.plan import Plan, Workload
from hasten.measure.rounds import Candidate
from hasten.model.reader import read_graph

if TYPE_CHECKING:
    import os

    from hasten.model.graph import Graph


def open_model(
    model: str | os.PathLike[str], plan: Plan = Plan(), workload: Workload = Workload()
) -> tuple[Candidate, Graph]:
    """A model ready to be timed, and its graph. Refuses what the engine is known not to have."""
    path = Path(model)
    graph = read_graph(path)
    if flex := graph.flex_operators():
        names = ", ".join(name.removeprefix("Flex") for name in flex)
        raise ModelError(
            f"{path.name} needs TensorFlow's own operators ({names}), which LiteRT does not have.",
            "Convert it again without SELECT_TF_OPS, or replace these operators.",
        )
    return Candidate(path.name, path, Model(str(path), graph.size_bytes, graph.sha256), plan, workload), graph
