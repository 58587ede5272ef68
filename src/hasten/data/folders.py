"""Folders of files: a subfolder for each class, images with masks, or files without labels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hasten.core.accuracy_notes import NESTED, NO_MASK, NUMBERED_FOLDERS, SUBFOLDERS
from hasten.core.errors import DataError
from hasten.core.remark import remark
from hasten.data import audio, images
from hasten.data.classes import CLASSES_FILE, classes_beside
from hasten.data.dataset import Dataset, Sample

if TYPE_CHECKING:
    from pathlib import Path

_SUFFIXES: Final = images.SUFFIXES | audio.SUFFIXES
_MASK_FOLDERS: Final = ("masks", "labels", "annotations")
_HINT: Final = "Give images (jpg, png, bmp, gif, ppm, tiff, webp) or WAV files."


def open_folder(folder: Path) -> Dataset:
    """The samples of a folder; what it is shows in what it holds."""
    subfolders = _folders(folder)
    masks = [entry for entry in subfolders if entry.name.lower().startswith(_MASK_FOLDERS)]
    if (folder / "images").is_dir() and len(masks) == 1:
        return _images_with_masks(folder, data_files(folder / "images"), masks[0])
    direct = data_files(folder)
    if direct:
        return _flat(folder, direct, subfolders)
    return _classes(folder, subfolders)


def data_files(folder: Path) -> list[Path]:
    """The files of a folder that can be read as data, in the order of their names."""
    return sorted(
        path
        for path in folder.iterdir()
        if path.suffix.lower() in _SUFFIXES and not path.name.startswith(".") and path.is_file()
    )


def _folders(folder: Path) -> list[Path]:
    return sorted(entry for entry in folder.iterdir() if entry.is_dir() and not entry.name.startswith("."))


def _classes(folder: Path, subfolders: list[Path]) -> Dataset:
    files = {entry.name: data_files(entry) for entry in subfolders}
    if empty := [name for name, found in files.items() if not found]:
        raise DataError(f"The folder {folder / empty[0]} holds no images or audio.", _HINT)
    if not files:
        raise DataError(f"The folder {folder} holds no images, audio or classes.", _HINT)
    nested = sum(bool(data_files(inner)) for entry in subfolders for inner in _folders(entry))
    notes = (remark(NESTED, folders=nested),) if nested else ()
    names = classes_beside(folder)
    if names:
        if unknown := sorted(set(files) - set(names)):
            raise DataError(f"The folder {folder / unknown[0]} is not one of the classes in {CLASSES_FILE}.")
        return Dataset(str(folder), _labelled(folder, files), True, names, CLASSES_FILE, notes=notes)
    if all(name.isdecimal() for name in files):
        numbered = [
            Sample(str(path.relative_to(folder)), (path,), int(name)) for name, found in files.items() for path in found
        ]
        return Dataset(str(folder), numbered, True, notes=(remark(NUMBERED_FOLDERS), *notes))
    in_order = "names in alphabetical order"
    return Dataset(str(folder), _labelled(folder, files), True, tuple(sorted(files)), in_order, notes=notes)


def _labelled(folder: Path, files: dict[str, list[Path]]) -> list[Sample]:
    return [Sample(str(path.relative_to(folder)), (path,), name) for name, found in files.items() for path in found]


def _flat(folder: Path, files: list[Path], subfolders: list[Path]) -> Dataset:
    stems = {path.stem: path for path in files if path.suffix.lower() == ".png"}
    pairs = [(path, stems[path.stem]) for path in files if path.suffix.lower() != ".png" and path.stem in stems]
    if pairs:
        samples = [Sample(image.name, (image,), mask) for image, mask in pairs]
        left = len(files) - 2 * len(pairs)
        notes = (remark(NO_MASK, images=left),) if left else ()
        return Dataset(str(folder), samples, True, classes_beside(folder), CLASSES_FILE, notes=notes)
    notes = (remark(SUBFOLDERS, folders=len(subfolders)),) if subfolders else ()
    return Dataset(str(folder), [Sample(path.name, (path,)) for path in files], False, notes=notes)


def _images_with_masks(folder: Path, files: list[Path], masks: Path) -> Dataset:
    by_stem = {path.stem: path for path in data_files(masks)}
    samples = [Sample(path.name, (path,), by_stem[path.stem]) for path in files if path.stem in by_stem]
    if not samples:
        raise DataError(f"No image in {folder / 'images'} has a mask of the same name in {masks}.")
    left = len(files) - len(samples)
    notes = (remark(NO_MASK, images=left),) if left else ()
    return Dataset(str(folder), samples, True, classes_beside(folder), CLASSES_FILE, notes=notes)
