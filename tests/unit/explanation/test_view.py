"""An explanation on a terminal, as JSON, and back from a session of any age."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

from hasten.core.codec import from_data, to_data
from hasten.core.session import Line
from hasten.explanation.facts import ExplainFound, Instructions, LossyInput
from hasten.explanation.view import document, sections, session_lines, view
from hasten.explanation.words import numbers_words, partitions_words, place_words
from hasten.show.blocks import Detail, Table, flat
from hasten.show.terminal import terminal_text
from tests.unit.explanation.examples import errors, explanation, odd, row, side, untimed, usual

OLD: dict[str, Any] = {
    "verdict": "It is 2.0 times slower: because.",
    "before": {
        "model": {"path": "a.tflite", "size_bytes": 1, "sha256": "ab"},
        "latency_ms": 1.0,
        "invoke_ms": 1.0,
        "nodes": 1,
        "delegated_nodes": 1,
        "delegated_partitions": 1,
        "left": [],
        "headroom_ms": None,
    },
    "comparison": {"verdict": "slower", "ratio": 2.0, "ci95": [1.9, None], "smallest_detectable": None, "rounds": 5},
    "causes": [
        {
            "kind": "left-delegate",
            "op": "TANH",
            "kernel_before": "Tanh",
            "kernel_after": "built-in kernel",
            "nodes": 1,
            "ms_before": 1.0,
            "ms_after": 2.0,
            "change_ms": {"estimate": 1.0, "low": None, "high": None},
            "clear": False,
        }
    ],
    "outside_ms": {"estimate": None, "low": None, "high": None},
    "instructions": {"cpu": "A CPU", "has": [], "lacks": ["i8mm"], "hint": "integer kernels gain little"},
    "hints": ["leave TANH as it was"],
    "errors": {
        "samples": 4,
        "inputs": "random inputs of 0 to 1",
        "random": True,
        "compared": 1,
        "output_snr_db": 30.0,
        "first_drop": 0,
        "largest_drop": 0,
        "first_below": None,
        "unread": [{"node": 0, "why": "the engine does not show it"}],
        "disturbance_db": None,
        "notes": ["a guess"],
        "lossy_inputs": [{"name": "x", "dtype": "int8", "snr_db": 30.0, "node": None}],
        "cut_off": [{"node": None, "input": "x", "share": 0.1, "original": [0.0, 2.0], "held": [0.0, 1.0]}],
    },
    "why_no_errors": "",
    "why_no_times": "",
    "nodes": [
        {
            "before": 0,
            "after": 0,
            "match": "exact",
            "op": "TANH",
            "location": "y",
            "shape": "1x4",
            "ms_before": 1.0,
            "ms_after": 2.0,
            "change_ms": {"estimate": 1.0, "low": None, "high": None},
            "kernel_before": "Tanh",
            "kernel_after": "built-in kernel",
            "headroom_ms_before": None,
            "headroom_ms_after": None,
            "snr_db": 30.0,
            "same_to_the_bit": False,
            "drop_db": 90.0,
        }
    ],
    "doubts": [],
}
OLD["after"] = OLD["before"]


def line(data: dict[str, Any]) -> Line:
    return Line("explanation", "a b", "2026-01-01T00:00:00", data)


def test_the_reasons_come_first_and_all_fits_80_columns() -> None:
    for found in (usual(), untimed(), odd()):
        text = terminal_text(view(found))
        assert text.startswith("Why: ")
        assert max(map(len, text.splitlines())) <= 80
        assert "nan" not in text


def test_a_terminal_shows_nodes_only_if_asked() -> None:
    names = [block.name for block in view(usual()) if isinstance(block, Table)]
    assert len(names) == 1
    (more,) = (block for block in view(usual()) if isinstance(block, Detail))
    assert len([block for block in more.blocks if isinstance(block, Table)]) == 1


def test_error_that_enters_at_the_input_is_said_before_any_node() -> None:
    lossy = errors(lossy_inputs=(LossyInput("image", "int8", 39.3),))
    first, second, *_ = place_words(explanation(), lossy)
    assert "'image'" in first
    assert "#1 CONV_2D" in second
    none = replace(lossy, first_drop=None, largest_drop=None, first_below=None)
    assert len(place_words(explanation(), none)) == 2
    assert place_words(explanation(), errors(compared=0)) == []


def test_one_of_a_thing_is_not_several() -> None:
    one = replace(side(), nodes=1, delegated_nodes=1)
    assert partitions_words(explanation(before=one, after=one)).count("1 of 1 operator in 1 partition") == 2
    assert "1 node with the original's on 1 sample of images.npz." in numbers_words(errors(samples=1, compared=1))


def test_equal_outputs_and_none_are_told_apart() -> None:
    assert "equal" in numbers_words(errors(output_snr_db=math.inf, outputs_equal=True))
    assert "cannot be compared" in numbers_words(errors(output_snr_db=None))


def test_a_document_has_the_keys_that_others_read() -> None:
    data = json.loads(json.dumps(document(odd()), allow_nan=False))
    assert data.keys() >= OLD.keys()
    assert data["nodes"][0].keys() >= OLD["nodes"][0].keys()
    assert data["causes"][0].keys() >= OLD["causes"][0].keys()
    assert data["errors"].keys() >= OLD["errors"].keys()
    assert all(isinstance(data[key], str) for key in ("verdict", "why_no_errors", "why_no_times"))
    assert all(isinstance(note, str) for note in (*data["errors"]["notes"], *data["hints"], data["errors"]["inputs"]))
    assert document(untimed())["before"]["invoke_ms"] is None


def test_a_session_shows_the_last_explanation_of_each_pair() -> None:
    lines = [line(data) for found in (odd(), usual()) for _, _, data in session_lines(found)]
    (section,) = sections(lines)
    assert terminal_text(section.blocks, verbose=True) == terminal_text(view(usual()), verbose=True)
    assert sections([]) == []


def test_what_a_session_keeps_is_read_back() -> None:
    found = usual()
    again = from_data(ExplainFound, json.loads(json.dumps(to_data(found), allow_nan=False)))
    assert replace(again, rows=found.rows) == found
    assert again.rows[0].same_to_the_bit


def test_a_session_of_an_earlier_release_is_shown_as_it_was_written() -> None:
    (section,) = sections([line(OLD)])
    text = " ".join(terminal_text(section.blocks, verbose=True).split())
    for words in ("It is 2.0 times slower: because.", "leave TANH as it was", "random inputs of 0 to 1", "a guess"):
        assert words in text
    assert len([block for block in flat(section.blocks) if isinstance(block, Table)]) == 2


def test_nothing_to_tell() -> None:
    found = explanation(rows=(), causes=(), hints=(), after=side(), instructions=Instructions(""), errors=None)
    assert terminal_text(view(found), verbose=True)
    broken = explanation(rows=(row(1), row(2, snr_db=-math.inf)))
    assert "broken" in terminal_text(view(broken), verbose=True)
