"""Text for people: it fits the terminal, says everything, and shows hostile names as they are."""

from __future__ import annotations

import pytest
from examples import ALL_DOUBTS, HOSTILE, operator, profile

from hasten.core.profile import PartitionTime
from hasten.report.profile_text import profile_text


def assert_fits(text: str, width: int = 80) -> None:
    for line in text.split("\n"):
        assert len(line) <= width, line
        assert line.isprintable(), line


MANY = [operator(i, ms=0.01 * i, location=f"a/long/path/of/layers/{i}" * 3) for i in range(60)]


class TestProfile:
    @pytest.mark.parametrize("width", [80, 100, 120, 160])
    def test_fits_its_width(self, width: int) -> None:
        assert_fits(profile_text(profile(MANY), 20, width), width)

    @pytest.mark.parametrize("width", [80, 100, 120, 160])
    def test_long_names_leave_the_numbers_whole(self, width: int) -> None:
        found = profile([operator(0, location="a/long/path/" * 30, kernels=("Convolution (NHWC, F32) IGEMM",) * 4)])
        text = profile_text(found, 5, width)
        for part in ("0.500", "25 %", "18.4", "compute", "0.100", "to win"):
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
        assert text.count("! ") == len(ALL_DOUBTS)

    def test_without_peaks_nothing_is_said_of_them(self) -> None:
        text = profile_text(profile(MANY, peaks=None), 5, 80)
        assert "peak" not in text

    def test_run_without_time_gives_no_error(self) -> None:
        assert_fits(profile_text(profile([operator(0, ms=0.0)], invoke_ms=0.0, latency_ms=0.0, plain_ms=0.0), 5, 80))
