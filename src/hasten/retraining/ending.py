"""Where a model turns features into classes: the layer that a new head replaces, found from an output backwards.

Pure: it reads the graph and runs nothing. An ending that cannot be replaced is refused by the name of its node.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Final

from hasten.core.errors import ModelError, UsageError

if TYPE_CHECKING:
    from hasten.model.graph import Graph, Node, Subgraph

# What may stand between the head and the output: it changes neither which class is largest nor what the head reads.
_PASSED: Final = frozenset(
    {
        *("SOFTMAX", "LOGISTIC", "LOG_SOFTMAX", "RELU", "RELU6"),
        *("RESHAPE", "SQUEEZE", "EXPAND_DIMS", "DEQUANTIZE", "QUANTIZE"),
    }
)
# A constant that is added or multiplied is part of the head: a bias, a temperature.
_WITH_CONSTANT: Final = frozenset({"ADD", "SUB", "MUL", "DIV"})
_POOLING: Final = frozenset({"MEAN", "AVERAGE_POOL_2D"})
# The layers that a head can replace, and how many dimensions their weights have.
_RANKS: Final = {"FULLY_CONNECTED": 2, "CONV_2D": 4}
_HINT: Final = (
    "A head can replace a FULLY_CONNECTED layer or a 1×1 CONV_2D before the output. "
    "To put it on another tensor, name that: --features NAME."
)


@dataclass(frozen=True, slots=True)
class Ending:
    """The end of a model that a new head replaces. Tensors and nodes are indices of one subgraph."""

    subgraph: int
    output: int
    """The output that tells the classes."""
    name: str
    """What callers know that output by."""
    features: int
    """The tensor that the head reads."""
    count: int
    """How many features a sample has."""
    pooled: bool
    """Whether the features have positions, over which they are averaged first."""
    head: int | None = None
    """The node that is replaced; None where the head is put on a tensor that the user names."""
    classes: int = 0
    """How many classes the replaced head tells apart."""
    passed: tuple[str, ...] = ()
    """The operators between the replaced head and the output."""


def find_ending(graph: Graph, *, signature: str = "", output: str = "", features: str = "") -> Ending:
    """The ending of an output, of the first one that has one unless it is named; or the tensor that is named."""
    outputs = _outputs(graph, signature)
    if output and output not in outputs:
        raise UsageError(f"{graph.path.name} has no output {output!r}.", f"Choose one of {', '.join(outputs)}.")
    chosen = {output: outputs[output]} if output else outputs
    subgraph = graph.subgraphs[_subgraph(graph, signature)]
    if features:
        name, index = next(iter(chosen.items()))
        return _on_tensor(graph, subgraph, (features, outputs.get(features)), name, index)
    tried = [_Walk(graph, subgraph, name, index).ending() for name, index in chosen.items()]
    found = [entry for entry in tried if isinstance(entry, Ending)]
    if found:
        return found[0]
    raise next(entry for entry in tried if isinstance(entry, ModelError))


def _subgraph(graph: Graph, key: str) -> int:
    entry = graph.signature(key or None)
    return 0 if entry is None else entry.subgraph


def _outputs(graph: Graph, key: str) -> dict[str, int]:
    entry = graph.signature(key or None)
    if entry is not None:
        return dict(entry.outputs)
    return {graph.main.tensors[index].name: index for index in graph.main.outputs}


def _on_tensor(graph: Graph, subgraph: Subgraph, given: tuple[str, int | None], name: str, output: int) -> Ending:
    """The ending where a user names the features: an output by its name in the signature, or any tensor."""
    features, place = given
    found = [index for index, tensor in enumerate(subgraph.tensors) if tensor.name == features]
    candidates = found if place is None else [place]
    if not candidates:
        raise UsageError(
            f"{graph.path.name} has no tensor {features!r}.", "hasten profile --json lists the names of its nodes."
        )
    tensor = subgraph.tensors[candidates[0]]
    if tensor.is_constant or not tensor.shape or tensor.is_unranked:
        raise UsageError(f"{features!r} is not computed by the model.", "Name a tensor that a node writes.")
    count = tensor.shape[-1]
    return Ending(subgraph.index, output, name, tensor.index, count, _positions(tensor.shape, count) > 1)


class _Walk:
    """The way from an output back to its head."""

    def __init__(self, graph: Graph, subgraph: Subgraph, name: str, output: int) -> None:
        self._graph, self._subgraph, self._name, self._output = graph, subgraph, name, output
        self._producers = {index: node for node in subgraph.nodes for index in node.outputs}
        self._passed: list[str] = []

    def ending(self) -> Ending | ModelError:
        """The ending, or the error that names the node in the way."""
        try:
            return self._found()
        except ModelError as error:
            return error

    def _found(self) -> Ending:
        tensor = self._output
        for _ in self._subgraph.nodes:
            node = self._producers.get(tensor)
            if node is None:
                break
            if node.op in _RANKS:
                return self._at(node)
            tensor = self._before(node)
        raise ModelError(f"The output {self._name!r} of {self._graph.path.name} has no layer to replace.", _HINT)

    def _before(self, node: Node) -> int:
        """What a node between head and output was computed from."""
        if not node.inputs or node.inputs[0] < 0:
            raise self._refusal(node, " without an input")
        self._passed.append(node.op)
        if node.op in _PASSED or node.op in _POOLING:
            return node.inputs[0]
        if node.op in _WITH_CONSTANT:
            computed = [index for index in node.inputs if not self._is_constant(index)]
            if len(computed) == 1:
                return computed[0]
        raise self._refusal(node, "")

    def _at(self, node: Node) -> Ending:
        tensors = self._subgraph.tensors
        if len(node.inputs) < 2 or min(node.inputs[:2]) < 0:
            raise self._refusal(node, " without weights")
        source, weights = tensors[node.inputs[0]], tensors[node.inputs[1]]
        if not self._is_constant(weights.index):
            raise self._refusal(node, " whose weights are computed")
        if len(weights.shape) != _RANKS[node.op]:
            raise self._refusal(node, f" with weights of shape {list(weights.shape)}")
        if node.op == "CONV_2D" and weights.shape[1:3] != (1, 1):
            high, wide = weights.shape[1:3]
            raise self._refusal(node, f" with a {high}×{wide} kernel")
        count = weights.shape[-1]
        positions = _positions(source.shape, count)
        if positions > 1 and not _POOLING.intersection(self._passed):
            raise self._refusal(node, f" for {positions} positions of a map, not for a sample")
        return Ending(
            self._subgraph.index,
            self._output,
            self._name,
            source.index,
            count,
            pooled=positions > 1,
            head=node.index,
            classes=weights.shape[0],
            passed=tuple(self._passed),
        )

    def _is_constant(self, index: int) -> bool:
        """Whether the file holds the values, perhaps as float16 or integers behind a conversion."""
        node = self._producers.get(index)
        if node is not None and node.op == "DEQUANTIZE":
            index = node.inputs[0]
        return index >= 0 and self._subgraph.tensors[index].is_constant

    def _refusal(self, node: Node, what: str) -> ModelError:
        place = f"node {node.index}, {self._subgraph.node_location(node)!r}"
        return ModelError(
            f"The output {self._name!r} of {self._graph.path.name} comes from {node.label} ({place}){what},"
            " which no new head can replace.",
            _HINT,
        )


def _positions(shape: tuple[int, ...], count: int) -> int:
    """For how many positions of a sample there are features; open dimensions stand for one."""
    return max(1, prod(max(1, size) for size in shape) // max(1, count))
