"""What a model's author says about its inputs, and that damaged metadata ends in a clear error."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import flatbuffers
import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hasten.core.errors import ModelError
from hasten.model.metadata import (
    AssociatedFile,
    ModelMetadata,
    TensorMetadata,
    metadata_bytes,
    read_metadata,
    read_packed_file,
)
from hasten.model.reader import read_graph

Write = Callable[[Any], Path]


def add_table(builder: flatbuffers.Builder, offsets: dict[int, int], numbers: dict[int, int] | None = None) -> int:
    """A table of offsets (strings, vectors, tables) and one-byte numbers, by slot."""
    builder.StartObject(8)
    for slot, offset in offsets.items():
        builder.PrependUOffsetTRelativeSlot(slot, offset, 0)
    for slot, number in (numbers or {}).items():
        builder.PrependUint8Slot(slot, number, 0)
    return int(builder.EndObject())


def add_audio(builder: flatbuffers.Builder, rate: int, channels: int) -> int:
    builder.StartObject(2)
    builder.PrependUint32Slot(0, rate, 0)
    builder.PrependUint32Slot(1, channels, 0)
    return int(builder.EndObject())


def add_list(builder: flatbuffers.Builder, tables: list[int]) -> int:
    builder.StartVector(4, len(tables), 4)
    for table in reversed(tables):
        builder.PrependUOffsetTRelative(table)
    return int(builder.EndVector())


def constructed(identifier: bytes = b"M001") -> bytes:
    """An RGB image and 16 kHz audio in, class scores with labels out."""
    builder = flatbuffers.Builder(512)
    mean = builder.CreateNumpyVector(np.array([127.5, 116, 104], np.float32))
    std = builder.CreateNumpyVector(np.array([128], np.float32))
    normalize = add_table(builder, {1: add_table(builder, {0: mean, 1: std})}, {0: 1})
    threshold = add_table(builder, {1: add_table(builder, {})}, {0: 3})
    picture = add_table(builder, {1: add_table(builder, {}, {0: 1})}, {0: 2})
    sound = add_table(builder, {1: add_audio(builder, 16000, 1)}, {0: 4})
    units = add_list(builder, [threshold, normalize])
    name, description = builder.CreateString("image"), builder.CreateString("A picture.")
    image = add_table(builder, {0: name, 1: description, 3: picture, 4: units})
    audio = add_table(builder, {0: builder.CreateString("audio"), 3: sound})
    labels = add_list(builder, [add_table(builder, {0: builder.CreateString("labels.txt")}, {2: 2})])
    scores = add_table(builder, {0: builder.CreateString("scores"), 6: labels})
    inputs, outputs = add_list(builder, [image, audio]), add_list(builder, [scores])
    subgraphs = add_list(builder, [add_table(builder, {2: inputs, 3: outputs})])
    title, version = builder.CreateString("Sample"), builder.CreateString("v7")
    builder.Finish(add_table(builder, {0: title, 2: version, 3: subgraphs}), file_identifier=identifier)
    return bytes(builder.Output())


def attach(model: Any, content: bytes) -> Any:
    buffer, entry = schema.BufferT(), schema.MetadataT()
    buffer.data = np.frombuffer(content, np.uint8)
    model.buffers.append(buffer)
    entry.name, entry.buffer = "TFLITE_METADATA", len(model.buffers) - 1
    model.metadata = [entry]
    return model


def append_archive(path: Path, files: dict[str, bytes]) -> None:
    archive_bytes = io.BytesIO()
    with zipfile.ZipFile(archive_bytes, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    path.write_bytes(path.read_bytes() + archive_bytes.getvalue())


def test_a_model_without_metadata_has_none(write_model: Write, sample: Any) -> None:
    assert read_metadata(write_model(sample)) is None


def test_inputs_say_how_they_are_to_be_made(write_model: Write, sample: Any) -> None:
    metadata = read_metadata(write_model(attach(sample, constructed())))
    assert metadata is not None
    image, audio = metadata.inputs
    assert image.color_space == "rgb"
    assert (image.mean, image.std) == ((127.5, 116.0, 104.0), (128.0,))
    assert (audio.sample_rate_hz, image.sample_rate_hz) == (16000, None)
    assert (audio.mean, audio.std, audio.color_space) == ((), (), None)
    assert metadata.outputs[0].files == (AssociatedFile("labels.txt", "axis labels"),)


def test_labels_packed_behind_the_model_are_read(write_model: Write, sample: Any) -> None:
    path = write_model(attach(sample, constructed()))
    append_archive(path, {"labels.txt": b"cat\ndog\n"})
    graph = read_graph(path)
    assert read_packed_file(graph, "labels.txt") == b"cat\ndog\n"
    with pytest.raises(ModelError, match="holds no file") as caught:
        read_packed_file(graph, "absent.txt")
    assert "labels.txt" in caught.value.hint


def test_a_model_without_archive_holds_no_files(write_model: Write, sample: Any) -> None:
    graph = read_graph(write_model(attach(sample, constructed())))
    with pytest.raises(ModelError, match="cannot be unpacked"):
        read_packed_file(graph, "labels.txt")


def test_a_packed_file_that_is_too_large_is_refused(
    write_model: Write, sample: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_model(sample)
    append_archive(path, {"labels.txt": bytes(3 * 2**20)})
    monkeypatch.setattr("hasten.model.metadata.MAX_FILE_BYTES", 2**20)
    with pytest.raises(ModelError, match="larger than 1 MiB"):
        read_packed_file(read_graph(path), "labels.txt")


@pytest.mark.parametrize("content", [constructed(b"M999"), b"M001", b"text in the place of metadata"])
def test_metadata_of_another_format_is_refused(write_model: Write, sample: Any, content: bytes) -> None:
    with pytest.raises(ModelError, match="unknown format"):
        read_metadata(write_model(attach(sample, content)))


NUMBERS = st.lists(st.floats(-1000, 1000, width=32), min_size=1, max_size=4).map(tuple)
SAID = st.builds(
    TensorMetadata,
    color_space=st.sampled_from([None, "rgb", "grayscale"]),
    mean=NUMBERS,
    std=NUMBERS,
    files=st.lists(
        st.builds(
            AssociatedFile,
            st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20),
            st.sampled_from(["axis labels", "value labels", "vocabulary"]),
        ),
        max_size=2,
    ).map(tuple),
)


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(image=SAID, scores=SAID)
def test_what_is_written_is_read_again(
    write_model: Write, sample: Any, image: TensorMetadata, scores: TensorMetadata
) -> None:
    given_metadata = ModelMetadata((replace(image, tensor="image"),), (replace(scores, tensor="result"),))
    path = write_model(attach(sample, metadata_bytes(given_metadata, name="Sample")))
    assert read_metadata(path) == given_metadata


def test_sounds_keep_their_rate(write_model: Write, sample: Any) -> None:
    said = ModelMetadata((TensorMetadata(sample_rate_hz=44_100, tensor="image"),), (TensorMetadata(tensor="result"),))
    assert read_metadata(write_model(attach(sample, metadata_bytes(said)))) == said


@settings(max_examples=300, deadline=2000, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    changes=st.lists(st.tuples(st.integers(0, 2**16), st.integers(0, 255)), max_size=8),
    keep=st.integers(0, 2**16),
    cut=st.booleans(),
)
def test_mutated_metadata_gives_a_model_error_or_metadata(
    write_model: Write, sample: Any, changes: list[tuple[int, int]], keep: int, cut: bool
) -> None:
    content = bytearray(constructed())
    for position, value in changes:
        content[position % len(content)] = value
    if cut:
        content = content[: max(1, keep % len(content))]
    try:
        metadata = read_metadata(write_model(attach(sample, bytes(content))))
    except ModelError as error:
        refusal = error
    else:
        assert metadata is not None
        return
    assert refusal.hint


@settings(max_examples=200, deadline=2000, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(changes=st.lists(st.tuples(st.integers(0, 200), st.integers(0, 255)), min_size=1, max_size=6))
def test_a_mutated_archive_gives_a_model_error_or_a_file(
    write_model: Write, sample: Any, changes: list[tuple[int, int]]
) -> None:
    path = write_model(sample)
    append_archive(path, {"labels.txt": b"cat\ndog\n"})
    data = bytearray(path.read_bytes())
    for from_end, value in changes:
        data[-1 - from_end % len(data)] = value
    path.write_bytes(data)
    try:
        content = read_packed_file(read_graph(path), "labels.txt")
    except ModelError as error:
        refusal = error
    else:
        assert isinstance(content, bytes)
        return
    assert refusal.hint


@pytest.mark.parametrize(
    ("name", "labels", "kind"),
    [
        ("01_mobilenet_v1_025_imagenet/model_qat_uint8", "labels.txt", "axis labels"),
        ("07_ssd_mobilenet_v1_coco/model_uint8", "labelmap.txt", "value labels"),
        ("08_mobilenet_v2_imagenet_uint8/model_tf2_ptq", "imagenet_labels.txt", "axis labels"),
    ],
)
def test_metadata_of_real_models(cases: Path, name: str, labels: str, kind: str) -> None:
    graph = read_graph(cases / f"{name}.tflite")
    metadata = read_metadata(graph)
    assert metadata is not None
    (image,) = metadata.inputs
    assert (image.color_space, image.mean, image.std) == ("rgb", (127.5,), (127.5,))
    assert [(f.name, f.kind) for output in metadata.outputs for f in output.files] == [(labels, kind)]
    assert len(read_packed_file(graph, labels).splitlines()) >= 80
