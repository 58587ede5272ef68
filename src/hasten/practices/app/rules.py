"""Thresholds, costs and the finding that watched programs and recorded traces share; each has rules of its own."""

from __future__ import annotations

from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hasten.core.finding import Finding, Standing
from hasten.core.remark import Remark, remark
from hasten.practices.app.facts import NAME, OUTPUT_COPIED, Fault, WatchedFound
from hasten.practices.practice import not_examined

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hasten.practices.app.facts import AppFound
    from hasten.practices.practice import Evidence

EVERY_FRAME: Final = 0.3
"""From this many calls per run of the model on, they count as made on every frame."""
FEW_RUNS: Final = 10
COLD_RATIO: Final = 2.0
DOMINATES_SHARE: Final = 0.25
FELT_MS: Final = 1.0
"""A run on an event loop that is shorter than this disturbs nobody."""
TOGETHER_SHARE: Final = 0.2
"""Of the time of inference: runs that overlap for less are not together."""
_WORTH_SHARE: Final = 0.01
"""Of the wall time: what costs less is not named."""
_WORTH_SHARES: Final = {OUTPUT_COPIED: 0.02}
"""A fix that needs more care has to save more."""
_WORTH_MS: Final = 1.0

FOREIGN_PATHS: Final = ("site-packages", "dist-packages", "<frozen", "<string>", "/lib/python3")
"""Parts of paths of code that is Python's or a package's, not the application's own."""

Place = tuple[str, str, int]
"""File, function, line."""


def fault_at(rule: str, place: Place, cost_ms: float, wall_ms: float, evidence: Remark) -> Fault:
    """A fault at a place of the program, and the share of the time that it costs."""
    file, function, line = place
    return Fault(rule, file, line, function, cost_ms, cost_ms / max(wall_ms, 1e-9), evidence)


def worth_naming(faults: Iterable[Fault]) -> list[Fault]:
    """The faults that cost enough to be named, the most expensive first."""
    worth = [
        fault
        for fault in faults
        if fault.share >= _WORTH_SHARES.get(fault.rule, _WORTH_SHARE) and fault.cost_ms >= _WORTH_MS
    ]
    return sorted(worth, key=lambda fault: -fault.cost_ms)


def slowest_function(lines_ms: dict[tuple[str, str, int], float]) -> tuple[Place, float]:
    """Of times by file, function and line: the function that takes most, at its slowest line, and its time."""
    functions: dict[tuple[str, str], dict[int, float]] = {}
    for (file, function, line), ms in lines_ms.items():
        lines = functions.setdefault((file, function), {})
        lines[line] = lines.get(line, 0.0) + ms
    (file, function), lines = max(functions.items(), key=lambda entry: sum(entry[1].values()))
    return (file, function, max(lines, key=lambda line: lines[line])), sum(lines.values())


def stretches(starts: Any, ends: Any) -> tuple[Any, Any]:
    """Of intervals that may overlap: how many of them there are in each stretch of time, and how long that is."""
    times = np.concatenate([starts, ends])
    steps = np.concatenate([np.ones(len(starts), int), -np.ones(len(ends), int)])
    order = np.lexsort((steps, times))
    return np.cumsum(steps[order])[:-1], np.diff(times[order])


def finding_of(found: AppFound) -> Finding:
    """What the practice came to."""
    facts: dict[str, Any]
    watched = isinstance(found, WatchedFound)
    if found.thread is None:
        return Finding(NAME, Standing.NOT_EXAMINED, remark("app.not-seen" if watched else "app.no-inference"))
    if isinstance(found, WatchedFound) and not found.models and found.native is not None:
        names = [PurePath(path).name for path in found.native.libraries]
        facts = {"libraries": names, "threads": found.native.threads, "cpu_ms": found.native.cpu_ms}
        return Finding(NAME, Standing.NOT_EXAMINED, remark("app.native-litert", **facts))
    if not found.models if isinstance(found, WatchedFound) else not found.split.inference_ms:
        return Finding(NAME, Standing.NOT_EXAMINED, remark("app.no-litert" if watched else "app.no-inference"))
    total_ms = found.split.total_ms
    facts = {"inference": found.split.inference_ms / max(total_ms, 1e-9), "ms": total_ms}
    if not found.findings:
        return Finding(NAME, Standing.GOOD, remark("app.no-fault", **facts))
    first = found.findings[0]
    facts |= {"faults": len(found.findings), "cost_ms": sum(fault.cost_ms for fault in found.findings)}
    facts |= {"rule": first.rule, "file": first.file, "line": first.line, "function": first.function}
    facts["first"] = {"code": first.evidence.code, "facts": dict(first.evidence.facts)}
    return Finding(NAME, Standing.TO_DO, remark("app.faults", **facts))


def verdict(known: Evidence) -> Finding:
    """How a tuned model stands with this practice: a tuning alone says nothing about it."""
    return not_examined(NAME)
