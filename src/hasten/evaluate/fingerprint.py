"""Fingerprints of files, data and metrics, by which a resumed search finds out that they have changed."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hasten.data.dataset import LazySamples
from hasten.engine.model_file import file_hash

if TYPE_CHECKING:
    from hasten.data.dataset import Dataset, Sample
    from hasten.data.metrics import Metric

_LETTERS: Final = 16


def data_fingerprint(dataset: Dataset | None) -> str:
    """The hash of a file; of files in a folder or a table, their names, labels, sizes and times, as reading all of them
    would take as long as judging by them; of a function, its module. Empty for inputs that were made up."""
    if dataset is None or dataset.is_random:
        return ""
    if callable(dataset.samples):
        return code_fingerprint(dataset.source.partition(":")[0])
    digest = hashlib.sha256(repr(dataset.classes).encode())
    if Path(dataset.source).is_file():
        digest.update(file_hash(Path(dataset.source)).encode())
    if not isinstance(dataset.samples, LazySamples):  # those are rows of the file itself
        for sample in dataset.samples:
            digest.update(_outline(sample).encode())
    return digest.hexdigest()[:_LETTERS]


def metric_fingerprint(metric: Metric | None) -> str:
    """The module of a metric that the user wrote; empty for hasten's own."""
    if metric is None:
        return ""
    module = metric.name.partition(":")[0] if ":" in metric.name else type(metric).__module__
    return "" if module.startswith("hasten.") else code_fingerprint(module)


def code_fingerprint(module: str) -> str:
    """The hash of a module's file; empty where it has none."""
    path = getattr(sys.modules.get(module), "__file__", None)
    return file_hash(Path(path))[:_LETTERS] if path and Path(path).is_file() else ""


def _outline(sample: Sample) -> str:
    inputs = sample.inputs if isinstance(sample.inputs, tuple) else tuple(sample.inputs.values())
    files = [part for part in (*inputs, sample.label) if isinstance(part, Path)]
    label = None if isinstance(sample.label, Path) else sample.label
    return f"{sample.name}|{label!r}|{[_stamp(path) for path in files]}\n"


def _stamp(path: Path) -> tuple[str, int, int]:
    try:
        found = path.stat()
    except OSError:  # it may be one of the samples that are left out
        return str(path), -1, -1
    return str(path), found.st_size, found.st_mtime_ns
