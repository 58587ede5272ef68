"""A model's inputs and outputs as a runner has loaded them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hasten.data.forms import forms_from_graph

if TYPE_CHECKING:
    from hasten.core.plan import Workload
    from hasten.data.forms import LoadedForms
    from hasten.model.graph import Graph
    from hasten.targets.client import LoadReport


def forms_as_loaded(graph: Graph, workload: Workload, load: LoadReport) -> LoadedForms:
    """The forms with the engine's shapes; its order is known to them."""
    return forms_from_graph(graph, workload).in_effect(
        [(tensor.name, tensor.shape) for tensor in load.inputs],
        [(tensor.name, tensor.shape) for tensor in load.outputs],
    )
