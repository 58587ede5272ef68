"""A report that cannot be made says why, and fails."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from hasten.cli.main import main
from hasten.core.errors import DataError
from hasten.core.session import SessionWriter

if TYPE_CHECKING:
    from pathlib import Path


def test_pictures_of_a_session_that_has_nothing_to_draw_are_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    session = tmp_path / "s.jsonl"
    with closing(SessionWriter(session)) as writer:
        writer.begin()
    code = main(["report", str(session), "--format", "svg", "-o", str(tmp_path / "charts")])
    assert code == DataError.exit_code
    assert "has nothing to draw" in capsys.readouterr().err


@pytest.mark.parametrize("form", ["html", "svg"])
def test_what_is_no_session_is_named_before_a_missing_option(
    form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "text.tflite").write_text("hello")
    assert main(["report", str(tmp_path / "text.tflite"), "--format", form]) == DataError.exit_code
    assert "is not a session file" in capsys.readouterr().err
