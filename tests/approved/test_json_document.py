"""What docs/json.md says of the documents of commands, held against the documents of the approved examples."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from hasten import api
from hasten.cli.main import COMMANDS
from tests.approved.cases import examples

if TYPE_CHECKING:
    from collections.abc import Iterator

_PAGE: Final = Path(__file__).resolve().parents[2] / "docs" / "json.md"
# Up to a semicolon: what follows there is of other options.
_ROW: Final = re.compile(r"^\| `([a-z]+)` \| ([^;\n]+?)(?:;.*)? \|$", re.MULTILINE)
# A key, and the keys of what it holds: `rows` (`threads`, `load`).
_KEY: Final = re.compile(r"`(\w+)`(?: \(((?:`\w+`(?:, )?)+)\))?")
# Examples are named after the folder of their room; `choose-catalogue` is the list of `choose --list`.
_FOLDERS: Final = {"retrain": "retraining"}
_OTHER_DOCUMENTS: Final = {"choose-catalogue"}
# Their documents are made from what a command has done: the tests of these commands hold their keys.
_WITHOUT_EXAMPLES: Final = {"check", "devices", "doctor", "run", "trace", "tune"}


def _promised() -> dict[str, dict[str, list[str]]]:
    """Command → key → keys of what it holds."""
    rows = _ROW.findall(_PAGE.read_text(encoding="utf-8"))
    return {command: {key: re.findall(r"\w+", inside) for key, inside in _KEY.findall(keys)} for command, keys in rows}


PROMISED: Final = _promised()


def _documents(command: str) -> Iterator[dict[str, Any]]:
    for name, make in examples():
        if name.partition("-")[0] == _FOLDERS.get(command, command) and name not in _OTHER_DOCUMENTS:
            yield api.document(make())


def _missing(promised: dict[str, list[str]], document: dict[str, Any]) -> list[str]:
    """The keys that a document lacks, as far as what should hold them is there."""
    lacking = [key for key in promised if key not in document]
    for key, inside in promised.items():
        held = document.get(key)
        entries = held if isinstance(held, list) else [held]
        for entry in (one for one in entries if isinstance(one, dict)):
            lacking += [f"{key}.{name}" for name in inside if name not in entry]
    return lacking


def test_every_command_that_makes_a_document_is_described() -> None:
    # `report` prints a document only with -o, and `worker` none.
    assert {*PROMISED, "report", "worker"} == set(COMMANDS)


@pytest.mark.parametrize("command", sorted({*PROMISED} - _WITHOUT_EXAMPLES))
def test_documents_have_the_keys_that_are_promised(command: str) -> None:
    documents = list(_documents(command))
    assert documents
    assert [_missing(PROMISED[command], document) for document in documents] == [[]] * len(documents)


def test_a_missing_key_is_noticed() -> None:
    document = next(_documents("threads"))
    del document["why"]
    assert _missing(PROMISED["threads"], document) == ["why"]
