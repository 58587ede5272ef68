"""Gates to show: a usual one, and one with everything that can be odd."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hasten.core import doubts
from hasten.core.measurement import Model
from hasten.core.plan import Plan
from hasten.core.remark import remark, said
from hasten.gate.facts import CheckFound, GateVerdict, Limits, Row

PASSED, FAILED, UNDECIDED = GateVerdict.PASSED, GateVerdict.FAILED, GateVerdict.UNDECIDED
SIZE = Row("size", "bytes", 1_434_432, None, 2e6, PASSED, remark("gate.exact"))
LATENCY = Row("latency", "ms", 2.24, (2.236, 2.317), 5.0, PASSED, remark("gate.kept"), confidence=0.99)
INIT = Row("init", "ms", 300.0, (280.0, 310.0), 200.0, FAILED, remark("gate.broken", above=0.5), confidence=0.99)
MEMORY = Row("memory", "MB", 101.0, (99.0, 101.0), 100.0, UNDECIDED, remark("gate.memory-mixed", above=1, processes=4))
ACCURACY = Row(
    "accuracy",
    "share",
    0.9917,
    (0.98, 0.996),
    0.95,
    PASSED,
    remark("gate.accuracy", metric="top-1", samples=600),
    at_least=True,
    confidence=0.95,
)
ERROR = Row(
    "accuracy",
    "value",
    3.2,
    (3.1, 3.3),
    4.0,
    PASSED,
    remark("gate.accuracy", metric="mae", samples=600),
    confidence=0.95,
)
SLOWDOWN = Row(
    "latency",
    "ratio",
    1.013,
    (0.99, 1.04),
    1.02,
    UNDECIDED,
    remark("gate.undecided"),
    confidence=0.99,
    against="old.tflite",
)
LOST = Row(
    "accuracy lost",
    "share",
    0.03,
    (0.01, 0.05),
    0.01,
    FAILED,
    remark(
        "gate.drop-worse",
        lost=20,
        won=2,
        samples=600,
        baseline="old.tflite",
        floor={"max_drop": 0.01, "metric": "top-1", "original": 0.99, "allowed": 0.01},
    ),
    confidence=0.95,
    against="old.tflite",
)
UNKNOWN = Row("p95", "ms", None, None, 8.0, UNDECIDED, remark("gate.not-measured"))
BUSY = remark(doubts.OTHER_LOAD, cores=1.3)


def found(*rows: Row, name: str = "digits.tflite", **changes: Any) -> CheckFound:
    """A gate with these limits."""
    return CheckFound(Model(f"folder/{name}", 1_434_432, "ab" * 32), Plan(threads=2), rows, **changes)


def usual() -> CheckFound:
    """All limits kept."""
    return found(SIZE, LATENCY, ACCURACY, limits=Limits(latency_ms=5.0, size_bytes=2e6, accuracy=0.95), seconds=4.2)


def unsure() -> CheckFound:
    """A slow model near its limit, and few samples."""
    slow = replace(LATENCY, measured=12_050.0, interval=(11_900.0, 12_100.0), limit=12_000.0, confidence=None)
    near = remark("gate.few-processes", processes=1, needed=4)
    few = remark("gate.accuracy-undecided", metric="top-1", samples=1, needed=4)
    one = replace(ACCURACY, measured=1.0, interval=(0.21, 1.0), limit=0.5, verdict=UNDECIDED, why=few)
    notes = (remark("gate.same-model"),)
    return found(
        replace(slow, verdict=UNDECIDED, why=near), one, seconds=48.2, bound_seconds=60.0, strict=True, notes=notes
    )


def slow() -> CheckFound:
    """Clear after one process, after two, and the other way round."""
    above = Row("latency", "ms", 3012.0, (2990.0, 3040.0), 5.0, FAILED, remark("gate.kept"))
    below = Row("p95", "ms", 3012.0, (2990.0, 3040.0), 10_000.0, PASSED, remark("gate.kept"))
    return found(
        replace(above, why=remark("gate.clearly-above", above=601.4, processes=1, factor=2.0)),
        replace(below, why=remark("gate.clearly-below", processes=2, factor=1.5)),
        seconds=24.1,
        bound_seconds=60.0,
        strict=True,
    )


def odd() -> CheckFound:
    """Limits of every kind, kept, broken and undecided, with a doubt and a note."""
    busy = replace(LATENCY, limit=2.0, verdict=UNDECIDED, why=remark("gate.contended", cores=1.3))
    rows = (SIZE, busy, INIT, MEMORY, ACCURACY, ERROR, SLOWDOWN, LOST, UNKNOWN)
    return found(
        *rows,
        doubts=(BUSY,),
        notes=(said("1 bad sample was left out."),),
        seconds=20.0,
        bound_seconds=60.0,
        strict=True,
    )
