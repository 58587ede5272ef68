"""What is wrong with a check is named in the order in which it matters."""

from __future__ import annotations

import pytest

from hasten.cli.main import main
from hasten.core.errors import ModelError, UsageError


@pytest.mark.parametrize(
    ("model", "code", "told"),
    [
        ("NO_SUCH_FILE", ModelError.exit_code, "There is no file NO_SUCH_FILE."),
        ("demo", UsageError.exit_code, "There is nothing to check."),
    ],
)
def test_a_missing_model_is_named_before_missing_limits(
    model: str, code: int, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", model]) == code
    assert told in capsys.readouterr().err


@pytest.mark.parametrize("value", ["0", "100000", "many"])
def test_any_wrong_number_of_threads_is_about_the_option(value: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "demo", "--threads", value]) == UsageError.exit_code
    assert f"--threads must be a whole number from 1 to 1024, not '{value}'." in capsys.readouterr().err
