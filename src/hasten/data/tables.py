"""A CSV file that lists files and their labels."""

from __future__ import annotations

import contextlib
import csv
from typing import TYPE_CHECKING, Final

from hasten.core.errors import DataError
from hasten.core.units import several
from hasten.data.classes import CLASSES_FILE, classes_beside
from hasten.data.dataset import Dataset, Sample

if TYPE_CHECKING:
    from pathlib import Path

    from hasten.data.dataset import Label

_FILE_COLUMNS: Final = ("file", "path", "filename", "file_name", "filepath", "image", "image_path", "audio")
_LABEL_COLUMNS: Final = ("class_index", "label", "class", "class_id", "target", "category", "y", "mask", "class_name")
_HINT: Final = (
    "Write a path and a label in each line, such as cat/1.jpg,3; the first line may name the columns (file,label)."
)


def open_table(path: Path) -> Dataset:
    """The samples that a CSV lists; paths count from its folder, or from `images` there."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.reader(file, delimiter="\t" if path.suffix.lower() == ".tsv" else ",")
            rows = [(reader.line_num, row) for row in reader if any(row)]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{path} cannot be read as a table: {error}.", _HINT) from None
    if not rows:
        raise DataError(f"{path} lists no files.", _HINT)
    file_column, label_column, body = _columns(path, rows)
    if not body:
        raise DataError(f"{path} lists no files below its header.", _HINT)
    root = _root(path, body[0][1][file_column])
    files, texts = [], []
    for line, row in body:
        if len(row) <= max(file_column, label_column or 0):
            raise DataError(f"Line {line} of {path} has only {several(len(row), 'column')}.", _HINT)
        files.append(row[file_column].strip())
        texts.append("" if label_column is None else row[label_column].strip())
    return _dataset(path, root, [line for line, _ in body], files, texts)


def _dataset(path: Path, root: Path, lines: list[int], files: list[str], texts: list[str]) -> Dataset:
    labels = _labels(path.parent, texts)
    labelled = any(texts)
    names = [
        f"{file} (line {line} of {path})" if labelled and not text else file
        for line, file, text in zip(lines, files, texts, strict=True)
    ]
    samples = [Sample(name, (root / file,), label) for name, file, label in zip(names, files, labels, strict=True)]
    by_name = sorted({label for label in labels if isinstance(label, str)})
    beside = classes_beside(path.parent)
    return Dataset(
        source=str(path),
        samples=samples,
        labelled=labelled,
        classes=(beside or tuple(by_name)) if by_name else beside,
        classes_from=CLASSES_FILE if beside else "names in alphabetical order" if by_name else "",
    )


def _columns(path: Path, rows: list[tuple[int, list[str]]]) -> tuple[int, int | None, list[tuple[int, list[str]]]]:
    """Where file and label stand, and the rows without a head."""
    head = [cell.strip().lower() for cell in rows[0][1]]
    file_column = next((head.index(name) for name in _FILE_COLUMNS if name in head), None)
    label_column = next((head.index(name) for name in _LABEL_COLUMNS if name in head), None)
    if file_column is not None:
        if label_column is None and len(head) > 1:
            raise DataError(
                f"{path} has no column for labels: {', '.join(head)}.", f"Name the column {_LABEL_COLUMNS[1]}."
            )
        return file_column, label_column, rows[1:]
    return 0, 1 if len(head) > 1 else None, rows


def _root(path: Path, first: str) -> Path:
    for root in (path.parent, path.parent / "images"):
        if (root / first.strip()).is_file():
            return root
    raise DataError(
        f"{path} lists {first!r}, but there is no such file next to it or in {path.parent / 'images'}.", _HINT
    )


def _labels(folder: Path, texts: list[str]) -> list[Label]:
    """Numbers where all are numbers, masks where the first is a file, else names; none where a line leaves it blank."""
    with contextlib.suppress(ValueError):
        return [int(text) if text else None for text in texts]
    with contextlib.suppress(ValueError):
        return [float(text) if text else None for text in texts]
    if (folder / next(filter(None, texts))).is_file():
        return [folder / text if text else None for text in texts]
    return [text or None for text in texts]
