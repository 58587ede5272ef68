"""A profile as CSV: a row for each operator, for spreadsheets and scripts."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from hasten.core.profile import Profile

_COLUMNS: Final = (
    "index",
    "op",
    "kernel",
    "location",
    "shapes",
    "ms",
    "share",
    "macs",
    "flops",
    "bytes",
    "gflops",
    "bound",
    "headroom_ms",
    "mapped",
    "partition",
    "fused",
)


def profile_csv(profile: Profile) -> str:
    """All operators in execution order. An unknown value is an empty field."""
    stream = io.StringIO()
    writer = csv.DictWriter(stream, _COLUMNS, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    for operator in profile.as_data()["ops"]:
        writer.writerow({**operator, "fused": "; ".join(operator["fused"])})
    return stream.getvalue()
