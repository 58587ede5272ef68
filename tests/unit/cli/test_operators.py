"""`hasten operators` at its edges: exit codes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from tests.unit.practices.operators import examples

from hasten import api
from hasten.cli import main
from hasten.core.remark import remark

if TYPE_CHECKING:
    from hasten.practices.operators.facts import OperatorsFound

WRONG = replace(examples.typical().tried[3], what="kernel-mine", of_user=True)
SLOW = replace(examples.typical().tried[2], what="kernel-mine", of_user=True)
OF_HASTEN = replace(WRONG, of_user=False)
NOT_COMPARED_YET = replace(WRONG, why=remark(""), max_error=None)


@pytest.mark.parametrize(
    ("found", "code"),
    [
        (replace(examples.nothing(), tried=(WRONG,)), 1),
        (replace(examples.typical(), tried=(*examples.typical().tried, WRONG)), 1),
        (replace(examples.nothing(), tried=(SLOW,)), 0),
        (replace(examples.nothing(), tried=(OF_HASTEN,)), 0),
        (replace(examples.nothing(), tried=(NOT_COMPARED_YET,)), 0),
    ],
    ids=["wrong", "wrong, and rewrites won", "slower", "hasten's own", "not compared"],
)
def test_a_wrong_kernel_of_the_user_fails_the_command(
    found: OperatorsFound, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(api, "operators", lambda *_, **__: found)
    assert main.main(["operators", "demo"]) == code
    assert ("kernel-mine is refused" in capsys.readouterr().out) is bool(code)
