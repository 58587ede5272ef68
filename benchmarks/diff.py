"""Planted faults: does `hasten diff` name the node, and is it silent where models are equal?

A fault is a wrong kernel, a clipped range, a swapped axis or a lost precision in one node of a network: those that were
thought of (tests/unit/explanation/diff/faults.py), and as many that chance picks. Equal pairs are networks run twice,
on kernels that round otherwise, with other names or other last bits. Wanted: at least 19 of 20 nodes are named as
the first and as the worst, with no other node blamed; nothing is said of any equal pair. `--random N` plants more.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tests.unit.explanation.diff.faults import FAULTS, KINDS, NETWORKS, random_fault, renamed, rounded_otherwise

from benchmarks.common import record
from hasten import api
from hasten.core.plan import Plan

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tests.unit.explanation.diff.faults import Fault

    from hasten.explanation.diff.facts import DiffFound

    Plans = tuple[Plan, Plan]

_WANTED: Final = 19 / 20
_DRAWN: Final = 40
_REFERENCES: Final = {"itself": Plan(), "built-in": Plan(kernel="builtin"), "reference": Plan(kernel="reference")}


def main() -> int:
    """Every fault, then every equal pair."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.diff", description=__doc__)
    parser.add_argument("--random", type=int, default=_DRAWN, metavar="N", help=f"default: {_DRAWN}")
    count = parser.parse_args().random
    drawn = {f"{list(KINDS)[number % len(KINDS)]}, {number}": random_fault(number) for number in range(count)}
    with tempfile.TemporaryDirectory() as name:
        chosen, random = (_faults(Path(name), faults) for faults in (FAULTS, drawn))
        equal = {label: _blamed(_diffed(Path(name), *pair)) for label, pair in _equal_pairs()}
    spoken = {label: nodes for label, nodes in equal.items() if nodes}
    figures: dict[str, Any] = {"chosen": chosen, "random": random, "equal_pairs": len(equal), "spoken_of": spoken}
    enough = all(one["named"] >= _WANTED * one["planted"] for one in (chosen, random))
    return record("diff", figures, passed=enough and not spoken, whole=count >= _DRAWN)


def _faults(folder: Path, faults: Mapping[str, Fault]) -> dict[str, Any]:
    """How many were named, and what was said of the others."""
    missed = {}
    for name, fault in faults.items():
        first, second, node = fault.models()
        found = _diffed(folder, first, second)
        blamed = _blamed(found)
        if blamed != [node] or found.ranked[0].index != node:
            missed[name] = f"{fault.network} #{node} {fault.op}: {blamed or 'nothing'}"
        print(f"  {name}: {missed.get(name, 'named')}", flush=True)
    return {"planted": len(faults), "named": len(faults) - len(missed), "missed": missed}


def _equal_pairs() -> Iterator[tuple[str, tuple[bytes, bytes, Plans]]]:
    for network, make in NETWORKS.items():
        data = make()
        for name, plan in _REFERENCES.items():
            yield f"{network} against {name}", (data, data, (plan, Plan()))
        yield f"{network} renamed", (data, renamed(data), (Plan(), Plan()))
        if not network.endswith("int8"):
            yield f"{network} rounded otherwise", (data, rounded_otherwise(data), (Plan(), Plan()))


def _diffed(folder: Path, first: bytes, second: bytes, plans: Plans = (Plan(), Plan())) -> DiffFound:
    paths = folder / "first.tflite", folder / "second.tflite"
    for path, data in zip(paths, (first, second), strict=True):
        path.write_bytes(data)
    return api.diff((paths[0], plans[0]), (paths[1], plans[1]))


def _blamed(found: DiffFound) -> list[int]:
    """The nodes at which the two part: those with a fault, or else the first whose number format differs."""
    faults = [row.index for row in found.rows if row.status.is_fault and row.index is not None]
    return faults or [index for index in (found.first,) if index is not None]


if __name__ == "__main__":
    sys.exit(main())
