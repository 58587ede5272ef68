"""Files that travel: the same content on the other side, sent once, and nothing outside of its place."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hasten.core.errors import DataError, UsageError
from hasten.data.sources import open_dataset
from hasten.fleet import parcel as parcels
from hasten.fleet.parcel import FileStore, PackedFile, Parcel, Piece, messages, pack_data, pack_file, parcel_from

if TYPE_CHECKING:
    from hasten.data.dataset import Dataset
    from hasten.fleet.parcel import Message, Sources


def delivered(parcel: Parcel, sources: Sources, folder: Path) -> Path:
    """The parcel on the other side."""
    store = FileStore(folder)
    wanted = store.lacking([file.sha256 for file in parcel.files])
    for message in messages(sources, dict.fromkeys(wanted)):
        store.put(message)
    assert store.lacking(wanted) == []
    return store.place(parcel)


@given(content=st.binary(max_size=200), piece=st.integers(1, 50), message=st.integers(1, 80))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_content_arrives_whole_in_pieces_of_any_size(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch, content: bytes, piece: int, message: int
) -> None:
    monkeypatch.setattr(parcels, "_PIECE_BYTES", piece)
    monkeypatch.setattr(parcels, "_MESSAGE_BYTES", message)
    folder = tmp_path_factory.mktemp("parcel")
    (folder / "a file").write_bytes(content)
    sources: Sources = {}
    parcel = pack_file(folder / "a file", sources)
    assert delivered(parcel, sources, folder / "store").read_bytes() == content
    in_memory: Sources = {parcel.files[0].sha256: content}
    assert delivered(parcel, in_memory, folder / "other").read_bytes() == content


@given(st.lists(st.tuples(st.text(), st.text(), st.integers(0, 2**60)), max_size=5), st.text())
def test_a_manifest_lists_what_the_parcel_has(files: list[tuple[str, str, int]], entry: str) -> None:
    parcel = Parcel(entry, tuple(PackedFile(*file) for file in files))
    assert parcel_from(parcel.manifest()) == parcel


def test_what_is_there_is_not_lacking(tmp_path: Path) -> None:
    (tmp_path / "m.tflite").write_bytes(b"abc")
    sources: Sources = {}
    parcel = pack_file(tmp_path / "m.tflite", sources)
    place = delivered(parcel, sources, tmp_path / "store")
    again = FileStore(tmp_path / "store")
    assert again.lacking([parcel.files[0].sha256]) == []
    assert again.place(parcel) == place
    assert again.add(b"abc") == parcel.files[0].sha256


def test_a_damaged_piece_is_refused(tmp_path: Path) -> None:
    (tmp_path / "m").write_bytes(b"abc")
    sources: Sources = {}
    pack_file(tmp_path / "m", sources)
    (message,) = messages(sources, sources)
    wrong = replace(message, pieces=tuple(replace(piece, content=b"abd") for piece in message.pieces))
    store = FileStore(tmp_path / "store")
    with pytest.raises(DataError, match="damaged"):
        store.put(wrong)
    assert store.lacking(sources) == list(sources)
    assert not [path for path in (tmp_path / "store" / "files").iterdir() if path.is_file()]


def test_two_senders_of_one_file_do_not_mix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parcels, "_PIECE_BYTES", 2)
    monkeypatch.setattr(parcels, "_MESSAGE_BYTES", 2)
    (tmp_path / "m").write_bytes(b"abcdef")
    sources: Sources = {}
    parcel = pack_file(tmp_path / "m", sources)
    one, other = (list(messages(sources, sources, sender)) for sender in ("x", "y"))
    store = FileStore(tmp_path / "store")
    for message in (one[0], other[0], one[1], other[1], one[2], other[2]):
        store.put(message)
    assert store.place(parcel).read_bytes() == b"abcdef"


def test_a_parcel_cannot_write_outside(tmp_path: Path) -> None:
    store = FileStore(tmp_path / "store")
    digest = store.add(b"x")
    for name in ("../evil", "/evil", "a/../../evil"):
        with pytest.raises(DataError, match="outside"):
            store.place(Parcel("evil", (PackedFile(name, digest, 1),)))
    assert not (tmp_path / "store" / "evil").exists()


def test_any_name_is_just_a_name(tmp_path: Path) -> None:
    name = "; rm -rf ~ $(touch evil) \n'.tflite"
    (tmp_path / name).write_bytes(b"abc")
    sources: Sources = {}
    parcel = pack_file(tmp_path / name, sources)
    found = delivered(parcel, sources, tmp_path / "store")
    assert found.name == name
    assert found.read_bytes() == b"abc"


@pytest.fixture
def images(tmp_path: Path) -> Path:
    """A folder with a subfolder for each class, and a list of the classes above it."""
    root = tmp_path / "data" / "animals"
    for number, name in enumerate(("cat", "dog")):
        (root / name).mkdir(parents=True)
        for place in range(3):
            (root / name / f"{place}.png").write_bytes(bytes([number, place]))
    (tmp_path / "data" / "classes.txt").write_text("dog\ncat\n")
    (root / "notes.txt").write_text("no sample")
    return root


def outline(dataset: Dataset, root: Path) -> list[tuple[object, ...]]:
    """What a search sees of the samples: their order, labels and contents."""
    assert not callable(dataset.samples)
    found: list[tuple[object, ...]] = []
    for sample in dataset.samples:
        assert isinstance(sample.inputs, tuple)
        parts = [part.read_bytes() if isinstance(part, Path) else part.tobytes() for part in sample.inputs]
        label = sample.label.read_bytes() if isinstance(sample.label, Path) else sample.label
        found.append((sample.name.replace(str(root), ""), parts, label))
    return found


def test_a_folder_of_classes_is_the_same_on_the_other_side(images: Path, tmp_path: Path) -> None:
    sources: Sources = {}
    parcel = pack_data(str(images), sources)
    place = delivered(parcel, sources, tmp_path / "store")
    here, there = open_dataset(str(images)), open_dataset(str(place))
    assert outline(there, place) == outline(here, images)
    assert there.classes == here.classes == ("dog", "cat")
    assert not list(place.rglob("notes.txt"))


def test_a_table_brings_the_files_that_it_lists(images: Path, tmp_path: Path) -> None:
    table = images / "labels.csv"
    table.write_text("file,label\ncat/0.png,1\ndog/2.png,0\nmissing.png,0\n")
    sources: Sources = {}
    parcel = pack_data(str(table), sources)
    place = delivered(parcel, sources, tmp_path / "store")
    assert sorted(file.name for file in parcel.files) == ["cat/0.png", "classes.txt", "dog/2.png", "labels.csv"]
    there = open_dataset(str(place))
    assert not callable(there.samples)
    assert [sample.name for sample in there.samples] == ["cat/0.png", "dog/2.png", "missing.png"]
    table.write_text(f"file,label\ncat/0.png,1\n{images.parent / 'classes.txt'},0\n")
    with pytest.raises(DataError, match="outside"):
        pack_data(str(table), sources)


def test_arrays_travel_with_their_classes(tmp_path: Path) -> None:
    np.savez(tmp_path / "data.npz", x=np.arange(12, dtype=np.float32).reshape(4, 3), y=np.arange(4))
    (tmp_path / "classes.txt").write_text("a\nb\nc\nd\n")
    sources: Sources = {}
    place = delivered(pack_data(str(tmp_path / "data.npz"), sources), sources, tmp_path / "store")
    assert open_dataset(str(place)).classes == ("a", "b", "c", "d")
    assert outline(open_dataset(str(place)), place.parent) == outline(
        open_dataset(str(tmp_path / "data.npz")), tmp_path
    )


def test_code_does_not_travel() -> None:
    with pytest.raises(UsageError, match="function"):
        pack_data("module:function", {})


def test_a_store_forgets_what_nobody_used_for_a_month(tmp_path: Path) -> None:
    store = FileStore(tmp_path)
    old, new = store.add(b"old"), store.add(b"new")
    run = store.run_folder("run", "device")
    run.mkdir(parents=True)
    os.utime(store.path_of(old), (0, 0))
    os.utime(run.parent, (0, 0))
    store.tidy()
    assert store.lacking([old, new]) == [old]
    assert not run.exists()


def test_one_content_under_two_names_is_sent_once(tmp_path: Path) -> None:
    for name in ("a.png", "b.png"):
        (tmp_path / "c").mkdir(exist_ok=True)
        (tmp_path / "c" / name).write_bytes(b"same")
    sources: Sources = {}
    parcel = pack_data(str(tmp_path / "c"), sources)
    assert len(parcel.files) == 2
    assert len(sources) == 1
    pieces: list[Piece] = [piece for one in messages(sources, sources) for piece in _pieces(one)]
    assert len(pieces) == 1


def _pieces(message: Message) -> tuple[Piece, ...]:
    return message.pieces
