"""Gets a file with trained weights: from the cache, a hub, an address, an archive, or a folder of this machine."""

from __future__ import annotations

import contextlib
import difflib
import filecmp
import hashlib
import re
import shutil
import tarfile
import zipfile
from pathlib import Path, PurePosixPath
from typing import IO, TYPE_CHECKING, Final, NamedTuple

from hasten.core.archive_errors import ARCHIVE_ERRORS
from hasten.core.cache_folder import cache_folder
from hasten.core.errors import DataError, HastenError, ModelError, UsageError
from hasten.core.whole_file import whole_file
from hasten.engine.model_file import file_hash
from hasten.measure.rounds import no_progress
from hasten.model.reader import FILE_IDENTIFIER, read_graph
from hasten.practices.choose.catalogue.download import MOST_BYTES, WRONG_CHECKSUM, download
from hasten.practices.choose.catalogue.hubs import address_of, is_path
from hasten.practices.choose.catalogue.reading import entries

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hasten.measure.rounds import Progress
    from hasten.practices.choose.catalogue.entry import Entry, WeightSource

_SUFFIX: Final = ".tflite"
_VERIFIED: Final = "-verified"
_COPIED_BYTES: Final = 2**20


class TrainedModel(NamedTuple):
    """A file with trained weights."""

    path: Path
    is_verified: bool
    """Whether it is known to be the file that was asked for: by a checksum, or as its path on this machine names it."""


def get(
    name: str,
    folder: Path | None = None,
    progress: Progress = no_progress,
    *,
    precision: str = "",
    files: Sequence[Path] = (),
) -> TrainedModel:
    """Return a file with the trained weights of a model, in the folder if one is given, else in the cache.

    `NAME@WEIGHTS` asks for a certain training. Otherwise, and without a precision, those of the first place in the
    catalogue count. Where the same file is in several places, the next is tried if one fails; another training, which
    may have other classes and want other inputs, is never taken in its place.
    """
    name, _, training = name.partition("@")
    entry = entry_named(name, files)
    sources = _sources(entry, training, precision)
    there = [one for source in sources if (one := _in_cache(entry, source)) is not None]
    found = there[0] if there else _first_that_works(entry, sources, progress)
    progress(1.0, "done")
    stem = "_".join(filter(None, (entry.name, _plain(training), sources[0].precision)))
    return found if folder is None else found._replace(path=_copied(found.path, folder / f"{stem}{_SUFFIX}"))


def entry_named(name: str, files: Sequence[Path] = ()) -> Entry:
    """The model of this name."""
    known = {entry.name: entry for entry in entries(None, files)}
    if name not in known:
        near = difflib.get_close_matches(name, known, n=3, cutoff=0.4)
        hint = f"Did you mean {' or '.join(near)}?" if near else "List them with hasten choose --list."
        raise UsageError(f"The catalogue has no model {name!r}.", hint)
    return known[name]


def _sources(entry: Entry, training: str, precision: str) -> list[WeightSource]:
    """Where the file is that was asked for."""
    if not entry.weights:
        raise UsageError(
            f"The catalogue lists no trained weights for {entry.name}.",
            "Add a location with --catalogue FILE, or pass a file that you have with --candidates FILE.",
        )
    fitting = [
        source
        for source in entry.weights
        if (not precision or source.precision == precision)
        and (not training or _plain(source.weights) == _plain(training))
    ]
    if not fitting:
        asked = " ".join(filter(None, (training, precision)))
        known = dict.fromkeys(f"{source.precision} ({source.weights or 'no name'})" for source in entry.weights)
        raise UsageError(
            f"The catalogue lists no trained weights for {entry.name} with {asked}.", f"Known: {', '.join(known)}."
        )
    first = fitting[0]
    return [one for one in fitting if (one.weights, one.precision) == (first.weights, first.precision)]


def _plain(training: str) -> str:
    """The name of a training as it can stand in a command and in the name of a file."""
    return re.sub(r"[^A-Za-z0-9.]+", "-", training).strip("-").lower()


def _in_cache(entry: Entry, source: WeightSource) -> TrainedModel | None:
    verified, plain = (_place(entry, source, is_verified) for is_verified in (True, False))
    if verified.is_file():
        return TrainedModel(verified, is_verified=True)
    if plain.is_file():
        return TrainedModel(plain, is_verified=bool(source.sha256) and file_hash(plain) == source.sha256)
    return None


def _place(entry: Entry, source: WeightSource, is_verified: bool) -> Path:
    """Where the cache keeps a file. Its name tells that it was verified before it got there.

    A plain name tells nothing: earlier releases gave it to every file.
    """
    key = hashlib.sha256("\0".join((source.location, source.member, source.sha256)).encode()).hexdigest()[:16]
    mark = _VERIFIED if is_verified else ""
    return cache_folder() / "models" / f"{entry.name}_{source.precision}-{key}{mark}{_SUFFIX}"


