"""Checks of the graph: operators without a kernel, open shapes, odd types, signatures, metadata, old files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hasten.core.errors import ModelError
from hasten.measure.open_shapes import inputs_without_size
from hasten.model.edit.model import EditedModel
from hasten.model.metadata import read_metadata
from hasten.practices.help.model_checks.findings import Subject, better, broken, good

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hasten.model.graph import Graph, Node, Subgraph
    from hasten.practices.help.facts import Check

OPERATORS, SHAPES, TYPES, SIGNATURES = "operators", "shapes", "types", "signatures"
METADATA, SCHEMA, DEAD_CODE = "metadata", "file format", "unused operators"
_SCHEMA_VERSION: Final = 3
# No delegate computes in these, and few built-in kernels do.
_ODD: Final = frozenset(
    {
        *("float64", "complex64", "complex128", "string", "bfloat16", "float8_e4m3fn", "float8_e5m2"),
        *("uint16", "uint32", "uint64", "variant"),
    }
)
# LiteRT 2.3 ends the process on these where 8-bit inputs have no scale.
_NEED_A_SCALE: Final = frozenset({"ADD", "SUB"})
_UNKNOWN: Final = "UNKNOWN_"


def graph_checks(subject: Subject) -> Iterator[Check]:
    """Everything that the graph alone tells."""
    graph = subject.graph
    yield _operators(graph)
    yield _shapes(graph)
    yield _types(subject)
    yield _signatures(graph)
    yield _metadata(graph)
    yield from _as_written(subject)


def _operators(graph: Graph) -> Check:
    if flex := graph.flex_operators():
        return broken(OPERATORS, "model.flex", names=list(flex))
    unknown = sorted({node.op for node in _nodes(graph) if node.op.startswith(_UNKNOWN)})
    if unknown:
        return broken(OPERATORS, "model.unknown-operators", names=unknown)
    if customs := graph.custom_operators():
        return better(OPERATORS, "model.custom-operators", names=list(customs))
    return good(OPERATORS, "model.operators", count=sum(1 for _ in _nodes(graph)))


def _shapes(graph: Graph) -> Check:
    if unset := inputs_without_size(graph):
        name, shape = unset[0]
        return better(SHAPES, "model.no-size", input=name, shape=shape)
    # An open batch is usual, and engines close it with 1.
    opened = [tensor for tensor in graph.inputs if tensor.is_unranked or -1 in tensor.shape_signature[1:]]
    if opened:
        first = opened[0]
        return better(SHAPES, "model.open-inputs", input=first.name, shape=list(first.shape_signature))
    # Handles of variables have no shape.
    inner = [
        tensor
        for tensor in graph.main.tensors
        if tensor.dtype != "resource" and (tensor.is_unranked or -1 in tensor.shape_signature[1:])
    ]
    if inner:
        nodes = [node for node in graph.main.nodes if {tensor.index for tensor in inner} & set(node.outputs)]
        ops = sorted({node.label for node in nodes})
        return better(SHAPES, "model.open-tensors", count=len(inner), ops=ops, nodes=[node.index for node in nodes])
    return good(SHAPES, "model.shapes")


def _types(subject: Subject) -> Check:
    graph = subject.graph
    unscaled = [node.index for node in graph.main.nodes if _lacks_scale(graph.main, node)]
    if unscaled:
        ops = sorted({graph.main.nodes[index].label for index in unscaled})
        return broken(TYPES, "model.unscaled", nodes=unscaled, ops=ops)
    odd: dict[str, list[int]] = {}
    for node in graph.main.nodes:
        for dtype in {graph.main.tensors[index].dtype for index in node.outputs if index >= 0} & _ODD:
            odd.setdefault(dtype, []).append(node.index)
    if odd:
        nodes = sorted({index for indices in odd.values() for index in indices})
        return better(TYPES, "model.odd-types", types=sorted(odd), nodes=nodes, **subject.cost(nodes))
    return good(TYPES, "model.types", format=graph.number_format().describe())


def _lacks_scale(subgraph: Subgraph, node: Node) -> bool:
    tensors = [subgraph.tensors[index] for index in node.inputs if index >= 0]
    return node.op in _NEED_A_SCALE and any(
        tensor.dtype in ("int8", "uint8") and tensor.quantization is None for tensor in tensors
    )


def _signatures(graph: Graph) -> Check:
    if graph.signatures:
        return good(SIGNATURES, "model.signatures", keys=[signature.key for signature in graph.signatures])
    return better(SIGNATURES, "model.no-signature")


def _metadata(graph: Graph) -> Check:
    try:
        found = read_metadata(graph)
    except ModelError as error:
        return broken(METADATA, "model.metadata-damaged", why=error.message)
    if found is None:
        return better(METADATA, "model.no-metadata")
    described = len(found.inputs) == len(graph.inputs) and len(found.outputs) == len(graph.outputs)
    return good(METADATA, "model.metadata") if described else better(METADATA, "model.metadata-partial")


def _as_written(subject: Subject) -> Iterator[Check]:
    """What only the objects of the file tell; a file that is too large to be changed is not asked."""
    graph = subject.graph
    try:
        model = EditedModel.read(graph.path)
    except ModelError:
        return
    if graph.version != _SCHEMA_VERSION:
        yield broken(SCHEMA, "model.schema-unknown", version=graph.version)
    elif model.parts.filled_codes:
        yield better(SCHEMA, "model.schema-old", count=model.parts.filled_codes)
    else:
        yield good(SCHEMA, "model.schema", version=graph.version)
    dead = [index for operator in model.main.unneeded() for index in operator.nodes]
    if dead:
        ops = sorted({graph.main.nodes[index].label for index in dead})
        yield better(DEAD_CODE, "model.dead-code", nodes=dead, ops=ops, **subject.cost(dead))
    else:
        yield good(DEAD_CODE, "model.no-dead-code")


def _nodes(graph: Graph) -> Iterator[Node]:
    return (node for subgraph in graph.subgraphs for node in subgraph.nodes)
