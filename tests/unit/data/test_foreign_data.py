"""Data of a stranger: nothing in it is run, and nothing is written that it names."""

from __future__ import annotations

import contextlib
import io
import pickle
import shutil
import zipfile
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from hasten.core.errors import DataError, HastenError
from hasten.data.images import pixels_from_file
from hasten.data.preprocess import Preprocess
from hasten.data.sources import open_dataset
from hasten.evaluate.prediction import _inputs as prediction_inputs

if TYPE_CHECKING:
    from pathlib import Path


class Marking:
    """Leaves a mark when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return open, (str(self.mark), "w")


def poisoned_array(mark: Path) -> bytes:
    stream = io.BytesIO()
    np.save(stream, np.array([Marking(mark)], dtype=object), allow_pickle=True)
    return stream.getvalue()


def test_no_array_is_unpickled(tmp_path: Path) -> None:
    mark, path = tmp_path / "mark", tmp_path / "data.npz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x.npy", poisoned_array(mark))
        archive.writestr("y.npy", poisoned_array(mark))
    with pytest.raises(HastenError):
        open_dataset(str(path))
    assert not mark.exists()
    pickle.loads(pickle.dumps(Marking(mark))).close()
    assert mark.exists(), "the test itself is void if unpickling leaves no mark"


def test_no_file_is_written_that_an_archive_names(tmp_path: Path) -> None:
    place = tmp_path / "inside"
    place.mkdir()
    arrays = io.BytesIO()
    np.save(arrays, np.zeros((2, 4), np.float32))
    with zipfile.ZipFile(place / "data.npz", "w") as archive:
        for name in ("x.npy", "../evil.npy", "../../evil.txt", str(tmp_path / "absolute.npy")):
            archive.writestr(name, arrays.getvalue())
    with contextlib.suppress(HastenError):
        open_dataset(str(place / "data.npz"))
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["data.npz"]


def test_an_archive_that_claims_more_than_there_is_room_for_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    np.savez_compressed(tmp_path / "data.npz", x=np.zeros((1000, 1000), np.float32))
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda place: usage._replace(free=1_000_000))
    with pytest.raises(HastenError, match="free for temporary files"):
        open_dataset(str(tmp_path / "data.npz"))


def header_of(text: str) -> bytes:
    """An array without values under such a header."""
    header = text.encode() + b" " * (117 - len(text)) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header


def damaged_archives() -> dict[str, bytes]:
    stream = io.BytesIO()
    np.savez_compressed(stream, x=np.zeros((100, 4), np.float32))
    whole = stream.getvalue()
    begin, end = whole.index(b"x.npy") + len("x.npy"), whole.index(b"PK\x01\x02")
    made = {"deflated": whole[: end - 20] + b"\xff" * 20 + whole[end:], "begun": whole[:begin] + b"\xff" * 40}
    made["begun"] += whole[begin + 40 :]
    headers = ("{'descr': '<f4', 'shape': (4, 3)", "{'descr': '<f4', \\", "{[]: 1}", "{'descr': '<f4', 'shape': (")
    for number, text in enumerate(headers):
        stream = io.BytesIO()
        with zipfile.ZipFile(stream, "w") as archive:
            archive.writestr("x.npy", header_of(text))
        made[f"header {number}"] = stream.getvalue()
    return made


@pytest.mark.parametrize("name", damaged_archives())
def test_damaged_arrays_are_an_error_that_names_the_file(tmp_path: Path, name: str) -> None:
    path = tmp_path / "data.npz"
    path.write_bytes(damaged_archives()[name])
    for read in (lambda: open_dataset(str(path)), lambda: prediction_inputs(path)):
        with pytest.raises(DataError, match=r"data\.npz cannot be read as arrays"):
            read()


def test_damaged_exif_data_are_an_error_that_names_the_file(tmp_path: Path) -> None:
    pillow = pytest.importorskip("PIL.Image")
    path = tmp_path / "a.png"
    pillow.new("RGB", (4, 4)).save(path, exif=b"MM\x00\x2a")
    with pytest.raises(DataError, match=r"a\.png cannot be read as an image"):
        pixels_from_file(path, Preprocess())
