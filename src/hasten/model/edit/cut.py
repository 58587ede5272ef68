"""Nodes cut out as a model of their own: a range of them, or groups that stand side by side, each fed by itself.

And random numbers in place of weights that are nobody's business.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hasten.core.errors import UsageError
from hasten.model.build import DEFAULT_SIGNATURE
from hasten.model.edit.file import constant_bytes, text
from hasten.model.edit.model import EditedModel
from hasten.model.edit.outputs import add_signature
from hasten.model.reader import NO_TENSOR, read_graph

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from pathlib import Path

    from hasten.model.edit.graph import EditedGraph
    from hasten.model.graph import Shape

    Array = np.ndarray[Any, Any]

# Shapes, axes and indices are small tables of plain integers: these types hold what a training learned.
_LEARNED: Final = ("float32", "float16", "float64")
_PACKED: Final = ("int4", "uint4", "int2", "bfloat16", "float8_e4m3fn", "float8_e5m2", "complex64")
# A table of integers from this size on is no shape: anchors, tokens, a look-up table.
_NUMBERS: Final = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
_LARGE_TABLE: Final = 512
# Custom operators that kernels of LiteRT, MediaPipe or delegates know by name.
PUBLIC_CUSTOMS: Final = frozenset(
    {
        *("TFLite_Detection_PostProcess", "Convolution2DTransposeBias", "MaxPoolingWithArgmax2D", "MaxUnpooling2D"),
        *("Resampler", "odml.scaled_dot_product_attention", "odml.rms_norm", "odml.update_kv_cache"),
    }
)
# Fields that name what an operator calls, and those with what it is told.
_CALLS: Final = {"name": ("compositeAttributes",), "callTargetName": ("backendConfig", "customAttributes")}
# Operators that run other graphs of the file.
_CALLERS: Final = ("IF", "WHILE", "CALL", "CALL_ONCE", "STABLEHLO_COMPOSITE", "STABLEHLO_WHILE", "STABLEHLO_REDUCE")


def cut_out(path: Path, first: int, last: int) -> EditedModel:
    """The nodes `first` to `last` of the main graph as a model of their own; see `cut_nodes`."""
    count = len(read_graph(path).main.nodes)
    if not 0 <= first <= last < count:
        raise UsageError(f"{path.name} has no nodes {first} to {last}.", f"Give a range within 0 and {count - 1}.")
    return cut_nodes(path, range(first, last + 1))


def cut_nodes(path: Path, nodes: Collection[int]) -> EditedModel:
    """Some nodes of the main graph, which need not be neighbors, as a model of their own.

    What they read from others are inputs, what others read outputs. Both carry the names that the tensors had, and
    metadata about those of the whole model is left out.
    """
    model = EditedModel.read(path)
    graph = model.main
    chosen = [operator for place, operator in enumerate(graph.operators) if place in nodes]
    inputs, outputs = _border(graph, chosen)
    if not outputs:
        told = f"nodes {min(nodes)} to {max(nodes)}" if nodes else "no nodes"
        raise UsageError(f"Nothing reads what {told} compute.", "Give a range with a result.")
    kept = {id(operator) for operator in chosen}
    graph.remove(*(operator for operator in graph.operators if id(operator) not in kept))
    graph.record.inputs, graph.record.outputs = inputs, outputs
    model.record.signatureDefs = None
    add_signature(graph, by_tensor=True)
    if not any(graph.op(operator) in _CALLERS for operator in chosen):
        del model.record.subgraphs[1:], model.graphs[1:]
    model.clean()
    model.strip()
    return model


def inputs_of_cut(path: Path, nodes: Collection[int]) -> list[int]:
    """The tensors of the whole model that such a part reads from outside, in the order of its inputs."""
    graph = EditedModel.read(path).main
    chosen = [operator for place, operator in enumerate(graph.operators) if place in nodes]
    return _border(graph, chosen)[0]


@dataclass(frozen=True, slots=True)
class Island:
    """Nodes that are to run by themselves. Tensors and nodes are indices of the whole graph."""

    nodes: tuple[int, ...]
    inputs: Mapping[int, Shape]
    """What a caller fills in the place of other nodes, with the shapes that it fills."""
    outputs: tuple[int, ...]
    fixed: Mapping[int, Array] = field(default_factory=dict)
    """Tensors that become constants: shapes and axes that other nodes compute, as kernels want them known."""


def cut_apart(path: Path, islands: Sequence[Island], subgraph: int = 0) -> EditedModel:
    """One model in which groups of nodes stand side by side, none feeding another, so that one load runs them all.

    Its inputs are those of the first island, then those of the second, and so on, named `input_0`, `input_1`, …; its
    outputs likewise. Nodes that a group needs and that read constants only come along.
    """
    model = EditedModel.read(path)
    graph = model.graphs[subgraph]
    operators = list(graph.operators)
    inputs: list[int] = []
    for island in islands:
        stands_in = {index: graph.add_tensor(shape, like=index) for index, shape in island.inputs.items()}
        for index in stands_in.values():
            graph.tensor(index).shapeSignature = None  # they are fed in this shape alone
        inputs += stands_in.values()
        stands_in |= {index: graph.add_constant(values, graph.name(index)) for index, values in island.fixed.items()}
        for node in island.nodes:
            for place, index in enumerate(operators[node].inputs):
                if index in stands_in:
                    graph.set_input(operators[node], place, stands_in[index])
    graph.record.inputs = inputs
    graph.record.outputs = list(dict.fromkeys(index for island in islands for index in island.outputs))
    needed = _needed(graph, (operators[node] for island in islands for node in island.nodes))
    graph.remove(*(operator for operator in operators if id(operator) not in needed))
    model.record.signatureDefs = None
    add_signature(graph)
    if subgraph == 0 and not any(graph.op(operator) in _CALLERS for operator in graph.operators):
        del model.record.subgraphs[1:], model.graphs[1:]
    model.clean()
    model.strip()
    return model


def _needed(graph: EditedGraph, chosen: Iterable[Any]) -> set[int]:
    """The identities of operators, and of all that compute what they read."""
    found: set[int] = set()
    waiting = list(chosen)
    while waiting:
        operator = waiting.pop()
        if id(operator) not in found:
            found.add(id(operator))
            waiting += [one for index in operator.inputs if (one := graph.producer(index)) is not None]
    return found


def _border(graph: EditedGraph, chosen: Sequence[Any]) -> tuple[list[int], list[int]]:
    read = dict.fromkeys(index for operator in chosen for index in operator.inputs if index != NO_TENSOR)
    written = dict.fromkeys(index for operator in chosen for index in operator.outputs)
    kept = {id(operator) for operator in chosen}
    outside = [operator for operator in graph.operators if id(operator) not in kept]
    wanted = {index for operator in outside for index in operator.inputs} | set(graph.outputs)
    inputs = [index for index in read if index not in written and graph.is_filled(index)]
    return inputs, [index for index in written if index in wanted]


def make_private(model: EditedModel, seed: int = 0) -> None:
    """Replace learned numbers by random ones with their mean, spread and range, and all names by plain ones.

    Quantization, shapes and axes stay: they decide which kernels run.
    """
    random = np.random.default_rng(seed)
    replaced: dict[int, int] = {}
    for graph in model.graphs:
        for index, tensor in enumerate(graph.record.tensors):
            source = int(tensor.buffer)
            if source not in replaced and (raw := _private_bytes(graph, index, random)) is not None:
                replaced[source] = model.parts.add_buffer(raw)
            # What shared its bytes with another goes on sharing them.
            tensor.buffer = replaced.get(source, source)
    strip_names(model)


def strip_names(model: EditedModel) -> None:
    """Give tensors, graphs, signatures, calls and unknown custom operators plain names, and drop all descriptions."""
    for graph in model.graphs:
        for index, tensor in enumerate(graph.record.tensors):
            tensor.name = f"tensor_{index}"
        graph.record.name = f"graph_{graph.index}"
    for number, signature in enumerate(model.record.signatureDefs or []):
        signature.signatureKey = DEFAULT_SIGNATURE if number == 0 else f"signature_{number}"
        for kind, entries in (("input", signature.inputs), ("output", signature.outputs)):
            for place, entry in enumerate(entries or []):
                entry.name = f"{kind}_{place}"
    _strip_customs(model)
    _strip_calls(model)
    _strip_variables(model)
    model.strip()


def _strip_customs(model: EditedModel) -> None:
    """Custom operators that only their owner knows lose their names, and the bytes that their kernels would get. Those
    of TensorFlow's operators lose the bytes: they are nodes of its graph, with their names."""
    own: dict[int, str] = {}
    flex: set[int] = set()
    for index, code in enumerate(model.record.operatorCodes):
        name = text(code.customCode)
        if name.startswith("Flex"):
            flex.add(index)
        elif name and name not in PUBLIC_CUSTOMS:
            own[index] = code.customCode = f"custom_{len(own)}"
    for graph in model.graphs:
        for operator in graph.operators:
            if int(operator.opcodeIndex) in own.keys() | flex:
                operator.customOptions = None


