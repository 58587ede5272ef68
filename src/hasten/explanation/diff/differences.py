"""What two files have differently in one node: its operator, its options, its constants."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hasten.core.codec import finite
from hasten.core.remark import Remark, remark
from hasten.explanation.diff.facts import WEIGHTS
from hasten.explanation.diff.traits import error_of_type, source_of
from hasten.explanation.inner_tensors import dequantized
from hasten.explanation.tensor_errors import error_between, range_of
from hasten.model.reader import read_constant

if TYPE_CHECKING:
    from hasten.explanation.diff.pairing import Pairing, Section, Wiring
    from hasten.explanation.inner_tensors import Subject
    from hasten.model.graph import Graph, Node, Tensor

# They say how integers are stored or summed up, not what is computed.
_HARMLESS: Final = frozenset({"asymmetric_quantize_inputs", "quantized_bias_type", "weights_format"})
_MARGIN: Final = 3.0
_ROUNDING: Final = 1e-6
_MOST_VALUES: Final = 8


def differences(subjects: tuple[Subject, Subject], pairing: Pairing, section: Section) -> tuple[Remark, ...]:
    """What the node and its counterpart have differently, beyond what another number format needs."""
    wirings = pairing.wirings
    before = wirings[0].subgraph.nodes[section.before]
    after = wirings[1].subgraph.nodes[section.node]
    if before.label != after.label:
        found = [remark("diff.operator", before=before.label, after=after.label)]
    else:
        graphs = subjects[0].graph, subjects[1].graph
        found = [
            *_inputs(pairing, before, after),
            *_options(before, after),
            *_constants(graphs, wirings, (before, after)),
            *_ranges(wirings, section),
        ]
    return tuple(Remark(one.code, {"node": after.index, "op": after.label, **one.facts}) for one in found)


def _inputs(pairing: Pairing, before: Node, after: Node) -> list[Remark]:
    """Whether it reads what its counterpart reads, but in another order."""
    first, second = pairing.wirings
    read = [pairing.counterpart.get(index) for index in after.inputs if index not in second.settled]
    wanted = [index for index in before.inputs if index not in first.settled]
    is_mixed = None not in read and read != wanted and set(read) == set(wanted)
    return [remark("diff.order")] if is_mixed else []


def _options(before: Node, after: Node) -> list[Remark]:
    names = [name for name in after.options if name in before.options and name not in _HARMLESS]
    return [
        remark("diff.option", name=name, before=str(before.options[name]), after=str(after.options[name]))
        for name in names
        if before.options[name] != after.options[name]
    ]


def _ranges(wirings: tuple[Wiring, Wiring], section: Section) -> list[Remark]:
    """Outputs of one integer type that stand for other numbers."""
    found = []
    for pair in section.outputs:
        tensors = [wiring.subgraph.tensors[index] for wiring, index in zip(wirings, pair, strict=True)]
        before, after = map(range_of, tensors)
        if tensors[0].dtype == tensors[1].dtype and before and after and before != after:
            found.append(remark("diff.range", before=list(before), after=list(after)))
    return found


def _constants(graphs: tuple[Graph, Graph], wirings: tuple[Wiring, Wiring], nodes: tuple[Node, Node]) -> list[Remark]:
    found = []
    for place, pair in enumerate(zip(nodes[0].inputs, nodes[1].inputs, strict=False)):
        if min(pair) < 0 or any(index not in wiring.settled for wiring, index in zip(wirings, pair, strict=True)):
            continue
        tensors = [source_of(wiring, index) for wiring, index in zip(wirings, pair, strict=True)]
        values = [read_constant(graph, tensor) for graph, tensor in zip(graphs, tensors, strict=True)]
        if values[0] is not None and values[1] is not None and values[0].size == values[1].size:
            found += _constant(graphs[0], tensors, [values[0], values[1]], place)
    return found


def _constant(graph: Graph, tensors: list[Tensor], values: list[np.ndarray[Any, Any]], place: int) -> list[Remark]:
    real = [dequantized(stored, tensor) for stored, tensor in zip(values, tensors, strict=True)]
    if not tensors[0].is_weight:
        shown = [one.reshape(-1)[:_MOST_VALUES].tolist() for one in values]
        alike = np.array_equal(real[0].reshape(-1), real[1].reshape(-1))
        return [] if alike else [remark("diff.constant-values", input=place, before=shown[0], after=shown[1])]
    error = error_between([real[0]], [real[1]])
    steps = tensors[1].quantization.scales if tensors[1].quantization and tensors[1].dtype == "int32" else ()
    of_type = error_of_type(graph, tensors[0], tensors[1]) * error.signal_rms
    if not error.broken and error.error_rms <= _MARGIN * max(of_type, *steps, _ROUNDING * error.signal_rms):
        return []
    return [remark(WEIGHTS, input=place, snr_db=finite(error.snr_db), not_finite=error.not_finite)]
