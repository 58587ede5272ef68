"""Networks, and faults planted into one of their nodes; each fault knows the node that it is in."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hasten import demo
from hasten.model.build_graph import Spec
from hasten.model.edit.model import EditedModel
from hasten.targets.local import LocalTarget
from tests import example_models
from tests.model_builder import ModelBuilder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from hasten.core.plan import Plan
    from hasten.model.build_graph import Value
    from hasten.model.edit.graph import EditedGraph
    from hasten.targets.client import RunnerClient

    Plant = Callable[[EditedGraph, Any], None]
    """Changes an operator (`OperatorT`) of a graph."""

SIDE: Final = 16
_INT32: Final = 2
_NONE: Final = 0
_LAYERS: Final = ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED")


def small_mobilenet(dtype: str = "float32") -> bytes:
    """One CONV; 1 CONV, 2 DEPTHWISE, 3 CONV, 4 ADD; 5 to 8 the same; 9 to 11 without ADD; 12 to 15; a classifier."""
    return example_models.mobilenet_like(blocks=2, dtype=dtype)


def small_efficientnet(dtype: str = "float32") -> bytes:
    """Swish and squeeze-and-excite: LOGISTIC and MUL behind most layers."""
    return example_models.efficientnet_like(blocks=1, dtype=dtype)


def moves() -> bytes:
    """Nodes that move, join and choose values, whose dimensions can be mixed up without an error."""
    g = ModelBuilder()
    y = g.conv2d(g.input("x", (1, SIDE, SIDE, 8)), SIDE, 3, activation="relu")
    swapped = g.transpose(y, (0, 2, 1, 3))
    numbers = np.random.default_rng(3)
    shifted = g.add(g.sub(swapped, y), g.constant(numbers.standard_normal(SIDE).astype(np.float32)))
    scaled = _divided(g, g.mul(shifted, g.constant(numbers.uniform(1, 2, SIDE).astype(np.float32))))
    joined = g.concatenation([scaled, y])
    pooled = g.tanh(g.mean(joined, (1,), keep_dims=True))
    rows = g.softmax(g.fully_connected(g.reshape(pooled, (SIDE, 2 * SIDE)), SIDE))
    scores = g.fully_connected(g.transpose(rows, (1, 0)), 10)
    g.output(scores, "scores")
    axis = g.constant(np.array([1], np.int32))
    (chosen,) = g.operator(
        "ARG_MAX", [scores, axis], [Spec((SIDE,), "int32")], options_type="ArgMaxOptions", outputType=_INT32
    )
    g.output(chosen, "classes")
    return g.build()


def _divided(g: ModelBuilder, x: Value) -> Value:
    by = g.constant(np.linspace(1, 3, SIDE, dtype=np.float32))
    (y,) = g.operator("DIV", [x, by], [Spec(x.shape)], options_type="DivOptions", fusedActivationFunction=_NONE)
    return y


def attention() -> bytes:
    """One head of attention over as many positions as it has channels."""
    g = ModelBuilder()
    x = g.input("x", (1, SIDE, SIDE))
    query, key, value = (g.fully_connected(x, SIDE) for _ in range(3))
    spec = [Spec((1, SIDE, SIDE))]
    (scores,) = g.operator("BATCH_MATMUL", [query, key], spec, options_type="BatchMatMulOptions", adjX=False, adjY=True)
    (mixed,) = g.operator(
        "BATCH_MATMUL", [g.softmax(scores), value], spec, options_type="BatchMatMulOptions", adjX=False, adjY=False
    )
    g.output(g.fully_connected(g.add(mixed, x), 4), "y")
    return g.build()


NETWORKS: Final[dict[str, Callable[[], bytes]]] = {
    "mobilenet": small_mobilenet,
    "mobilenet-int8": lambda: small_mobilenet("int8"),
    "efficientnet": small_efficientnet,
    "efficientnet-int8": lambda: small_efficientnet("int8"),
    "moves": moves,
    "attention": attention,
    "demo": demo.MODEL.read_bytes,
}


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong with the n-th operator of a kind in a network."""

    network: str
    op: str
    number: int
    plant: Plant

    def models(self) -> tuple[bytes, bytes, int]:
        """The network as it is, the one with the fault, and the node that has it."""
        data = NETWORKS[self.network]()
        model = EditedModel.from_bytes(data)
        node = self.node_in(model.main)
        self.plant(model.main, model.main.operators[node])
        return data, model.to_bytes(), node

    def node_in(self, graph: EditedGraph) -> int:
        """The node that it is planted into."""
        return [at for at, operator in enumerate(graph.operators) if graph.op(operator) == self.op][self.number]


