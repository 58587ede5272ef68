"""The examination of accelerators on a terminal of 80 columns, whatever the names and numbers are."""

from __future__ import annotations

import dataclasses
import json

import pytest

from hasten.core.codec import from_data
from hasten.core.remark import remark, said
from hasten.practices.accelerators.facts import AcceleratorRow, AcceleratorsFound, Latency, Status
from hasten.practices.accelerators.view import document, session_lines, view
from hasten.practices.accelerators.words import BOOK
from hasten.show.terminal import terminal_text
from tests.unit.practices.accelerators import examples
from tests.unit.show.hostile import HOSTILE

EXAMPLES = [examples.typical(), examples.more_threads(), examples.stay(), examples.nothing()]
ROW = next(row for row in examples.typical().rows if row.name == "gpu")


def text_of(*rows: AcceleratorRow, model: str = "folder/model.tflite", verbose: bool = False) -> str:
    return terminal_text(view(AcceleratorsFound(model, rows)), verbose=verbose)


def line_of(text: str, name: str) -> str:
    return next(line for line in text.splitlines() if line.startswith(name))


@pytest.mark.parametrize("found", EXAMPLES)
def test_it_fits_and_survives_a_session(found: AcceleratorsFound) -> None:
    assert max(map(len, terminal_text(view(found)).splitlines())) <= 80
    kind, label, data = session_lines(found)[0]
    assert (kind, label) == ("accelerators", found.model)
    again = from_data(AcceleratorsFound, json.loads(json.dumps(data, allow_nan=False)))
    assert document(again) == document(found)


def test_what_is_unknown_is_empty() -> None:
    bare = AcceleratorRow("npu", Status.MISSING)
    assert line_of(text_of(bare), "npu").split() == ["npu", "missing"]


def test_no_numbers_and_astronomic_ones() -> None:
    nan = dataclasses.replace(ROW, max_error=None, status=Status.WRONG)
    assert " NaN " in line_of(text_of(nan), "gpu")
    assert " >999 % " in line_of(text_of(dataclasses.replace(ROW, max_error=5e12, status=Status.WRONG)), "gpu")


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_stay_in_their_place(name: str) -> None:
    why = said(f"Left to the CPU: {name} x3.")
    statuses = (Status.RUNS, Status.FAILED, Status.IMPRECISE)
    rows = [dataclasses.replace(ROW, name=name, why=why, status=status) for status in statuses]
    shown = text_of(*rows, model=f"folder/{name}")
    assert all(letter.isprintable() or letter == "\n" for letter in shown)
    assert "\n\n\n" not in shown


@pytest.mark.parametrize("scale", [1e-9, 1e-3, 1.0, 999.6, 1e4, 1e9])
def test_numbers_of_any_size_fit(scale: float) -> None:
    row = dataclasses.replace(
        ROW,
        placed_ops=1234,
        total_ops=1234,
        init_ms=scale,
        first_run_ms=scale,
        latency=Latency(scale, (scale * 0.1, scale * 5)),
        peak_memory_mb=scale,
        max_error=scale,
    )
    shown = text_of(row)
    assert max(map(len, shown.splitlines())) <= 80
    assert "1234/1234" in shown


@pytest.mark.parametrize(("ratio", "words"), [(1.18, "1.18× slower"), (0.58, "1.72× faster")])
def test_an_undecided_speed_is_written_like_a_decided_one(ratio: float, words: str) -> None:
    facts = {"ratio": {"ratio": ratio, "ci95": [0.5, 2.0]}, "verdict": "undecided", "break_even_runs": None}
    told = BOOK.text(remark("accelerators.speed", **facts))
    assert told == f"Undecided, so far {words} than XNNPACK. Measure longer (--seconds)."
