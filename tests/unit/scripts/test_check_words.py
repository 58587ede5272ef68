"""The check that no code decides by English finds what it should, and leaves codes alone."""

from __future__ import annotations

import ast
import importlib.util
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).parents[3] / "scripts" / "check_words.py"


def _loaded() -> Any:
    spec = importlib.util.spec_from_file_location("check_words", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


CHECK = _loaded()


def findings(code: str) -> list[str]:
    return [what for node in ast.walk(ast.parse(code)) if (what := CHECK._english_in(node))]


@pytest.mark.parametrize(
    "code",
    [
        'refused == "slower beside work"',
        '"changes nothing" in str(error)',
        'text in ("one sentence", "two")',
        'why.startswith("slower beside")',
        'line.split("; and then")',
        'finding.why.partition(";")',
        '"pip install" in failure.hint',
        "failure.message[:10]",
        '"npu" in failure.message',
        're.search("is not known", text)',
        'text == f"{name} is not known"',
    ],
)
def test_decisions_by_english_are_found(code: str) -> None:
    assert findings(code)


@pytest.mark.parametrize(
    "code",
    [
        'remark.code == "threads.slower"',
        'status in ("kept", "broken")',
        'path.split("/")',
        'name.startswith("--")',
        'text = "A sentence that is shown."',
        'raise UsageError("There is no model.", "Give one.")',
        'data["why"] = book.text(remark)',
        'name.partition("@")',
    ],
)
def test_codes_names_and_words_to_show_are_not(code: str) -> None:
    assert findings(code) == []


def test_cycles_are_groups_that_import_each_other() -> None:
    below = {"a": ["b"], "b": ["c"], "c": ["a", "d"], "d": ["e"], "e": []}
    groups = [sorted(group) for group in CHECK._strongly_connected(below)]
    assert sorted(groups) == [["a", "b", "c"], ["d"], ["e"]]