def planted_together(names: Iterable[str]) -> tuple[bytes, bytes, list[int]]:
    """A network as it is, the one with several faults, and the nodes that have them."""
    chosen = [FAULTS[name] for name in names]
    (network,) = {fault.network for fault in chosen}
    data = NETWORKS[network]()
    model = EditedModel.from_bytes(data)
    nodes = [fault.node_in(model.main) for fault in chosen]
    for fault, operator in zip(chosen, [model.main.operators[node] for node in nodes], strict=True):
        fault.plant(model.main, operator)
    return data, model.to_bytes(), sorted(nodes)


# -- faults


def set_constant(graph: EditedGraph, tensor: int, values: np.ndarray[Any, Any]) -> None:
    """Write other bytes; other readers of the same bytes keep theirs."""
    raw = np.frombuffer(np.ascontiguousarray(values).tobytes(), np.uint8)
    graph.tensor(tensor).buffer = graph.parts.add_buffer(raw)


def constant(graph: EditedGraph, tensor: int) -> np.ndarray[Any, Any]:
    values = graph.constant(tensor)
    assert values is not None
    return np.array(values)


def changed(place: int, change: Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]]) -> Plant:
    """Another constant in an input."""

    def plant(graph: EditedGraph, operator: Any) -> None:
        values = constant(graph, operator.inputs[place])
        set_constant(graph, operator.inputs[place], change(values).astype(values.dtype))

    return plant


