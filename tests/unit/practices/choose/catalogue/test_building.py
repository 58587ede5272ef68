"""Built models: the reader and LiteRT accept them, they cost what the catalogue says, and real files cost the same."""

from __future__ import annotations

import tempfile
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter
from hypothesis import given, settings
from hypothesis import strategies as st

from hasten.core.errors import DataError, UsageError
from hasten.model.cost import total_macs
from hasten.model.reader import read_graph
from hasten.practices.choose import catalogue
from hasten.practices.choose.catalogue import Entry, Settings
from hasten.practices.choose.catalogue.families.blocks import Block, Stage, blocks_of, rounded
from hasten.practices.choose.facts import PRECISIONS

if TYPE_CHECKING:
    from hasten.model.graph import Graph

ENTRIES = {entry.name: entry for entry in catalogue.entries()}
# Of each kind; those that take long are for the slow tests.
QUICK = ("mobilenet_v1_0.25_128", "mobilenet_v2_0.35_96", "mobilenet_v3_small_0.75_224", "squeezenet_1.1_224")
SAMPLES = (
    *QUICK,
    "mobilenet_v3_small_minimalistic_1.0_224",
    "mobilenet_v3_large_1.0_224",
    "efficientnet_lite0_224",
    "efficientnet_b0_224",
    "mnasnet_b1_0.5_224",
    "mnasnet_a1_1.0_224",
    "nasnet_mobile_224",
    "squeezenet_1.0_224",
    "resnet_50_224",
    "ssd_mobilenet_v1_0.75_300",
    "ssdlite_mobilenet_v2_300",
    "ssdlite_mobilenet_v3_large_320",
    "deeplab_v3_mobilenet_v2_0.5_257",
    "lraspp_mobilenet_v3_large_520",
    "yamnet",
)
OUTPUTS = {
    "object-detection": {"boxes", "scores"},
    "image-segmentation": {"classes"},
    "audio-classification": {"scores"},
}
# Real files, and constants in them that are no weights of the architecture.
REAL = {
    "01_mobilenet_v1_025_imagenet/model_float.tflite": ("mobilenet_v1_0.25_224", 0),
    "04_deeplabv3_coco/model_float.tflite": ("deeplab_v3_mobilenet_v2_0.5_257", 0),
    "07_ssd_mobilenet_v1_coco/model_uint8.tflite": ("ssd_mobilenet_v1_0.75_300", 4 * 1917),
    "08_mobilenet_v2_imagenet_uint8/model_tf2_ptq.tflite": ("mobilenet_v2_1.0_224", 0),
}


def parameters(graph: Graph) -> int:
    return sum(prod(tensor.shape) for tensor in graph.main.tensors if tensor.is_weight)


def answers(path: Path) -> list[np.ndarray[Any, Any]]:
    """What LiteRT computes from noise."""
    interpreter = Interpreter(str(path))
    interpreter.allocate_tensors()
    random = np.random.default_rng(1)
    for detail in interpreter.get_input_details():
        real = random.standard_normal(detail["shape"])
        scale, zero_point = detail["quantization"]
        values = np.clip(np.rint(real / scale + zero_point), -128, 127) if scale else real
        interpreter.set_tensor(detail["index"], values.astype(detail["dtype"]))
    interpreter.invoke()
    return [interpreter.get_tensor(detail["index"]) for detail in interpreter.get_output_details()]


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize(
    "name", [*QUICK, *(pytest.param(name, marks=pytest.mark.slow) for name in SAMPLES if name not in QUICK)]
)
def test_a_built_model_runs_and_costs_what_the_catalogue_says(name: str, precision: str, tmp_path: Path) -> None:
    entry = ENTRIES[name]
    path = catalogue.build(entry, precision, tmp_path / "new")
    assert path.name == f"{name}_{precision}.tflite"
    graph = read_graph(path)
    assert total_macs(graph) == entry.macs
    assert parameters(graph) == entry.parameters
    assert [tensor.shape for tensor in graph.inputs] == [entry.shape]
    (signature,) = graph.signatures
    assert set(signature.outputs) == OUTPUTS.get(entry.task, {"probabilities"})
    assert graph.number_format().computes_in_integers == (precision == "int8")
    # SqueezeNet's logits are means over the image: nearly equal, and equal probabilities in steps of 1/256.
    alike = precision == "int8" and entry.family == "squeezenet"
    for output in answers(path):
        assert np.isfinite(output.astype(np.float64)).all()
        assert np.std(output) > 0 or alike


def test_samples_are_of_every_family() -> None:
    assert {ENTRIES[name].family for name in SAMPLES} == {entry.family for entry in ENTRIES.values()}


@pytest.mark.slow
@pytest.mark.parametrize("name", ENTRIES)
def test_every_model_costs_what_the_catalogue_says(name: str, tmp_path: Path) -> None:
    entry = ENTRIES[name]
    graph = read_graph(catalogue.build(entry, "float32", tmp_path))
    assert (total_macs(graph), parameters(graph)) == (entry.macs, entry.parameters)


