"""Files that travel: known by their SHA-256, sent to a worker once, and put together there under their own names."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import time
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final

from hasten.core.errors import DataError, UsageError
from hasten.data.classes import CLASSES_FILE
from hasten.data.functions import is_function_name
from hasten.data.sources import open_dataset
from hasten.engine.model_file import file_hash

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    from hasten.data.dataset import Dataset

    Sources = dict[str, Path | bytes]
    """Where the content of each file is, by its SHA-256."""

_PIECE_BYTES: Final = 8 * 2**20
_MESSAGE_BYTES: Final = 16 * 2**20
_DAY_SECONDS: Final = 86_400.0
_KEPT_DAYS: Final = 30


@dataclass(frozen=True, slots=True)
class PackedFile:
    """A file by its path inside a parcel, and by its content."""

    name: str
    sha256: str
    size: int


@dataclass(frozen=True, slots=True)
class Parcel:
    """Files that belong together: a model, or data with the files that it lists."""

    entry: str
    """What is opened: the path of a file or a folder inside the parcel."""
    files: tuple[PackedFile, ...]

    @property
    def digest(self) -> str:
        """What tells this parcel from others: all names and contents."""
        lines = [self.entry, *(f"{file.sha256} {file.name}" for file in self.files)]
        return hashlib.sha256("\n".join(lines).encode()).hexdigest()

    def manifest(self) -> bytes:
        """The parcel as a file of its own: a list of many files travels once, and jobs name it by its SHA-256."""
        files = [[file.name, file.sha256, file.size] for file in self.files]
        return json.dumps({"entry": self.entry, "files": files}).encode()


def parcel_from(manifest: bytes) -> Parcel:
    """The parcel that a manifest lists."""
    data = json.loads(manifest)
    return Parcel(data["entry"], tuple(PackedFile(*entry) for entry in data["files"]))


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a file's content, or all of it."""

    sha256: str
    offset: int
    size: int
    """Of the whole file."""
    content: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Message:
    """Pieces that are sent together: many small files make one message, a large one makes many."""

    pieces: tuple[Piece, ...]
    sender: str = ""
    """Keeps the unfinished files of two clients apart."""


def pack_file(path: Path, sources: Sources) -> Parcel:
    """One file, with its content noted in the sources."""
    return Parcel(path.name, (_packed(path, path.name, sources),))


def pack_data(text: str, sources: Sources, tell: Callable[[str], None] = lambda text: None) -> Parcel:
    """The data that a user names, with every file that it lists. Code does not travel: it would run unasked."""
    path = Path(text)
    if not path.exists() and is_function_name(text):
        raise UsageError(
            f"The data {text} is made by a function, which a cluster does not run.",
            "Save the samples to a .npz file and give that.",
        )
    dataset = open_dataset(text)
    if path.suffix.lower() == ".npz":
        return _with_classes(path.name, [_packed(path, path.name, sources)], path.parent / path.stem, sources)
    root = path if path.is_dir() else path.parent
    top = f"{path.name}/" if path.is_dir() else ""
    files = [] if path.is_dir() else [_packed(path, path.name, sources)]
    listed = sorted({one for one in _files_of(dataset) if one.is_file()})
    for place, one in enumerate(listed):
        if place % 500 == 0:
            tell(f"hashing {place} of {len(listed)} files")
        files.append(_packed(one, top + _inside(one, root, text), sources))
    return _with_classes(path.name, files, root, sources, top)


def _files_of(dataset: Dataset) -> Iterator[Path]:
    """The files that samples refer to: inputs, and masks."""
    assert not callable(dataset.samples), "a function's data does not travel"
    for sample in dataset.samples:
        inputs = sample.inputs if isinstance(sample.inputs, tuple) else tuple(sample.inputs.values())
        yield from (part for part in (*inputs, sample.label) if isinstance(part, Path))


def _inside(path: Path, root: Path, text: str) -> str:
    try:
        found = PurePosixPath(path.relative_to(root).as_posix())
    except ValueError:
        found = PurePosixPath("..")
    if ".." in found.parts:
        raise DataError(f"{text} lists {path}, which is outside its folder.", "Move the files next to the table.")
    return str(found)


def _with_classes(entry: str, files: list[PackedFile], beside: Path, sources: Sources, top: str = "") -> Parcel:
    """The parcel, with the list of classes that is found in the folder or above it."""
    name = f"{top}{CLASSES_FILE}"
    for place in (beside / CLASSES_FILE, beside.parent / CLASSES_FILE):
        if place.is_file() and all(file.name != name for file in files):
            files.append(_packed(place, name, sources))
            break
    return Parcel(entry, tuple(files))


def _packed(path: Path, name: str, sources: Sources) -> PackedFile:
    try:
        digest = file_hash(path)
        size = path.stat().st_size
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}.", "Check the path and its permissions.") from error
    sources[digest] = path
    return PackedFile(name, digest, size)


def listed(parcel: Parcel, sources: Sources) -> str:
    """The SHA-256 of the parcel's manifest, which is noted in the sources like any other content."""
    content = parcel.manifest()
    digest = hashlib.sha256(content).hexdigest()
    sources[digest] = content
    return digest


