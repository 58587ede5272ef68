"""Text for people: it fits the terminal, says everything, and shows hostile names as they are."""

from __future__ import annotations

import math
from array import array

import pytest
from examples import ALL_DOUBTS, HOSTILE, comparison, measurement, operator, profile, samples

from hasten.core.block import Block
from hasten.core.doubts import DOUBTS
from hasten.core.plan import Plan
from hasten.core.profile import PartitionTime
from hasten.core.samples import Samples
from hasten.core.sustained import Minute, Sustained
from hasten.report.profile_text import profile_text
from hasten.report.text import comparison_text, measurement_text, sustained_text

LONG_PLAN = Plan(
    "npu", 16, "builtin", "fp16", options=tuple((f"vendor.option_{i}", "a rather long value") for i in range(6))
)


def assert_fits(text: str, width: int = 80) -> None:
    for line in text.split("\n"):
        assert len(line) <= width, line
        assert line.isprintable(), line


class TestMeasurement:
    @pytest.mark.parametrize("latency_ms", [0.000001, 0.0003, 0.05, 1.0, 99.99, 9999.0, 123456.0, 1e8])
    def test_any_latency_fits(self, latency_ms: float) -> None:
        assert_fits(measurement_text(measurement(latency_ms)))

    def test_says_what_belongs_to_a_latency(self) -> None:
        text = measurement_text(measurement(1.5, found=samples(1.5, joules=0.4, cpu_seconds=0.06)))
        for part in (
            "1.50 ms",
            "95 % interval",
            "p95",
            "init",
            "first run",
            "21.5 MB",
            "20 mJ",
            "400",
            "4 fresh processes",
        ):
            assert part in text
        assert "2.0 cores busy" in text

    def test_without_doubts_none_are_shown(self) -> None:
        assert "!" not in measurement_text(measurement())

    def test_each_doubt_comes_with_its_hint(self) -> None:
        text = measurement_text(measurement(doubts=ALL_DOUBTS))
        assert_fits(text)
        joined = " ".join(text.split())
        for doubt in ALL_DOUBTS:
            assert f"! {doubt.code}:" in joined
            assert DOUBTS.hint(doubt) in joined

    @pytest.mark.parametrize("name", [name for name in HOSTILE if name])
    def test_hostile_names_fit_and_are_shown(self, name: str) -> None:
        text = measurement_text(measurement(name=name.replace("/", "_").replace("\x00", "")))
        assert_fits(text)
        if "bold" in name:
            assert "[bold]not markup[_bold] :smile:" in text

    def test_long_plan_fits(self) -> None:
        assert_fits(measurement_text(measurement(plan=LONG_PLAN)))

    def test_single_block_has_an_unknown_interval(self) -> None:
        text = measurement_text(measurement(found=Samples((Block(0, 0.0, array("q", [1_000_000])),))))
        assert "95 % interval unknown" in text
        assert "1 fresh process" in text
        assert "1 fresh processes" not in text

    def test_clock_that_never_moved_gives_no_error(self) -> None:
        text = measurement_text(measurement(found=Samples((Block(0, 0.0, array("q", [0, 0])),))))
        assert_fits(text)

    def test_fallback_is_told_beside_the_plan(self) -> None:
        text = measurement_text(measurement(plan=Plan("npu"), accelerator="npu+cpu", api="Interpreter"))
        assert "in effect: npu+cpu, classic interpreter" in " ".join(text.split())


class TestComparison:
    @pytest.mark.parametrize(
        ("log_ratios", "sentence"),
        [
            ([-0.5] * 5, "B is faster than A"),
            ([0.5] * 5, "B is slower than A"),
            ([0.0] * 5, "B is as fast as A"),
            ([0.3, -0.3, 0.2, -0.2, 0.1], "the noise is larger than the difference"),
            ([0.5] * 2, "too few processes for a verdict (2 of 3 pairs). So far B takes 65% more time."),
            ([-0.5] * 2, "So far B takes 39% less time."),
            ([0.5, 0.1, 0.5], "the noise is larger than the difference"),
            ([0.05] * 4, "too few processes for a verdict (4 of 5 pairs)"),
            ([0.5], "too few processes for a verdict (1 of 3 pairs). More time"),
        ],
    )
    def test_verdict_is_the_first_sentence(self, log_ratios: list[float], sentence: str) -> None:
        text = comparison_text(comparison(log_ratios))
        assert_fits(text)
        assert sentence in text.split("\n\n")[0].replace("\n  ", " ")

    def test_one_round_shows_no_infinities(self) -> None:
        text = comparison_text(comparison([0.1]))
        assert_fits(text)
        assert "inf" not in text.lower()
        assert "unknown" in text
        assert "1 process pair," in text

    def test_two_pairs_that_differ_give_no_figure_of_sharpness(self) -> None:
        text = comparison_text(comparison([0.1, 0.9]))
        assert_fits(text)
        assert "too few pairs to tell (2 process pairs" in text
        assert "too few pairs to tell (2 process pairs" in comparison_text(comparison([3.35, 3.36]))
        assert "differences from 1.0% would be found" in comparison_text(comparison([0.1] * 5))

    def test_percentages_are_those_of_the_ratio(self) -> None:
        assert "39% less time" in comparison_text(comparison([-0.5] * 5))
        assert "65% more time" in comparison_text(comparison([0.5] * 5))

    @pytest.mark.parametrize("name", [name for name in HOSTILE if name])
    def test_hostile_names_fit(self, name: str) -> None:
        changes = {"name": name.replace("/", "_").replace("\x00", ""), "plan": LONG_PLAN, "doubts": ALL_DOUBTS}
        assert_fits(comparison_text(comparison([0.0] * 5, **changes)))


