"""What a reader must not miss in a table of variants; the wording itself is approved elsewhere."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from hasten.api import blocks, document
from hasten.core.accuracy import Accuracy, Kind
from hasten.core.floor import FloorState
from hasten.core.plan import Plan, Workload
from hasten.show.terminal import terminal_text
from tests.unit.practices.quantize.examples import ORIGINAL_TRIAL, already_quantized, odd, typical

if TYPE_CHECKING:
    from hasten.practices.quantize.facts import QuantizeFound


def shown(found: QuantizeFound, *, verbose: bool = False) -> str:
    return " ".join(terminal_text(blocks(found), verbose=verbose).split())


@pytest.mark.parametrize("make", [typical, odd, already_quantized])
def test_the_document_is_plain_data(make: object) -> None:
    assert callable(make)
    data = json.loads(json.dumps(document(make()), allow_nan=False))
    assert data["variants"][0].keys() >= {"recipe", "path", "size", "zipped_size", "accuracy", "latency", "verdict"}
    assert all(isinstance(note, str) for note in data["notes"])
    assert isinstance(data["variants"][-1]["why"], str)


def test_steps_of_a_mix_are_for_programs_only_and_common_notes_are_said_once() -> None:
    found = typical()
    assert "int8+float30" not in shown(found, verbose=True)
    assert "int8+float30" in [row["recipe"] for row in document(found)["variants"]]
    assert shown(found, verbose=True).count("The same note of all.") == 1


def test_a_variant_judged_on_other_samples_shows_its_change_and_not_a_value_to_compare() -> None:
    assert "−6.9 pp broken" in shown(typical())


def accuracy_cell(accuracy: Accuracy, drop: float) -> str:
    """What the table shows of a variant that was judged on the choosing half only."""
    trial = replace(typical().trials[2], choosing=accuracy, drop=drop)
    found = replace(typical(), trials=(ORIGINAL_TRIAL, trial), chosen="original")
    line = next(line for line in terminal_text(blocks(found)).splitlines() if line.startswith("weight_only_int4"))
    return line.split()[-2]


def test_a_change_is_not_taken_for_a_value_where_values_may_be_below_0() -> None:
    own = Accuracy("mine:likelihood", -5.66, -6, -5, 100, "data")
    assert accuracy_cell(own, 2.19) == "Δ-2.19"
    assert accuracy_cell(replace(own, higher_is_better=False), 2.19) == "Δ+2.19"
    assert accuracy_cell(replace(own, value=math.nan), math.nan) == "Δunknown"


@pytest.mark.parametrize(("metric", "name"), [("top-1", "agreement"), ("mae", "deviation")])
def test_a_figure_without_labels_is_not_called_accuracy(metric: str, name: str) -> None:
    agreed = replace(ORIGINAL_TRIAL, reporting=Accuracy(metric, 0.9, 0.8, 1.0, 9, "data", Kind.AGREEMENT))
    assert name in shown(replace(typical(), trials=(agreed,), chosen="original"))


def test_what_is_slower_or_wrong_comes_with_the_command_that_says_why() -> None:
    found = replace(typical(), plan=Plan(threads=2))
    slower, wrong = document(found)["hints"]
    assert slower.endswith("hasten compare model.tflite out/dynamic_int8.tflite --explain --threads 2")
    assert wrong.endswith("out/weight_only_int4.tflite --explain --threads 2 --data data.npz")
    both = replace(found.trials[1], floor=FloorState.BROKEN, path="out/my model.tflite")
    optional = replace(
        found, trials=(ORIGINAL_TRIAL, both), plan=Plan(options=(("cpu.cache", '"a b"'),)), chosen="original"
    )
    (hint,) = document(optional)["hints"]
    assert "'out/my model.tflite' --explain --option 'cpu.cache=\"a b\"' --data data.npz" in hint
    shaped = replace(found, workload=Workload("second", (("x", (1, 8)),)))
    assert "--signature second --shape x=1x8" in document(shaped)["hints"][0]


def test_samples_that_were_left_out_are_counted_and_the_first_are_named() -> None:
    text = shown(odd())
    assert "5 bad samples were left out: images/0.png cannot be read; images/1.png" in text
    assert "and 2 more" in text
    assert len(document(odd())["skipped"]) == 5
