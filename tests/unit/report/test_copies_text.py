"""A study of copies on a terminal."""

from __future__ import annotations

from hasten.core import doubts
from hasten.core.measurement import Model
from hasten.core.plan import Plan
from hasten.core.remark import said
from hasten.core.statistics import Interval
from hasten.practices.copies.facts import CopyStudy, choose, finding_of, measured_row, refused_row
from hasten.report.copies_text import copies_text
from hasten.runner.copy_ways import BY_KEY


def _study() -> CopyStudy:
    rows = [
        *(measured_row(BY_KEY["copying"], way, Interval(23.3, 22.8, 23.4), 24.5) for way in ("in", "out", "both")),
        *(measured_row(BY_KEY["views"], way, Interval(0.66, 0.6, 0.7), 24.5) for way in ("in", "out", "both")),
        measured_row(BY_KEY["signature"], "both", Interval(-1.5, -40.0, 1470.0), 24.5),
        measured_row(BY_KEY["list"], "in", Interval(4300.0, float("-inf"), float("inf")), 24.5),
        refused_row(BY_KEY["host"], "the gpu keeps tensors in memory of its own, and must copy them"),
        refused_row(BY_KEY["unaligned"], "the gpu keeps tensors in memory of its own, and must copy them"),
    ]
    recommended = choose(rows, 24.5)
    return CopyStudy(
        Model("/models/large.tflite", 1000, "0" * 64),
        Plan(),
        1 << 20,
        1 << 20,
        24.5,
        (24.4, 24.6),
        tuple(rows),
        recommended,
        finding_of(rows, recommended, 24.5),
        "print('hello')\n",
        "python",
        3,
        (said("the interval is wide", doubts.NOISY),),
    )


def test_it_fits_a_terminal_and_says_all() -> None:
    text = copies_text(_study())
    assert max(map(len, text.splitlines())) <= 80
    assert "Recommended: tensor() views" in text
    assert "  set_tensor                in     23.3 µs  22.80 - 23.40 µs                 95%" in text
    assert "set_tensor + get_tensor" not in text, "both directions are the sum of two lines"
    assert "-1.50 µs  -40.0 µs to 1.47 ms" in text
    assert "4.30 ms  unknown                    176 times" in text
    assert text.count("the gpu keeps") == 1
    assert "! noisy" in text
    assert text.endswith("print('hello')")


def test_the_code_can_be_left_out() -> None:
    assert "hello" not in copies_text(_study(), code=False)
