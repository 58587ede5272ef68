"""What a sample stands for where the recording does not say: the time between two samples of a busy thread."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from hasten.traces.builder import TraceBuilder

_USUAL_NS: Final = 1_000_000
"""A thousand samples a second, where there are too few to tell."""


def weigh_samples(builder: TraceBuilder) -> None:
    """Give samples without a weight the usual distance of two of them on one thread, which is the sampling period."""
    gaps: list[int] = []
    for rows in builder.rows.values():
        gaps.extend(np.diff(np.sort(np.array(rows.sample_ns, np.int64))).tolist())
    between = [gap for gap in gaps if gap > 0]
    period_ns = int(np.median(between)) if between else _USUAL_NS
    for rows in builder.rows.values():
        rows.sample_weight = array("q", (weight or period_ns for weight in rows.sample_weight))
