"""A study of copies on a terminal, as JSON and in a session."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from hasten.core.codec import from_data
from hasten.practices.copies.facts import CopiesFound, Cycles
from hasten.practices.copies.view import document, session_lines, view
from hasten.show.terminal import terminal_text
from tests.unit.practices.copies.examples import odd, typical


@pytest.mark.parametrize("found", [typical(), odd()])
@pytest.mark.parametrize("verbose", [False, True])
def test_it_fits_a_terminal(found: CopiesFound, verbose: bool) -> None:
    text = terminal_text(view(found), verbose=verbose)
    assert max(map(len, text.splitlines())) <= 80


def test_each_reason_is_told_once() -> None:
    text = " ".join(terminal_text(view(typical()), verbose=True).split())
    assert text.count("The gpu keeps tensors") == 1


def test_the_code_comes_last_and_can_be_left_out() -> None:
    assert terminal_text(view(typical())).endswith("print('hello')")
    assert "hello" not in terminal_text(view(replace(typical(), snippet="")))


def test_the_raw_times_are_in_the_session_only() -> None:
    found = replace(typical(), blocks=(Cycles("copying", 0, 0, (1, 2), (3, 4), (5, 6)),))
    assert document(found)["blocks"] == []
    (kind, label, data), (_, practice, _) = session_lines(found)
    assert (kind, label, practice) == ("copies", "/models/large.tflite", "copies")
    assert data["blocks"][0]["run_ns"] == [3, 4]
    assert from_data(CopiesFound, json.loads(json.dumps(data))) == found
