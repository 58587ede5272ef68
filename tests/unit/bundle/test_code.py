"""Which languages a bundle has code in."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hasten.bundle.code import code_files, snippet_in
from hasten.bundle.record import Bundle
from hasten.core.errors import UsageError
from hasten.core.plan import Plan

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("plan", [Plan(kernel="reference"), Plan(delegate="libdelegate.so")])
def test_code_that_cannot_follow_a_plan_is_not_written(tmp_path: Path, plan: Plan) -> None:
    bundle = Bundle(tmp_path, plan=plan)
    assert list(code_files(bundle)) == ["code/run_model.py"]
    for language in ("cpp", "kotlin"):
        with pytest.raises(UsageError, match=f"no {language} code for the plan"):
            snippet_in(language, bundle)


def test_a_plain_plan_has_code_in_all_languages(tmp_path: Path) -> None:
    assert list(code_files(Bundle(tmp_path))) == ["code/run_model.py", "code/FastModel.kt", "code/fast_model.cpp"]
    with pytest.raises(UsageError, match="no code in 'fortran'"):
        snippet_in("fortran", Bundle(tmp_path))
