"""The examination of accelerators on a terminal of 80 columns, whatever the names and numbers are."""

from __future__ import annotations

import dataclasses
import math

import pytest
from examples import HOSTILE

from hasten.core.comparison import compare_rounds
from hasten.core.plan import Plan
from hasten.core.statistics import Interval
from hasten.practices.accelerators.break_even import LadderPoint, Pays
from hasten.practices.accelerators.facts import (
    FAILED,
    IMPRECISE,
    MISSING,
    NO_NUMBERS,
    RUNS,
    WRONG,
    AcceleratorRow,
    OutputError,
)
from hasten.report.accelerators_text import accelerators_text

AGAINST = compare_rounds([-0.7] * 6)
ROW = AcceleratorRow(
    "gpu",
    Plan(accelerator="gpu"),
    RUNS,
    "takes 2.00 times as long as XNNPACK",
    60,
    66,
    2,
    error=OutputError(0.012, 0.001, "right"),
    latency=Interval(1.25, 1.2, 1.3),
    init_ms=500.0,
    first_run_ms=40.0,
    peak_memory_mb=92.0,
    against_cpu=AGAINST,
)


def text_of(*rows: AcceleratorRow, model: str = "folder/model.tflite", why: str = "stay with XNNPACK.") -> str:
    return accelerators_text(model, rows, why)


def line_of(text: str, name: str) -> str:
    return next(line for line in text.splitlines() if line.startswith(name))


def test_the_recommendation_comes_first_then_the_table_then_the_sentences() -> None:
    lines = text_of(ROW).splitlines()
    assert lines[0] == "model.tflite: stay with XNNPACK."
    assert lines[2].split() == ["accelerator", "status", "placed", "error", "latency", "interval", "start", "memory"]
    assert lines[3].split() == ["gpu", "runs", "60/66", "1.2%", "1.25", "ms", "±4.0%", "540", "ms", "92.0", "MB"]
    assert lines[-2] == "gpu: takes 2.00 times as long as XNNPACK"
    assert lines[-1] == "error: against the reference kernels, on seeded noise"


def test_what_is_unknown_is_a_dash() -> None:
    bare = AcceleratorRow("npu", Plan(accelerator="npu"), MISSING, "")
    shown = text_of(bare)
    assert line_of(shown, "npu").split() == ["npu", "missing", "-", "-", "-", "-", "-", "-"]
    assert not shown.rstrip().endswith(":")
    one_process = dataclasses.replace(ROW, latency=Interval(1.0, -math.inf, math.inf))
    assert "±" not in line_of(text_of(one_process), "gpu")


def test_no_numbers_and_astronomic_ones() -> None:
    assert " NaN " in line_of(text_of(dataclasses.replace(ROW, error=NO_NUMBERS, status=WRONG)), "gpu")
    far = dataclasses.replace(ROW, error=OutputError(5e12, 1e12, WRONG), status=WRONG)
    assert " >999% " in line_of(text_of(far), "gpu")


def test_the_size_from_which_on_it_pays_is_told() -> None:
    point = LadderPoint(4_000_000, Interval(1, 1, 1), Interval(0.5, 0.5, 0.5), AGAINST)
    shown = " ".join(text_of(dataclasses.replace(ROW, pays=Pays((point,)))).split())
    assert "as XNNPACK; pays at every size tried, from 4.00 M MACs on error:" in shown


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_stay_in_their_place(name: str) -> None:
    why = f"left to the CPU: {name} x3; takes {name}"
    rows = [dataclasses.replace(ROW, name=name, why=why, status=status) for status in (RUNS, FAILED, IMPRECISE)]
    shown = text_of(*rows, model=f"folder/{name}", why=f"use {name}: it is quick.")
    assert max(map(len, shown.splitlines())) <= 80
    assert all(letter.isprintable() or letter == "\n" for letter in shown)
    assert "\n\n\n" not in shown


@pytest.mark.parametrize("scale", [1e-9, 1e-3, 1.0, 999.6, 1e4, 1e9])
def test_numbers_of_any_size_fit(scale: float) -> None:
    row = dataclasses.replace(
        ROW,
        name="a_delegate_with_a_long_name.so",
        placed_ops=1234,
        total_ops=1234,
        init_ms=scale,
        first_run_ms=scale,
        latency=Interval(scale, scale * 0.1, scale * 5),
        peak_memory_mb=scale,
        error=OutputError(scale, scale, WRONG),
    )
    shown = text_of(row)
    assert max(map(len, shown.splitlines())) <= 80
    assert "1234/1234" in shown
    if 1e-3 <= scale <= 1e4:
        assert shown.count("…") == 1, "only the name is cut"