def _first_that_works(entry: Entry, sources: Sequence[WeightSource], progress: Progress) -> TrainedModel:
    troubles: list[HastenError] = []
    for source in sources:
        result = _attempt(entry, source, progress)
        if isinstance(result, TrainedModel):
            return result
        if result.code == WRONG_CHECKSUM:  # somebody should look at that, not go elsewhere in silence
            raise result
        troubles.append(result)
    raise _with_others(troubles[0], entry, sources[0])


def _with_others(error: HastenError, entry: Entry, tried: WeightSource) -> HastenError:
    """The error, with the names of other trainings that may be had."""
    others = [one.weights for one in entry.weights if one.precision == tried.precision and one.weights != tried.weights]
    if not others:
        return error
    names = ", ".join(dict.fromkeys(f"{entry.name}@{_plain(one)}" for one in others))
    return type(error)(error.message, f"{error.hint} Other weights: {names}.", code=error.code)


def _attempt(entry: Entry, source: WeightSource, progress: Progress) -> TrainedModel | HastenError:
    try:
        return _fetched(entry, source, progress)
    except HastenError as error:
        return error


def _fetched(entry: Entry, source: WeightSource, progress: Progress) -> TrainedModel:
    if is_path(source.location):
        return TrainedModel(_local_model(Path(source.location), source), is_verified=True)
    raw = _place(entry, source, is_verified=False).with_suffix(".download")
    is_verified = download(address_of(source), raw, progress)
    place = _place(entry, source, is_verified)
    try:
        _take_model(raw, source, place)
    finally:
        raw.unlink(missing_ok=True)
    return TrainedModel(place, is_verified)


def _local_model(path: Path, source: WeightSource) -> Path:
    if path.is_dir():
        try:
            found = sorted(path.glob(source.member or f"*{_SUFFIX}"))
        except (NotImplementedError, ValueError):  # a path from the root, or no pattern at all
            found = []
        if len(found) != 1:
            raise DataError(
                f"{path} contains {len(found)} models, not one.", "Set member in the catalogue to one of them."
            )
        (path,) = found
    found_sha256 = read_graph(path).sha256
    if source.sha256 and found_sha256 != source.sha256:
        raise ModelError(
            f"{path} has the wrong checksum: its SHA-256 is {found_sha256}, and the catalogue says {source.sha256}.",
            "Check where the file comes from, or correct sha256 in the catalogue.",
            code=WRONG_CHECKSUM,
        )
    return path


def _take_model(raw: Path, source: WeightSource, place: Path) -> None:
    """Give the model in a downloaded file its place, if it is one."""
    try:
        with _opened(raw, source) as stream, whole_file(place) as whole:
            _copy(stream, whole)
    except ARCHIVE_ERRORS as error:
        raise ModelError(
            f"{source.location} cannot be unpacked: {getattr(error, 'strerror', None) or error}.",
            "Run the command again.",
        ) from None
    try:
        read_graph(place)
    except ModelError:
        place.unlink(missing_ok=True)
        raise


@contextlib.contextmanager
def _opened(raw: Path, source: WeightSource) -> Iterator[IO[bytes]]:
    """The model in a file. Nothing is written that an archive names."""
    with raw.open("rb") as file:
        # Before archives: a model with metadata ends like one.
        if file.read(8)[4:] == FILE_IDENTIFIER:
            file.seek(0)
            yield file
            return
    if zipfile.is_zipfile(raw):
        with zipfile.ZipFile(raw) as archive, archive.open(_member(archive.namelist(), source)) as stream:
            yield stream
    elif tarfile.is_tarfile(raw):
        with tarfile.open(raw) as tar:
            names = [one.name for one in tar.getmembers() if one.isfile()]
            stream_or_none = tar.extractfile(_member(names, source))
            assert stream_or_none is not None, "a plain file"
            yield stream_or_none
    else:
        raise ModelError(f"{source.location} is neither a model nor an archive.", "Check the catalogue.")


def _member(names: Sequence[str], source: WeightSource) -> str:
    models = [name for name in names if PurePosixPath(name).suffix == _SUFFIX]
    found = [name for name in models if PurePosixPath(name).name == source.member] if source.member else models
    if len(found) != 1:
        there = ", ".join(PurePosixPath(name).name for name in models[:8]) or "none"
        raise ModelError(
            f"The archive {source.location} contains {len(found)} matching models, not one.",
            f"Set member in the catalogue to one of its models: {there}.",
        )
    return found[0]


def _copy(stream: IO[bytes], out: IO[bytes]) -> None:
    while chunk := stream.read(_COPIED_BYTES):
        out.write(chunk)
        if out.tell() > MOST_BYTES:
            raise ModelError("The model in the archive is larger than 2 GB, the limit.", "Check the catalogue.")


def _copied(cached: Path, target: Path) -> Path:
    """A copy in the user's folder. What is there already is not touched."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.exists() and filecmp.cmp(cached, target, shallow=False):
            return target
        with cached.open("rb") as stream, whole_file(target, replace=False) as whole:
            shutil.copyfileobj(stream, whole)
    except FileExistsError:
        raise UsageError(f"{target} exists, and is another file.", "Choose another folder.") from None
    except OSError as error:
        raise DataError(f"{target} cannot be written: {error.strerror}.", "Choose another folder.") from None
    return target
