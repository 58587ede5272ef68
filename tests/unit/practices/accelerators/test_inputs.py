"""Inputs on which accelerators are compared: samples of the user's data, prepared as the model wants them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from hasten.core.errors import DataError
from hasten.core.plan import Workload
from hasten.data.preprocess import preprocess_from_text
from hasten.data.sources import open_dataset
from hasten.demo import DATA, MODEL
from hasten.model.reader import read_graph
from hasten.practices.accelerators.outputs import inputs_from_data
from hasten.targets.client import TensorInfo

if TYPE_CHECKING:
    from pathlib import Path


def tensors() -> list[TensorInfo]:
    [tensor] = read_graph(MODEL).inputs
    shape = tuple(tensor.shape)
    return [TensorInfo(tensor.name, "float32", shape, 4 * int(np.prod(shape)), True)]


def made(data: str, preprocess: str = "") -> list[list[bytes]]:
    make = inputs_from_data(read_graph(MODEL), Workload(), open_dataset(data), preprocess_from_text(preprocess))
    return make(tensors())


def test_samples_of_the_data_are_prepared_as_the_model_wants_them() -> None:
    plain, halved = made(str(DATA)), made(str(DATA), "std=2")
    assert len(plain) == len(halved) == 8
    for [one], [other] in zip(plain, halved, strict=True):
        values = np.frombuffer(one, np.float32)
        assert values.size == np.prod(tensors()[0].shape)
        np.testing.assert_allclose(np.frombuffer(other, np.float32), values / 2, rtol=1e-6)


def test_data_of_another_shape_is_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "odd.npz", x=np.zeros((4, 3, 7), np.float32), y=np.zeros(4, np.int64))
    with pytest.raises(DataError, match=r"sample \d of .*odd\.npz has the shape \[3, 7\]"):
        made(str(tmp_path / "odd.npz"))
