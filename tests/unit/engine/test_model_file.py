"""Torn and foreign files are refused before the engine sees them; whole ones never are."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests import example_models

from hasten.core.errors import ModelError
from hasten.demo import MODEL
from hasten.engine.model_file import check_model_file

if TYPE_CHECKING:
    from pathlib import Path

WHOLE = example_models.mobilenet_like(4, 1, 8)
NO_RESET = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)


@pytest.mark.parametrize(
    "content",
    [
        WHOLE,
        example_models.one_operator(),
        example_models.old_schema(),
        example_models.two_signatures(),
        example_models.accumulator(),
    ],
)
def test_whole_files_pass(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "model.tflite"
    path.write_bytes(content)
    assert _complaint(path) == ""


def test_the_embedded_model_passes() -> None:
    assert _complaint(MODEL) == ""


def _complaint(path: Path) -> str:
    try:
        check_model_file(path)
    except ModelError as error:
        return error.message
    return ""


@NO_RESET
@given(size=st.integers(0, len(WHOLE) - 64))
def test_torn_files_are_refused(tmp_path: Path, size: int) -> None:
    path = tmp_path / "torn.tflite"
    path.write_bytes(WHOLE[:size])
    with pytest.raises(ModelError, match=r"torn\.tflite"):
        check_model_file(path)


@NO_RESET
@given(data=st.data())
def test_wrong_bytes_pass_or_are_refused(tmp_path: Path, data: st.DataObject) -> None:
    content = bytearray(WHOLE)
    for position in data.draw(st.lists(st.integers(0, len(WHOLE) - 1), min_size=1, max_size=4)):
        content[position] = data.draw(st.integers(0, 255))
    path = tmp_path / "wrong.tflite"
    path.write_bytes(content)
    with contextlib.suppress(ModelError):
        check_model_file(path)


@NO_RESET
@given(content=st.binary(max_size=64))
def test_any_bytes_are_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "any.tflite"
    path.write_bytes(b"\x10\0\0\0TFL3" + content)
    with pytest.raises(ModelError):
        check_model_file(path)


def test_what_is_not_a_file(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="is a folder"):
        check_model_file(tmp_path)
    with pytest.raises(ModelError, match="There is no model file"):
        check_model_file(tmp_path / "none.tflite")
