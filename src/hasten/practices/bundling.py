"""A model's inputs and outputs as a bundle lists them: names and shapes from the engine, scales from the file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hasten.core.bundle import BundleTensor
from hasten.data.forms import forms_as_loaded

if TYPE_CHECKING:
    from hasten.core.plan import Workload
    from hasten.data.forms import TensorForm
    from hasten.model.graph import Graph
    from hasten.targets.client import LoadReport

    Tensors = tuple[BundleTensor, ...]


def bundle_tensors(graph: Graph, workload: Workload, load: LoadReport) -> tuple[Tensors, Tensors]:
    """The inputs and the outputs of a model that was loaded, as code counts them."""
    forms = forms_as_loaded(graph, workload, load).in_engine_order
    return tuple(map(_tensor, forms.inputs)), tuple(map(_tensor, forms.outputs))


def _tensor(form: TensorForm) -> BundleTensor:
    return BundleTensor(form.name, form.dtype, form.shape, form.scale, form.zero_point)