def course(onset: int | None, slice_seconds: float = 60.0, cut_short: str = "", estimate: float = 1.0) -> Sustained:
    minutes = tuple(Minute(i, estimate, (-math.inf, math.inf), estimate, 100, 40.0 + i, None) for i in range(1, 31))
    return Sustained(slice_seconds, minutes, onset, 0.2 if onset else 0.0, cut_short)


class TestSustained:
    def test_throttling_is_told_with_its_minute(self) -> None:
        text = sustained_text("folder/m.tflite", Plan(), course(4))
        assert_fits(text)
        assert "Slower for good from minute 4 on; 20% at the end: throttling." in text

    def test_short_run_tells_seconds(self) -> None:
        assert "Slower for good from second 36 on" in sustained_text("m.tflite", Plan(), course(4, 12.0))

    def test_no_throttling(self) -> None:
        assert "No lasting slowdown" in sustained_text("m.tflite", Plan(), course(None))

    def test_early_end_is_told(self) -> None:
        text = sustained_text("m.tflite", Plan(), course(None, cut_short="the runner died " * 10))
        assert_fits(text)
        assert "It ended before its time: the runner died" in text

    @pytest.mark.parametrize("estimate", [0.0, 0.0003, 123456.0])
    def test_any_latency_fits(self, estimate: float) -> None:
        assert_fits(sustained_text("x" * 200, LONG_PLAN, course(None, estimate=estimate)))


MANY = [operator(i, ms=0.01 * i, location=f"a/long/path/of/layers/{i}" * 3) for i in range(60)]


class TestProfile:
    @pytest.mark.parametrize("width", [80, 100, 120, 160])
    def test_fits_its_width(self, width: int) -> None:
        assert_fits(profile_text(profile(MANY), 20, width), width)

    @pytest.mark.parametrize("width", [80, 100, 120, 160])
    def test_long_names_leave_the_numbers_whole(self, width: int) -> None:
        found = profile([operator(0, location="a/long/path/" * 30, kernels=("Convolution (NHWC, F32) IGEMM",) * 4)])
        text = profile_text(found, 5, width)
        for part in ("0.500", "25%", "18.4", "compute", "0.100", "to win"):
            assert part in text

    def test_narrow_shows_operators_and_wide_their_kernels_too(self) -> None:
        found = profile(MANY)
        narrow, wide = profile_text(found, 5, 80), profile_text(found, 5, 160)
        assert "Convolution (NHWC, F32) IGEMM" not in narrow
        assert "Convolution (NHWC, F32) IGEMM" in wide
        assert "and 55 more" in narrow
        assert "--top 60" in narrow

    def test_most_expensive_come_first(self) -> None:
        text = profile_text(profile(MANY), 3, 80)
        assert text.index("\n  59 ") < text.index("\n  58 ") < text.index("\n  57 ")

    @pytest.mark.parametrize("ms", [0.0, 0.0003, 99.9996, 1234.5, 123456.0])
    def test_extreme_numbers_stay_in_one_line(self, ms: float) -> None:
        text = profile_text(profile([operator(0, ms=ms, headroom_ms=ms, gflops=12345.6, macs=10**12)]), 5, 80)
        assert_fits(text)
        rows = [line for line in text.split("\n") if "CONV_2D" in line]
        assert len(rows) == 3 - 1
        assert "12346" in rows[0]
        assert "e+" not in text

    def test_unknown_values_are_dashes(self) -> None:
        unknown = operator(0, macs=None, flops=None, gflops=None, bound=None, headroom_ms=None)
        text = profile_text(profile([unknown]), 5, 80)
        assert " - " in text
        assert "None" not in text
        assert "unknown" in text

    @pytest.mark.parametrize("name", HOSTILE)
    @pytest.mark.parametrize("width", [80, 160])
    def test_hostile_names_fit_and_are_not_markup(self, name: str, width: int) -> None:
        found = profile(
            [operator(0, op=name, location=name, kernels=(name,))],
            name=name.replace("/", "_").replace("\x00", "") or "m",
            partitions=(PartitionTime(0, True, (0,), (name,), 1.0), PartitionTime(1, False, (1,), (name,), 1.0)),
        )
        text = profile_text(found, 5, width)
        assert_fits(text, width)
        if "bold" in name:
            assert "[bold]" in text
            assert ":smile:" in text

    def test_marks_are_explained(self) -> None:
        words = ["exact", "ambiguous", "guess", "engine", "partition"]
        operators = [
            operator(i, mapped=word, fused=("9 MUL",) if word == "exact" else ()) for i, word in enumerate(words)
        ]
        text = profile_text(profile(operators), 9, 80)
        assert_fits(text)
        for meaning in (
            "runs on the engine's own kernel",
            "as well",
            "no rule explains",
            "does not say",
            "one more operator",
        ):
            assert meaning in text

    def test_nothing_delegated_is_said(self) -> None:
        found = profile(MANY[:2], partitions=(PartitionTime(0, False, (0, 1), ("CONV_2D", "CONV_2D"), 1.0),))
        assert "No operator was delegated" in profile_text(found, 5, 80)

    def test_doubts_are_shown(self) -> None:
        text = profile_text(profile(MANY, doubts=ALL_DOUBTS), 5, 80)
        assert_fits(text)
        assert "! partial:" in text

    def test_without_peaks_nothing_is_said_of_them(self) -> None:
        text = profile_text(profile(MANY, peaks=None), 5, 80)
        assert "peak" not in text

    def test_run_without_time_gives_no_error(self) -> None:
        assert_fits(profile_text(profile([operator(0, ms=0.0)], invoke_ms=0.0, latency_ms=0.0, plain_ms=0.0), 5, 80))
