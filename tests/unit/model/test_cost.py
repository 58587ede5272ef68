"""Costs computed by hand for each formula, and published totals of well-known models."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from hasten.model.cost import Cost, count_cost, stored_shapes, total_macs
from hasten.model.graph import Graph, Node, Quantization, Subgraph, Tensor
from hasten.model.reader import read_graph

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hasten.model.graph import Shape

BITS = {"float32": 32, "int8": 8, "int4": 4, "int32": 32}


def tensor_of(index: int, shape: Shape, dtype: str = "float32", constant: bool = False, **changes: Any) -> Tensor:
    size = 1
    for length in shape:
        size *= length
    fields: dict[str, Any] = {
        "index": index,
        "name": f"t{index}",
        "shape": shape,
        "shape_signature": shape,
        "dtype": dtype,
        "quantization": Quantization((0.5,), (0,), 0) if constant and dtype in ("int8", "int4") else None,
        "is_constant": constant,
        "is_variable": False,
        "is_sparse": False,
        "is_unranked": False,
        "buffer_bytes": -(-size * BITS[dtype] // 8) if constant else 0,
        "buffer_offset": 1000 * index if constant else None,
    }
    return Tensor(**{**fields, **changes})


def graph_of(op: str, inputs: list[Tensor | None], outputs: list[Tensor], options: Mapping[str, Any]) -> Graph:
    present = [tensor for tensor in inputs if tensor is not None] + outputs
    tensors = tuple(sorted(present, key=lambda tensor: tensor.index))
    indices = tuple(-1 if tensor is None else tensor.index for tensor in inputs)
    node = Node(0, op, None, 1, indices, tuple(tensor.index for tensor in outputs), options)
    subgraph = Subgraph(0, "main", tensors, (node,), (), ())
    return Graph(Path("m.tflite"), 0, "", 3, "", (subgraph,), (), (), ())


def cost_of(op: str, shapes: list[Shape | None], output: Shape, weights: tuple[int, ...] = (), **options: Any) -> Cost:
    """Cost of a node of float32 tensors; `weights` are the positions of constants, None is an input left out."""
    inputs: list[Tensor | None] = []
    for position, shape in enumerate(shapes):
        count = len([tensor for tensor in inputs if tensor is not None])
        inputs.append(None if shape is None else tensor_of(count, shape, constant=position in weights))
    out = tensor_of(len([tensor for tensor in inputs if tensor is not None]), output)
    graph = graph_of(op, inputs, [out], options)
    return count_cost(graph.main, graph.main.nodes[0])


LSTM_INPUTS: list[Shape | None] = [
    (2, 5, 3),  # batch, time, features
    *[(4, 3)] * 4,
    *[(4, 4)] * 4,
    *[None] * 3,
    *[(4,)] * 4,
    None,
    None,
    (2, 4),
    (2, 4),
]
CIFG_INPUTS: list[Shape | None] = [
    (2, 3),
    None,
    *[(4, 3)] * 3,
    None,
    *[(4, 2)] * 3,
    None,
    (4,),
    (4,),
    None,
    *[(4,)] * 3,
    (2, 4),
    (2,),
    (2, 2),
    (2, 4),
]


@pytest.mark.parametrize(
    ("op", "inputs", "output", "options", "macs"),
    [
        ("CONV_2D", [(1, 8, 8, 3), (16, 3, 3, 3), (16,)], (1, 4, 4, 16), {"stride_h": 2}, 4 * 4 * 16 * 27),
        ("CONV_2D", [(1, 8, 8, 8), (16, 3, 3, 2), (16,)], (1, 8, 8, 16), {}, 64 * 16 * 18),  # four groups
        ("CONV_2D", [(1, 8, 8, 1), (2, 3, 3, 1)], (1, 4, 4, 2), {"dilation_h_factor": 2}, 16 * 2 * 9),
        ("DEPTHWISE_CONV_2D", [(1, 8, 8, 3), (1, 3, 3, 6), (6,)], (1, 8, 8, 6), {"depth_multiplier": 2}, 64 * 6 * 9),
        ("TRANSPOSE_CONV", [(4,), (5, 2, 2, 3), (1, 4, 4, 3)], (1, 8, 8, 5), {}, 16 * 3 * 4 * 5),
        ("CONV_3D", [(1, 4, 4, 4, 2), (3, 3, 3, 2, 7)], (1, 4, 4, 4, 7), {}, 64 * 7 * 27 * 2),
        ("CONV_3D_TRANSPOSE", [(5,), (2, 2, 2, 7, 3), (1, 4, 4, 4, 3)], (1, 8, 8, 8, 7), {}, 64 * 3 * 8 * 7),
        ("FULLY_CONNECTED", [(6, 20), (10, 20), (10,)], (6, 10), {}, 6 * 10 * 20),
        ("FULLY_CONNECTED", [(2, 3, 20), (10, 20), None], (2, 3, 10), {"keep_num_dims": True}, 6 * 10 * 20),
        ("BATCH_MATMUL", [(7, 2, 3), (7, 3, 4)], (7, 2, 4), {}, 7 * 2 * 3 * 4),
        ("BATCH_MATMUL", [(7, 3, 2), (7, 4, 3)], (7, 2, 4), {"adj_x": True, "adj_y": True}, 7 * 2 * 3 * 4),
        ("UNIDIRECTIONAL_SEQUENCE_LSTM", LSTM_INPUTS, (2, 5, 4), {}, 10 * (4 * 12 + 4 * 16)),
        ("LSTM", CIFG_INPUTS, (2, 2), {"kernel_type": "FULL"}, 2 * (3 * 12 + 3 * 8 + 2 * 4 + 8)),
        ("LSTM", [(2, 3), (2, 4), (16, 7), (16,), (2, 4)], (2, 4), {"kernel_type": "BASIC"}, 2 * 16 * 7),
        ("UNIDIRECTIONAL_SEQUENCE_RNN", [(2, 5, 3), (4, 3), (4, 4), (4,), (2, 4)], (2, 5, 4), {}, 10 * (12 + 16)),
        ("RNN", [(2, 3), (4, 3), (4, 4), (4,), (2, 4)], (2, 4), {}, 2 * (12 + 16)),
        ("SVDF", [(2, 10), (8, 10), (8, 6), (4,), (2, 48)], (2, 4), {"rank": 2}, 2 * 8 * (10 + 6)),
    ],
)
def test_multiply_accumulates(
    op: str, inputs: list[Shape | None], output: Shape, options: dict[str, Any], macs: int
) -> None:
    cost = cost_of(op, inputs, output, **options)
    assert (cost.macs, cost.flops) == (macs, 2 * macs)


@pytest.mark.parametrize(
    ("op", "inputs", "output", "options", "flops"),
    [
        ("AVERAGE_POOL_2D", [(1, 8, 8, 3)], (1, 4, 4, 3), {"filter_height": 2, "filter_width": 3}, 48 * 6),
        ("MAX_POOL_2D", [(1, 8, 8, 3)], (1, 4, 4, 3), {"filter_height": 2, "filter_width": 2}, 48 * 4),
        ("ADD", [(2, 1), (2, 5)], (2, 5), {}, 10),
        ("SQUARED_DIFFERENCE", [(10,), (10,)], (10,), {}, 20),
        ("RELU", [(10,)], (10,), {}, 10),
        ("RELU6", [(10,)], (10,), {}, 20),
        ("LEAKY_RELU", [(10,)], (10,), {}, 20),
        ("HARD_SWISH", [(10,)], (10,), {}, 50),
        ("LOGISTIC", [(10,)], (10,), {}, 40),
        ("TANH", [(10,)], (10,), {}, 10),
        ("GELU", [(10,)], (10,), {"approximate": False}, 50),
        ("GELU", [(10,)], (10,), {"approximate": True}, 90),
        ("SOFTMAX", [(1, 10)], (1, 10), {}, 50),
        ("MEAN", [(1, 7, 7, 10), (2,)], (1, 10), {}, 490),
        ("REDUCE_MAX", [(4, 5), (1,)], (4,), {}, 20),
        ("ADD_N", [(5,), (5,), (5,)], (5,), {}, 10),
        ("RESIZE_BILINEAR", [(1, 2, 2, 3), (2,)], (1, 4, 4, 3), {}, 48 * 7),
        ("L2_NORMALIZATION", [(1, 10)], (1, 10), {}, 30),
        ("TRANSPOSE", [(4, 5), (2,)], (5, 4), {}, 0),
    ],
)
def test_arithmetic_without_macs(
    op: str, inputs: list[Shape | None], output: Shape, options: dict[str, Any], flops: int
) -> None:
    cost = cost_of(op, inputs, output, **options)
    assert (cost.macs, cost.flops) == (0, flops)


@pytest.mark.parametrize(
    ("op", "inputs", "output", "read", "written"),
    [
        ("ADD", [(10,), (10,)], (10,), 80, 40),
        ("RESHAPE", [(4, 5), (1,)], (20,), 0, 0),
        ("SQUEEZE", [(1, 5)], (5,), 0, 0),
        ("EXPAND_DIMS", [(5,), ()], (1, 5), 0, 0),
        ("SHAPE", [(100, 100)], (2,), 0, 8),
        ("CONCATENATION", [(2,), (3,)], (5,), 20, 20),
        ("PAD", [(4,), (1, 2)], (6,), 24, 24),
        ("GATHER", [(1000, 8), (3,)], (3, 8), 96 + 12, 96),
        ("EMBEDDING_LOOKUP", [(3,), (1000, 8)], (3, 8), 96 + 12, 96),
        ("STRIDED_SLICE", [(1000, 8), (2,), (2,), (2,)], (2, 8), 64 + 24, 64),
        ("BROADCAST_TO", [(1, 8), (2,)], (4, 8), 40, 128),
    ],
)
def test_bytes_moved(op: str, inputs: list[Shape | None], output: Shape, read: int, written: int) -> None:
    cost = cost_of(op, inputs, output)
    assert (cost.bytes_read, cost.bytes_written) == (read, written)
    assert cost.macs == 0


def test_an_input_named_twice_is_read_once() -> None:
    square = tensor_of(0, (10,))
    graph = graph_of("MUL", [square, square], [tensor_of(1, (10,))], {})
    assert count_cost(graph.main, graph.main.nodes[0]).bytes_read == 40


def test_four_bit_tensors_are_rounded_up_to_whole_bytes() -> None:
    graph = graph_of("CAST", [tensor_of(0, (5,), "int4")], [tensor_of(1, (5,), "int8")], {})
    cost = count_cost(graph.main, graph.main.nodes[0])
    assert (cost.bytes_read, cost.bytes_written) == (3, 5)


def test_state_of_a_cell_is_read_and_written() -> None:
    state = tensor_of(4, (2, 4), is_variable=True)
    inputs: list[Tensor | None] = [tensor_of(0, (2, 3)), tensor_of(1, (4, 3)), tensor_of(2, (4, 4)), tensor_of(3, (4,))]
    graph = graph_of("RNN", [*inputs, state], [tensor_of(5, (2, 4))], {})
    cost = count_cost(graph.main, graph.main.nodes[0])
    assert cost.bytes_read == 4 * (6 + 12 + 16 + 4 + 8)
    assert cost.bytes_written == 4 * (8 + 8)


@pytest.mark.parametrize("op", ["CUSTOM", "WHILE", "UNKNOWN_999", "TOPK_V2"])
def test_unknown_kinds_are_unknown_and_not_free(op: str) -> None:
    cost = cost_of(op, [(10,)], (10,))
    assert (cost.macs, cost.flops, cost.bytes_read, cost.bytes_written) == (None, None, None, None)


def dynamic_graph() -> Graph:
    image = tensor_of(0, (1, 20), shape_signature=(-1, 20))
    result = tensor_of(2, (1, 10), shape_signature=(-1, 10))
    return graph_of("FULLY_CONNECTED", [image, tensor_of(1, (10, 20), constant=True)], [result], {})


def test_open_shapes_are_unknown_until_a_run_settles_them() -> None:
    graph = dynamic_graph()
    node = graph.main.nodes[0]
    open_cost = count_cost(graph.main, node)
    assert (open_cost.macs, open_cost.bytes_read) == (None, None)
    settled = count_cost(graph.main, node, {0: (8, 20), 2: (8, 10)})
    assert settled == Cost(1600, 3200, 4 * (160 + 200), 4 * 80)
    still_open = count_cost(graph.main, node, {0: (-1, 20), 2: (-1, 10)})
    assert still_open.macs is None


def test_stored_shapes_give_the_cost_of_one_item() -> None:
    graph = dynamic_graph()
    assert total_macs(graph) == 0
    assert total_macs(graph, stored_shapes(graph.main)) == 200


@pytest.mark.parametrize(
    ("op", "inputs"),
    [("CONV_2D", [(1, 8, 8, 3)]), ("CONV_2D", [(8,), (16,)]), ("FULLY_CONNECTED", [(1,), ()]), ("AVERAGE_POOL_2D", [])],
)
def test_nodes_that_lack_what_their_kind_needs_are_unknown(op: str, inputs: list[Shape | None]) -> None:
    assert cost_of(op, inputs, (1, 8)).macs is None


@pytest.mark.parametrize(
    ("name", "macs"),
    [
        ("01_mobilenet_v1_025_imagenet/model_float", 41_030_528),  # published: 41 M
        ("01_mobilenet_v1_025_imagenet/model_qat_uint8", 41_030_528),
        ("02_kws_dscnn/model_int8", 2_656_768),  # published: 2.7 M
        ("03_resnet8_cifar10/model_float", 12_501_632),  # published: 12.5 M
        ("05_vww_person/model_int8", 7_489_664),  # published: 7.5 M
        ("08_mobilenet_v2_imagenet_uint8/model_tf2_ptq", 300_775_552),  # published: 300 M
    ],
)
def test_totals_of_known_models(cases: Path, name: str, macs: int) -> None:
    graph = read_graph(cases / f"{name}.tflite")
    assert total_macs(graph, stored_shapes(graph.main)) == macs


def test_a_custom_operator_leaves_the_total_incomplete(cases: Path) -> None:
    graph = read_graph(cases / "07_ssd_mobilenet_v1_coco" / "model_uint8.tflite")
    unknown = [node.label for node in graph.main.nodes if count_cost(graph.main, node).macs is None]
    assert unknown == ["TFLite_Detection_PostProcess"]
    assert total_macs(graph) > 700_000_000
