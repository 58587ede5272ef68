"""What a search has to say about the types asked for at inputs and outputs; which inputs are fed by their scale."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hasten.data.forms import forms_from_graph
from hasten.variants.io_types import FLOAT

if TYPE_CHECKING:
    from hasten.core.plan import Workload
    from hasten.data.forms import TensorForm
    from hasten.model.graph import Graph
    from hasten.practices.quantize_records import QuantizeSettings
    from hasten.variants.io_types import IoTypes


def io_type_notes(graph: Graph, workload: Workload, settings: QuantizeSettings) -> list[str]:
    """Which types the variants have, which recipes were left out for them, and which inputs and outputs keep theirs."""
    if settings.io_types.is_float:
        return []
    types = settings.io_types.describe()
    names = ", ".join(settings.left_out)
    notes = [f"variants have {types}" + (f"; left out, as they cannot: {names}" if names else "")]
    for end, dtype, forms in _ends(graph, workload, settings.io_types):
        own = [form for form in forms if form.dtype not in (FLOAT, dtype)]
        notes += [
            f"{end[:-1]} {form.name!r} is {form.dtype}, and stays so: only float32 becomes {dtype}" for form in own
        ]
    return notes


def types_still(graph: Graph, workload: Workload, io_types: IoTypes) -> list[str]:
    """A sentence on each end at which the original has other types than those asked for."""
    found = []
    for end, dtype, forms in _ends(graph, workload, io_types):
        others = sorted({form.dtype for form in forms} - {dtype})
        if others:
            found.append(f"Its {end} are still {', '.join(others)}, not {dtype}.")
    return found


def inputs_by_scale(original: Graph, variant: Graph, workload: Workload) -> tuple[str, ...]:
    """The inputs that are integers in the variant and floats in the original."""
    pairs = zip(forms_from_graph(original, workload).inputs, forms_from_graph(variant, workload).inputs, strict=True)
    return tuple(form.name for before, form in pairs if before.is_float and form.is_quantized)


def _ends(graph: Graph, workload: Workload, io_types: IoTypes) -> list[tuple[str, str, tuple[TensorForm, ...]]]:
    """The ends for which a type was asked: its name, that type, and what the original has there."""
    forms = forms_from_graph(graph, workload)
    ends = (("inputs", io_types.input_type, forms.inputs), ("outputs", io_types.output_type, forms.outputs))
    return [end for end in ends if end[1] != FLOAT]
