"""The time of each layer where OpenVINO runs a model, by its own counters; and the nodes that layers came from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from hasten.core.codec import from_data, record

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hasten.measure.rounds import Candidate
    from hasten.model.graph import Graph
    from hasten.targets.base import Target

_SECONDS: Final = 1.0
# OpenVINO's kinds of layers that stand for one operator of LiteRT.
_KINDS: Final = {
    "Convolution": "CONV_2D",
    "GroupConvolution": "DEPTHWISE_CONV_2D",
    "Deconvolution": "TRANSPOSE_CONV",
    "FullyConnected": "FULLY_CONNECTED",
    "Softmax": "SOFTMAX",
}


@record
class LayerTime:
    """A layer of OpenVINO, in the order in which they run."""

    name: str
    kind: str
    kernel: str
    ms: float
    share: float
    """Of all layers."""
    partition: int = 0
    node: int | None = None
    """The node of the model that it came from, by its order among those of its kind; None where that tells nothing."""


def layer_times(target: Target, candidate: Candidate, graph: Graph) -> tuple[LayerTime, ...]:
    """The layers of a candidate on the NPU; raises RunnerFailed where they cannot be counted."""
    with target.start(candidate.plan) as runner:
        counted = runner.layers(candidate.path, candidate.workload, _SECONDS)
    whole = sum(layer["us"] for layer in counted)
    nodes = nodes_of_layers(counted, graph)
    return tuple(
        from_data(
            LayerTime, {**layer, "ms": layer["us"] / 1e3, "share": layer["us"] / whole if whole else 0.0, "node": node}
        )
        for layer, node in zip(counted, nodes, strict=True)
    )


def nodes_of_layers(layers: Sequence[Mapping[str, Any]], graph: Graph) -> list[int | None]:
    """The node of each layer: by the order within its kind, where number and sizes agree.

    Names do not tell: layers get new ones as OpenVINO changes the graph, and the plugin's numbers are not the nodes'.
    """
    found: list[int | None] = [None] * len(layers)
    for kind, op in _KINDS.items():
        places = [place for place, layer in enumerate(layers) if layer["kind"] == kind]
        nodes = [node for node in graph.main.nodes if node.op == op]
        sizes = [graph.main.tensors[node.outputs[0]].elements for node in nodes]
        if sizes == [layers[place]["elements"] for place in places]:
            for place, node in zip(places, nodes, strict=True):
                found[place] = node.index
    return found
