"""The doctor of models as people and programs see it: terminal, JSON, exit of the finding, and a round trip."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from hasten import api
from hasten.core.codec import from_data, to_data
from hasten.core.finding import Standing
from hasten.practices.help.facts import ModelFound
from hasten.practices.help.model_rules import model_finding
from hasten.practices.help.view import document, session_lines, view
from hasten.show.terminal import terminal_text
from tests.unit.practices.help import examples

FOUND = [examples.model_sound(), examples.model_troubled(), examples.model_not_shown()]


@pytest.mark.parametrize("found", FOUND)
@pytest.mark.parametrize("verbose", [False, True])
def test_it_fits_a_terminal(found: ModelFound, verbose: bool) -> None:
    assert max(map(len, terminal_text(view(found), verbose=verbose).splitlines())) <= 80


@pytest.mark.parametrize("found", FOUND)
def test_the_document_has_the_promised_keys(found: ModelFound) -> None:
    told = document(found)
    assert told.keys() >= {"checks", "bundle", "model", "plan", "delegates", "minimized", "releases", "finding"}
    for check in told["checks"]:
        assert check.keys() >= {"name", "status", "facts", "what_to_do"}
    json.dumps(told, allow_nan=False)


@pytest.mark.parametrize("found", FOUND)
def test_a_record_survives_the_codec(found: ModelFound) -> None:
    assert to_data(from_data(ModelFound, to_data(found))) == to_data(found)


def test_advice_names_the_model() -> None:
    told = document(examples.model_troubled())
    advice = {check["name"]: check["what_to_do"] for check in told["checks"]}
    assert "hasten operators net.tflite --cut 0:29" in advice["unused weights"]


def test_a_model_that_does_not_run_is_not_to_be_run_by_other_commands() -> None:
    troubled = examples.model_troubled()
    for found, advised in ((troubled, False), (replace(troubled, failure=None), True)):
        advice = {check["name"]: check["what_to_do"] for check in document(found)["checks"]}
        assert bool(advice["NNAPI"]) is advised


def test_findings_are_as_bad_as_the_worst_check() -> None:
    assert model_finding(examples.model_sound()).standing is Standing.GOOD
    assert model_finding(examples.model_troubled()).remark.code == "help.model-broken"
    assert examples.model_troubled().is_broken
    assert not examples.model_sound().is_broken
    assert session_lines(examples.model_sound())[0][0] == "finding"


def test_a_bundle_is_listed_by_its_own_view() -> None:
    bundle = examples.model_troubled().bundle
    assert bundle is not None
    assert "smallest.tflite" in terminal_text(api.blocks(bundle))