def messages(sources: Mapping[str, Path | bytes], wanted: Iterable[str], sender: str = "") -> Iterator[Message]:
    """The content of these files, in messages of a size that a network likes."""
    waiting: list[Piece] = []
    bytes_waiting = 0
    for digest in wanted:
        for piece in _pieces(digest, sources[digest]):
            waiting.append(piece)
            bytes_waiting += len(piece.content)
            if bytes_waiting >= _MESSAGE_BYTES:
                yield Message(tuple(waiting), sender)
                waiting, bytes_waiting = [], 0
    if waiting:
        yield Message(tuple(waiting), sender)


def _pieces(digest: str, source: Path | bytes) -> Iterator[Piece]:
    if isinstance(source, bytes):
        starts = range(0, max(1, len(source)), _PIECE_BYTES)
        yield from (Piece(digest, start, len(source), source[start : start + _PIECE_BYTES]) for start in starts)
        return
    size, offset = source.stat().st_size, 0
    with source.open("rb") as stream:
        while True:
            content = stream.read(_PIECE_BYTES)
            if content or not offset:
                yield Piece(digest, offset, size, content)
            offset += len(content)
            if not content or offset >= size:
                return


class FileStore:
    """A worker's files, in one folder: `files/SHA256`, and `parcels/DIGEST/…` with links to them.

    Several workers of one machine may share it: a file appears whole or not at all.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._files, self._parcels, self._runs = folder / "files", folder / "parcels", folder / "runs"

    def lacking(self, digests: Collection[str]) -> list[str]:
        """Those that are not here."""
        return [digest for digest in digests if not (self._files / digest).is_file()]

    def lacking_for(self, digests: Collection[str], manifests: Collection[str]) -> list[str]:
        """Those of these contents, of the manifests, and of the files that the manifests list, that are not here."""
        found = self.lacking([*digests, *manifests])
        for digest in manifests:
            if digest not in found:
                found += self.lacking([file.sha256 for file in self.parcel(digest).files])
        return list(dict.fromkeys(found))

    def parcel(self, digest: str) -> Parcel:
        """The parcel whose manifest has this SHA-256."""
        return parcel_from(self.path_of(digest).read_bytes())

    def put(self, message: Message) -> None:
        """Keep the pieces. The last one of a file gives it its name, once its content is what it should be."""
        self._files.mkdir(parents=True, exist_ok=True)
        for piece in message.pieces:
            if (self._files / piece.sha256).is_file():  # sent for the sake of others, or by another client meanwhile
                continue
            part = self._files / f".{piece.sha256}.{os.getpid()}.{message.sender}.part"
            with part.open("r+b" if piece.offset else "wb") as stream:
                stream.seek(piece.offset)
                stream.write(piece.content)
            if piece.offset + len(piece.content) < piece.size:
                continue
            if file_hash(part) != piece.sha256:
                part.unlink()
                raise DataError("A file was damaged on its way to a worker.", "Try again.")
            part.replace(self._files / piece.sha256)

    def add(self, content: bytes) -> str:
        """Keep this content; its SHA-256."""
        digest = hashlib.sha256(content).hexdigest()
        self.put(Message(tuple(_pieces(digest, content))))
        return digest

    def path_of(self, digest: str) -> Path:
        """The file with this content."""
        return self._files / digest

    def place(self, parcel: Parcel) -> Path:
        """The parcel's entry, with all its files around it under their own names."""
        place = self._parcels / parcel.digest
        if not place.is_dir():
            making = self._parcels / f".{parcel.digest}.{os.getpid()}.{time.monotonic_ns()}"
            for file in parcel.files:
                self._link(file, making)
            making.mkdir(parents=True, exist_ok=True)
            with contextlib.suppress(OSError):  # another worker of this machine was first
                making.replace(place)
            shutil.rmtree(making, ignore_errors=True)
        return place / parcel.entry

    def _link(self, file: PackedFile, root: Path) -> None:
        path = root / file.name
        if PurePosixPath(file.name).is_absolute() or ".." in PurePosixPath(file.name).parts:
            raise DataError(f"A parcel names the file {file.name!r}, which is outside of it.")
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            os.link(self._files / file.sha256, path)
        except OSError:  # a file system without links
            shutil.copy2(self._files / file.sha256, path)

    def run_folder(self, run: str, device: str) -> Path:
        """The folder of a tuning: that of the same run and device is found again."""
        return self._runs / run / hashlib.sha256(device.encode()).hexdigest()[:16]

    def tidy(self, now: float | None = None) -> None:
        """Remove what nobody has used for a month."""
        oldest = (time.time() if now is None else now) - _KEPT_DAYS * _DAY_SECONDS
        for folder in (self._runs, self._parcels, self._files):
            for path in folder.iterdir() if folder.is_dir() else ():
                with contextlib.suppress(OSError):
                    if max(path.stat().st_mtime, path.stat().st_atime) >= oldest:
                        continue
                    if path.is_dir():
                        shutil.rmtree(path)
                    else:
                        path.unlink()