@pytest.mark.parametrize("file", REAL)
def test_a_real_file_costs_the_same(file: str, cases: Path) -> None:
    name, others = REAL[file]
    graph = read_graph(cases / file)
    assert total_macs(graph) == ENTRIES[name].macs
    assert parameters(graph) - others == ENTRIES[name].parameters


@pytest.mark.slow
@pytest.mark.parametrize("precision", PRECISIONS)
def test_int8_needs_no_change_of_scale_within_a_model(precision: str, tmp_path: Path) -> None:
    """Converters choose ranges so that values can be joined as they are."""
    for name in ("squeezenet_1.1_224", "nasnet_mobile_224", "ssdlite_mobilenet_v2_300"):
        graph = read_graph(catalogue.build(ENTRIES[name], precision, tmp_path))
        assert "QUANTIZE" not in {node.op for node in graph.main.nodes}


def test_activations_are_fused_where_they_can_be(tmp_path: Path) -> None:
    graph = read_graph(catalogue.build(ENTRIES["mobilenet_v2_0.35_96"], "float32", tmp_path))
    assert {node.op for node in graph.main.nodes} == {
        "CONV_2D",
        "DEPTHWISE_CONV_2D",
        "ADD",
        "MEAN",
        "FULLY_CONNECTED",
        "SOFTMAX",
    }
    fused = [node.options["fused_activation_function"] for node in graph.main.nodes if node.op == "DEPTHWISE_CONV_2D"]
    assert set(fused) == {"RELU6"}


def test_building_twice_gives_the_same_file(tmp_path: Path) -> None:
    entry = ENTRIES["mobilenet_v1_0.25_128"]
    first, second = (catalogue.build(entry, "int8", tmp_path / name).read_bytes() for name in ("a", "b"))
    assert first == second


def test_what_cannot_be_built_is_told(tmp_path: Path) -> None:
    entry = ENTRIES["mobilenet_v1_0.25_128"]
    with pytest.raises(UsageError):
        catalogue.build(entry, "int4", tmp_path)
    with pytest.raises(UsageError):
        catalogue.build(Entry("mine", "toys", 8), "int8", tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(DataError):
        catalogue.build(entry, "int8", tmp_path / "file")


@pytest.mark.parametrize("family", ["mobilenet_v3", "mnasnet", "squeezenet"])
def test_an_unknown_variant_is_told(family: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        catalogue.build(Entry("mine", "toys", 64, family, Settings("huge")), "float32", tmp_path)


@settings(max_examples=6, deadline=None)
@given(
    family=st.sampled_from([("mobilenet_v1", ""), ("mobilenet_v2", ""), ("mobilenet_v3", "small"), ("mnasnet", "a1")]),
    width=st.floats(0.1, 1.5),
    size=st.integers(32, 80),
    classes=st.integers(1, 50),
    precision=st.sampled_from(PRECISIONS),
)
def test_any_width_and_size_is_read(
    family: tuple[str, str], width: float, size: int, classes: int, precision: str
) -> None:
    name, variant = family
    entry = Entry("mine", "toys", size, name, Settings(variant, width, classes=classes))
    with tempfile.TemporaryDirectory() as folder:
        graph = read_graph(catalogue.build(entry, precision, Path(folder)))
        assert [tensor.shape for tensor in graph.outputs] == [(1, classes)]
        assert all(channels % 8 == 0 for channels in _channels(graph)) or name == "mobilenet_v1"
        assert total_macs(graph) > 0


def _channels(graph: Graph) -> list[int]:
    """Output channels of the depthwise convolutions."""
    nodes = [node for node in graph.main.nodes if node.op == "DEPTHWISE_CONV_2D"]
    return [graph.main.tensors[node.outputs[0]].shape[-1] for node in nodes]


@pytest.mark.parametrize(
    ("channels", "expected"), [(32 * 0.35, 16), (24 * 0.5, 16), (18.0, 24), (1280 * 1.4, 1792), (3.0, 8)]
)
def test_channels_are_rounded_as_the_mobilenets_do(channels: float, expected: int) -> None:
    assert rounded(channels) == expected


def test_strides_beyond_the_output_stride_become_dilation() -> None:
    stages = [Stage(2, 3, 2, 6, 24), Stage(2, 3, 2, 6, 32), Stage(2, 3, 2, 6, 64), Stage(1, 3, 1, 6, 96)]

    def places(output_stride: int) -> list[tuple[int, int]]:
        blocks: list[Block] = list(blocks_of(stages, 16, "relu6", output_stride=output_stride))
        return [(block.stride, block.dilation) for block in blocks]

    assert places(32) == [(2, 1), (1, 1), (2, 1), (1, 1), (2, 1), (1, 1), (1, 1)]
    assert places(8) == [(2, 1), (1, 1), (2, 1), (1, 1), (1, 1), (1, 2), (1, 2)]
    assert places(4) == [(2, 1), (1, 1), (1, 1), (1, 2), (1, 2), (1, 4), (1, 4)]
