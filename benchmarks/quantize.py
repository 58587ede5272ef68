"""Quantizing: `quantize` on the embedded model and on real ones, with at most 1 % to lose.

Wanted: the choice keeps the floor on the half of the data that is reported on, in every case. The table of each case is
recorded: size, latency against the original, accuracy on the reporting half (of broken ones on the choosing half).
Seven models are seven cases; simulations in the tests have the rates.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.cases import CASES, Case, data_of
from benchmarks.common import record
from hasten.api import SearchSettings, document, quantize
from hasten.core.trial import ORIGINAL, Trial
from hasten.practices.quantize.words import BOOK

_MAX_DROP = 0.01


def main() -> int:
    """All cases, or those that are asked for by name."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", choices=[[], *CASES], metavar="CASE", help="default: all")
    asked = parser.parse_args().cases
    figures = {name: _figures(CASES[name]) for name in asked or CASES}
    return record("quantize", figures, passed=all(found["floor_kept"] for found in figures.values()), whole=not asked)


def _figures(case: Case) -> dict[str, Any]:
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        settings = SearchSettings(max_drop=_MAX_DROP)
        found = quantize(case.model, Path(folder) / "out", data=data_of(case, Path(folder) / "data"), settings=settings)
    original, chosen, told = found.original, found.best, document(found)
    lost = None if chosen.change is None else chosen.change.drop
    figures: dict[str, Any] = {
        "chosen": chosen.variant,
        "ratio": None if chosen.against is None else round(chosen.against.ratio, 3),
        "size_ratio": round(chosen.size_bytes / original.size_bytes, 3),
        "integer_weights": chosen.integer_share,
        "drop_on_the_reporting_half": lost,
        "floor_kept": chosen.variant == ORIGINAL or (lost is not None and lost <= _MAX_DROP + 1e-9),
        "seconds": round(time.monotonic() - begin),
        "why": told["why"],
        "notes": told["notes"],
        "rows": [_row(trial) for trial in found.trials],
    }
    print(f"{case.name}: {figures['why']} ({figures['seconds']} s)", flush=True)
    for row in figures["rows"]:
        print(f"  {row}", flush=True)
    return figures


def _row(row: Trial) -> dict[str, Any]:
    known = row.accuracy
    return {
        "recipe": row.variant,
        "size": row.size_bytes,
        "zipped": row.zipped_bytes,
        "floor": row.floor.value,
        "latency_ms": None if row.latency is None else round(row.latency.estimate, 4),
        "against": None if row.against is None else [row.against.verdict.value, round(row.against.ratio, 3)],
        "accuracy": None if known is None else [known.metric, round(known.value, 4), known.samples],
        "on": row.accuracy_on,
        "why": BOOK.text(row.why),
        "integer_weights": None if row.integer_share is None else round(row.integer_share, 3),
        "float_nodes": len(row.float_nodes),
    }


if __name__ == "__main__":
    sys.exit(main())
