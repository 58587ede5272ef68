"""What a race says of a variant's row: its latency, its verdict, and the doubt where others had the cores."""

from __future__ import annotations

import pytest

from hasten.practices.quantize_race import _doubt


@pytest.mark.parametrize(("ratio", "alone"), [(0.5, 0.5), (0.55, 0.5), (1.0, 1.1)])
def test_a_quiet_machine_leaves_no_doubt(ratio: float, alone: float) -> None:
    assert _doubt(ratio, alone) == []


@pytest.mark.parametrize(("ratio", "alone"), [(0.24, 0.53), (3.0, 1.0)])
def test_a_ratio_that_the_latencies_do_not_bear_out_is_doubted(ratio: float, alone: float) -> None:
    (note,) = _doubt(ratio, alone)
    assert note.startswith("the machine was busy")
    assert f"{alone:.2f} of the original's time, all runs {ratio:.2f}" in note
