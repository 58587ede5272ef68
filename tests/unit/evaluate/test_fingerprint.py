"""Data that is no longer what it was has another fingerprint, whatever kind of data it is."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import numpy as np
from PIL import Image

from hasten.data.dataset import Dataset
from hasten.data.metrics import metric_from_text
from hasten.data.sources import open_dataset
from hasten.evaluate.fingerprint import data_fingerprint, metric_fingerprint

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def fingerprint(path: Path) -> str:
    return data_fingerprint(open_dataset(str(path)))


def test_arrays_by_their_content(tmp_path: Path) -> None:
    path = tmp_path / "data.npz"
    np.savez(path, x=np.ones((4, 2)), y=np.arange(4))
    before = fingerprint(path)
    os.utime(path, (1, 1))
    assert fingerprint(path) == before
    np.savez(path, x=np.ones((4, 2)), y=np.arange(4)[::-1])
    assert fingerprint(path) != before


def test_folders_and_tables_by_their_files_and_labels(tmp_path: Path) -> None:
    for name in ("cat", "dog"):
        (tmp_path / name).mkdir()
        Image.new("RGB", (4, 4)).save(tmp_path / name / "1.png")
    table = tmp_path / "labels.csv"
    table.write_text("file,label\ncat/1.png,0\ndog/1.png,1\n")
    seen = [(fingerprint(tmp_path), fingerprint(table))]
    Image.new("RGB", (4, 4), "red").save(tmp_path / "cat" / "1.png")
    os.utime(tmp_path / "cat" / "1.png", ns=(0, 12345))
    seen.append((fingerprint(tmp_path), fingerprint(table)))
    table.write_text("file,label\ncat/1.png,1\ndog/1.png,1\n")
    (tmp_path / "dog" / "1.png").rename(tmp_path / "dog" / "2.png")
    seen.append((fingerprint(tmp_path), fingerprint(table)))
    assert all(len(set(column)) == 3 for column in zip(*seen, strict=True))


def test_functions_by_their_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = tmp_path / "given_for_fingerprint.py"
    module.write_text("def samples(): yield [1.0], 1\ndef metric(outputs, label): return 1.0\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    dataset = open_dataset("given_for_fingerprint:samples")
    metric = metric_from_text("given_for_fingerprint:metric")
    before = data_fingerprint(dataset), metric_fingerprint(metric)
    assert all(before)
    module.write_text("def samples(): yield [2.0], 1\ndef metric(outputs, label): return 2.0\n")
    assert data_fingerprint(dataset) != before[0]
    assert metric_fingerprint(metric) != before[1]
    del sys.modules["given_for_fingerprint"]


def test_what_has_no_content_has_no_fingerprint() -> None:
    assert data_fingerprint(None) == ""
    assert data_fingerprint(Dataset("random", [], False, is_random=True)) == ""
    assert metric_fingerprint(metric_from_text("top-1")) == ""