def negated_channel(axis: int = 0) -> Plant:
    """The weights of one output channel have the wrong sign."""

    def change(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        np.moveaxis(values, axis, 0)[0] *= -1
        return values

    return changed(1, change)


def one_weight(value: float) -> Plant:
    """One single weight is another number."""

    def change(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        values.reshape(-1)[values.size // 2] = value
        return values

    return changed(1, change)


def rounded_to_half() -> Plant:
    """The weights went through half precision."""
    return changed(1, lambda values: values.astype(np.float16))


def rounded_to_bfloat16() -> Plant:
    """The weights lost the lower half of their bits."""

    def change(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return np.asarray((values.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32))

    return changed(1, change)


def wrong_bias(steps: float) -> Plant:
    """One channel's bias is off by steps of the output's type, or by that much where it is float."""

    def plant(graph: EditedGraph, operator: Any) -> None:
        values = constant(graph, operator.inputs[2])
        unit = 1.0
        if values.dtype == np.int32:
            output, bias = (
                graph.tensor(index).quantization.scale for index in (operator.outputs[0], operator.inputs[2])
            )
            unit = float(output[0]) / float(bias[0])
        values[0] += values.dtype.type(round(steps * unit) if values.dtype == np.int32 else steps)
        set_constant(graph, operator.inputs[2], values)

    return plant


def option(name: str, value: Any) -> Plant:
    """Another option."""

    def plant(graph: EditedGraph, operator: Any) -> None:
        assert getattr(operator.builtinOptions, name) != value
        setattr(operator.builtinOptions, name, value)

    return plant


def swapped_inputs(graph: EditedGraph, operator: Any) -> None:
    """The first two inputs have changed places."""
    first, second, *rest = operator.inputs
    graph.set_input(operator, 0, second)
    graph.set_input(operator, 1, first)
    assert operator.inputs == [second, first, *rest]


def another_operator(op: str) -> Plant:
    """Another operator stands in its place."""

    def plant(graph: EditedGraph, operator: Any) -> None:
        operator.opcodeIndex = graph.parts.operator_code(op)
        operator.builtinOptionsType, operator.builtinOptions = 0, None

    return plant


def other_axes(axes: list[int], shape: list[int]) -> Plant:
    """The mean over another axis: its output, and that of the node behind it, have their sizes in another order."""

    def plant(graph: EditedGraph, operator: Any) -> None:
        set_constant(graph, operator.inputs[1], np.array(axes, np.int32))
        behind = graph.only_reader(operator.outputs[0])
        for index in (operator.outputs[0], *(behind.outputs if behind is not None else ())):
            graph.tensor(index).shape = shape

    return plant


def rescaled(factor: float, shift: int = 0) -> Plant:
    """The output's type has steps of another size, or another zero."""

    def plant(graph: EditedGraph, operator: Any) -> None:
        quantization = graph.tensor(operator.outputs[0]).quantization
        points = quantization.zeroPoint
        quantization.scale = [float(value) * factor for value in quantization.scale]
        quantization.zeroPoint = [int(value) + shift for value in (points if points is not None else [0])]
        for reader in graph.readers(operator.outputs[0]):
            _fit_bias(graph, reader, factor)

    return plant


def _fit_bias(graph: EditedGraph, operator: Any, factor: float) -> None:
    """A bias counts in steps of input times weights: without this, the node behind would be wrong as well."""
    if graph.op(operator) in _LAYERS and len(operator.inputs) > 2 and operator.inputs[2] >= 0:
        values = constant(graph, operator.inputs[2])
        set_constant(graph, operator.inputs[2], np.rint(values / factor).astype(values.dtype))
        bias = graph.tensor(operator.inputs[2]).quantization
        bias.scale = [float(value) * factor for value in bias.scale]


CLIPPED: Final = rescaled(0.25)
FAULTS: Final[dict[str, Fault]] = {
    "channel with the wrong sign": Fault("mobilenet", "CONV_2D", 3, negated_channel()),
    "one wrong weight": Fault("mobilenet", "DEPTHWISE_CONV_2D", 2, one_weight(7.0)),
    "wrong bias": Fault("mobilenet", "CONV_2D", 5, wrong_bias(0.5)),
    "weights in half precision": Fault("mobilenet", "CONV_2D", 4, rounded_to_half()),
    "weights in bfloat16": Fault("efficientnet", "CONV_2D", 2, rounded_to_bfloat16()),
    "activation left out": Fault("mobilenet", "DEPTHWISE_CONV_2D", 1, option("fusedActivationFunction", _NONE)),
    "weight that is no number": Fault("mobilenet", "CONV_2D", 2, one_weight(float("nan"))),
    "infinite weight": Fault("efficientnet", "CONV_2D", 1, one_weight(float("inf"))),
    "division by zero": Fault("moves", "DIV", 0, one_weight(0.0)),
    "another function": Fault("efficientnet", "LOGISTIC", 2, another_operator("TANH")),
    "another depthwise weight": Fault("efficientnet", "DEPTHWISE_CONV_2D", 0, negated_channel(3)),
    "axes of a transpose": Fault("moves", "TRANSPOSE", 0, changed(1, lambda _: np.array([0, 1, 2, 3]))),
    "axes of a second transpose": Fault("moves", "TRANSPOSE", 1, changed(1, lambda _: np.array([0, 1]))),
    "axis of a mean": Fault("moves", "MEAN", 0, other_axes([2], [1, SIDE, 1, 2 * SIDE])),
    "parts in another order": Fault("moves", "CONCATENATION", 0, swapped_inputs),
    "subtraction the other way round": Fault("moves", "SUB", 0, swapped_inputs),
    "wrong constant": Fault("moves", "ADD", 0, one_weight(5.0)),
    "steeper softmax": Fault("moves", "SOFTMAX", 0, option("beta", 2.0)),
    "factor of a matrix not turned": Fault("attention", "BATCH_MATMUL", 0, option("adjY", False)),
    "weights of an attention": Fault("attention", "FULLY_CONNECTED", 2, negated_channel()),
    "channel of integers with the wrong sign": Fault("mobilenet-int8", "CONV_2D", 3, negated_channel()),
    "depthwise integers": Fault("mobilenet-int8", "DEPTHWISE_CONV_2D", 1, negated_channel(3)),
    "wrong bias of integers": Fault("mobilenet-int8", "CONV_2D", 5, wrong_bias(40)),
    "clipped range": Fault("mobilenet-int8", "CONV_2D", 2, CLIPPED),
    "shifted range": Fault("mobilenet-int8", "CONV_2D", 4, rescaled(1.0, 60)),
    "coarse steps": Fault("mobilenet-int8", "CONV_2D", 2, rescaled(8.0)),
    "squeezed integers": Fault("efficientnet-int8", "CONV_2D", 2, negated_channel()),
    "classifier of integers": Fault("efficientnet-int8", "FULLY_CONNECTED", 0, negated_channel()),
    "layer of a trained model": Fault("demo", "CONV_2D", 11, negated_channel()),
    "precision in a trained model": Fault("demo", "DEPTHWISE_CONV_2D", 4, rounded_to_half()),
}


def random_fault(number: int) -> Fault:
    """A fault of one of four kinds, in a node that chance picks: the same for the same number."""
    chance = random.Random(number)
    kind = list(KINDS)[number % len(KINDS)]
    networks, plants = KINDS[kind]
    network = chance.choice(networks)
    graph = EditedModel.from_bytes(NETWORKS[network]()).main
    names = [graph.op(operator) for operator in graph.operators]
    able = [(at, plant) for at, op in enumerate(names) for plant in plants.get(op, ()) if _has_weights(graph, at)]
    node, plant = chance.choice(able)
    return Fault(network, names[node], names[:node].count(names[node]), plant)


def _has_weights(graph: EditedGraph, node: int) -> bool:
    """Whether it is a layer with weights of its own, or needs none."""
    return graph.op(graph.operators[node]) not in _LAYERS or graph.is_constant(graph.operators[node].inputs[1])


def turned(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Weights with two dimensions of equal size swapped; in the reverse order where no two are equal."""
    sizes = list(values.shape)
    for first, size in enumerate(sizes):
        if size > 1 and size in sizes[first + 1 :]:
            return np.swapaxes(values, first, first + 1 + sizes[first + 1 :].index(size))
    return values[..., ::-1]


_FLOAT: Final = ("mobilenet", "efficientnet", "moves", "attention", "demo")
_INTEGER: Final = ("mobilenet-int8", "efficientnet-int8")
_SIGNS: Final = {op: [negated_channel(3 if op == "DEPTHWISE_CONV_2D" else 0)] for op in _LAYERS}
KINDS: Final[dict[str, tuple[tuple[str, ...], dict[str, list[Plant]]]]] = {
    "wrong kernel": (
        (*_FLOAT, *_INTEGER),
        _SIGNS | {"LOGISTIC": [another_operator("TANH")], "TANH": [another_operator("LOGISTIC")]},
    ),
    "clipped range": (_INTEGER, {op: [CLIPPED] for op in (*_LAYERS, "ADD")}),
    "swapped axis": (
        (*_FLOAT, *_INTEGER),
        {op: [changed(1, turned)] for op in _LAYERS} | {"SUB": [swapped_inputs], "CONCATENATION": [swapped_inputs]},
    ),
    "precision": (_FLOAT, {op: [rounded_to_half(), rounded_to_bfloat16()] for op in _LAYERS}),
}


# -- what is no fault


def renamed(data: bytes) -> bytes:
    """The same with other names."""
    model = EditedModel.from_bytes(data)
    for index, tensor in enumerate(model.main.record.tensors):
        tensor.name = f"other_{index}"
    return model.to_bytes()


def rounded_otherwise(data: bytes) -> bytes:
    """As another converter would fold a normalization into the weights: other last bits everywhere."""
    model = EditedModel.from_bytes(data)
    for operator in model.main.operators:
        if model.main.is_op(operator, "CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED"):
            values = constant(model.main, operator.inputs[1])
            set_constant(model.main, operator.inputs[1], values * np.float32(1 + 2**-23))
    return model.to_bytes()


class LyingTarget(LocalTarget):
    """This machine, with an engine that computes something else on one plan: a lie changes every model it loads."""

    def __init__(self, plan: Plan, lie: Callable[[EditedGraph], None], folder: Path) -> None:
        super().__init__()
        self._plan, self._lie, self._folder = plan, lie, folder
        self._loaded = 0

    def start(self, plan: Plan) -> RunnerClient:
        """A runner; on the plan in question it is given other models than it is asked to load."""
        client = super().start(plan)
        if plan == self._plan:
            client._stage = self._changed
        return client

    def _changed(self, path: Path) -> str:
        model = EditedModel.read(path)
        self._lie(model.main)
        self._loaded += 1
        other = self._folder / f"changed-{self._loaded}.tflite"
        model.write(other)
        return str(other)