def _strip_calls(model: EditedModel) -> None:
    """Composites and calls that only their owner knows lose their names and attributes; equal names stay equal."""
    named: dict[str, str] = {}
    for graph in model.graphs:
        for operator in graph.operators:
            chosen = operator.builtinOptions2
            for field_name, attributes in _CALLS.items():
                name = text(getattr(chosen, field_name, None))
                if not hasattr(chosen, field_name) or name in PUBLIC_CUSTOMS:
                    continue
                setattr(chosen, field_name, named.setdefault(name, f"call_{len(named)}"))
                for attribute in attributes:
                    setattr(chosen, attribute, None)


def _strip_variables(model: EditedModel) -> None:
    """Variables are known by names in the options of operators: equal names stay equal."""
    named: dict[tuple[str, str], str] = {}
    for graph in model.graphs:
        for operator in graph.operators:
            chosen = operator.builtinOptions
            if hasattr(chosen, "sharedName"):
                key = (text(chosen.container), text(chosen.sharedName))
                chosen.sharedName = named.setdefault(key, f"variable_{len(named)}")
                chosen.container = ""


def _private_bytes(graph: EditedGraph, index: int, random: np.random.Generator) -> Array | None:
    """Other bytes for a constant that holds what somebody learned or wrote; None for one that may stay."""
    tensor = graph.tensor(index)
    raw = constant_bytes(graph.parts.record, tensor)
    if raw is None or len(raw) == 0:
        return None
    dtype = graph.dtype(index)
    learned = dtype in _LEARNED or graph.is_quantized(index) or dtype in _PACKED
    if dtype == "string":
        return _masked_letters(raw)
    if not learned and not (dtype in _NUMBERS and len(raw) >= _LARGE_TABLE):
        return None
    if dtype in _PACKED:
        return np.frombuffer(random.bytes(len(raw)), np.uint8)
    # A sparse tensor has fewer values than its shape says: the bytes count.
    values = np.frombuffer(raw.tobytes(), np.dtype(dtype).newbyteorder("<"))
    return None if values.size < 2 else np.frombuffer(_like(values, random).tobytes(), np.uint8)


def _masked_letters(raw: Array) -> Array:
    """The bytes of a tensor of strings with an x for each letter; the table of offsets before them stays."""
    data = raw.tobytes()
    count = int.from_bytes(data[:4], "little")
    begin = min(len(data), 4 * (count + 2))
    return np.frombuffer(data[:begin] + b"x" * (len(data) - begin), np.uint8)


def _like(values: Array, random: np.random.Generator) -> Array:
    real = values.astype(np.float64)
    finite = real[np.isfinite(real)]
    if not finite.size:
        return values
    drawn = random.normal(finite.mean(), finite.std(), values.shape)
    is_integer = values.dtype.kind in "iub"
    # Real numbers stay inside of the range: its very ends would be two of the original's.
    edge = 0.0 if is_integer else 1e-3 * (finite.max() - finite.min())
    drawn = np.clip(drawn, finite.min() + edge, finite.max() - edge)
    made: Array = (np.rint(drawn) if is_integer else drawn).astype(values.dtype)
    return made
