"""The records of a tuning: trials of variants with plans, the steps from the original to the result, the result."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Final

from hasten.core import pareto
from hasten.core.accuracy import Accuracy, accuracy_from_data
from hasten.core.comparison import Comparison, Verdict, comparison_from_data
from hasten.core.json_numbers import finite, latency_data, latency_from_data
from hasten.core.plan import Plan, plan_from_mapping

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hasten.core.finding import Finding
    from hasten.core.statistics import Interval

ORIGINAL: Final = "original"
# What became of a trial.
TIMED, DROPPED, FAILED, BROKEN, KEPT, CHOSEN = "timed", "dropped", "failed", "broken", "kept", "chosen"
UNKNOWN: Final = "unknown"
# Where it was when that was found.
RACE, ACCURACY, FINAL = "race", "accuracy", "final"
CHOOSING, REPORTING = "choosing", "reporting"
_NOT_OF_A_RATIO: Final = ("noisy", "processes-differ", "outliers")


@dataclass(frozen=True, slots=True)
class TuneTrial:
    """One variant with one plan, as far as it is known. `floor` is empty until its accuracy was tested."""

    variant: str
    plan: Plan
    status: str = TIMED
    stage: str = RACE
    floor: str = ""
    latency: Interval | None = None
    against: Comparison | None = None
    accuracy: Accuracy | None = None
    accuracy_on: str = ""
    drop: float | None = None
    size_bytes: int = 0
    zipped_bytes: int = 0
    peak_memory_mb: float | None = None
    init_ms: float | None = None
    why: str = ""
    doubts: tuple[Mapping[str, Any], ...] = ()
    elapsed_s: float = 0.0
    levels: Mapping[int, float] = field(default_factory=dict)
    """Round → natural logarithm of its milliseconds there."""

    @property
    def id(self) -> str:
        """How it is called everywhere."""
        return trial_id(self.variant, self.plan)

    @property
    def median_ms(self) -> float:
        """Its latency; infinite where it has none."""
        return math.inf if self.latency is None else self.latency.estimate

    def as_data(self) -> dict[str, Any]:
        """The trial as a session file holds it."""
        return {
            "id": self.id,
            "variant": self.variant,
            "plan": asdict(self.plan),
            "status": self.status,
            "stage": self.stage,
            "floor": self.floor,
            "latency": None if self.latency is None else latency_data(self.latency),
            "against_original": None if self.against is None else self.against.as_data(),
            "accuracy": None if self.accuracy is None else self.accuracy.as_data(),
            "accuracy_on": self.accuracy_on,
            "drop": self.drop,
            "size": self.size_bytes,
            "zipped_size": self.zipped_bytes,
            "peak_memory_mb": self.peak_memory_mb,
            "init_ms": self.init_ms,
            "why": self.why,
            "doubts": [dict(doubt) for doubt in self.doubts],
            "elapsed_s": self.elapsed_s,
            "levels": {str(number): level for number, level in self.levels.items()},
        }


def trial_from_data(data: Mapping[str, Any]) -> TuneTrial:
    """The trial back from a session file."""
    latency, against, accuracy = data["latency"], data["against_original"], data["accuracy"]
    return TuneTrial(
        variant=data["variant"],
        plan=plan_from_mapping(data["plan"]),
        status=data["status"],
        stage=data["stage"],
        floor=data["floor"],
        latency=None if latency is None else latency_from_data(latency),
        against=None if against is None else comparison_from_data(against),
        accuracy=None if accuracy is None else accuracy_from_data(accuracy),
        accuracy_on=data["accuracy_on"],
        drop=data["drop"],
        size_bytes=data["size"],
        zipped_bytes=data["zipped_size"],
        peak_memory_mb=data["peak_memory_mb"],
        init_ms=data["init_ms"],
        why=data["why"],
        doubts=tuple(data["doubts"]),
        elapsed_s=data["elapsed_s"],
        levels={int(number): level for number, level in data["levels"].items()},
    )


def trial_id(variant: str, plan: Plan) -> str:
    """`static_int8@npu, 2 threads`."""
    return f"{variant}@{plan.describe()}"


@dataclass(frozen=True, slots=True)
class Step:
    """One bar of the waterfall: what one practice brought, measured in the same rounds as the others."""

    practice: str
    from_ms: float
    to_ms: float
    ratio: float
    ci95: tuple[float, float]
    what: str

    def as_data(self) -> dict[str, Any]:
        """The step as JSON can hold it."""
        return {
            "practice": self.practice,
            "from_ms": self.from_ms,
            "to_ms": self.to_ms,
            "ratio": self.ratio,
            "ci95": [finite(bound) for bound in self.ci95],
            "what": self.what,
        }


@dataclass(frozen=True, slots=True)
class TuneResult:
    """What a tuning came to; at any time, as far as it is known then."""

    model: str
    original: TuneTrial
    best: TuneTrial
    path: str
    """The chosen model's file."""
    verdict: str
    findings: tuple[Finding, ...]
    front: tuple[TuneTrial, ...]
    steps: tuple[Step, ...]
    final: Comparison | None
    trials: int
    seconds: float
    interrupted: bool = False
    unreachable: tuple[str, ...] = ()
    """Limits that nothing keeps, each with the nearest."""
    notes: tuple[str, ...] = ()
    folder: str = ""
    files: tuple[str, ...] = ()
    command: str = ""
    max_drop: float = 0.0
    floor: Mapping[str, Any] = field(default_factory=dict)
    """What the largest drop means for this metric, as `Floor.as_data` tells; empty where nothing was judged."""

    @property
    def speedup(self) -> tuple[float, float, float] | None:
        """How many times faster, with its interval; None where the original stays, or before the confirmation."""
        known = self.final or self.best.against
        if known is None or self.best.id == self.original.id:
            return None
        low, high = known.ci95
        return 1 / known.ratio, 1 / high if high > 0 else math.inf, 1 / low if low > 0 else math.inf

    @property
    def doubts(self) -> list[Mapping[str, Any]]:
        """Reasons to doubt the verdict, each once. Noise of the single latencies is not a doubt of their ratio."""
        both = (*self.best.doubts, *self.original.doubts)
        found = {doubt["reason"]: doubt for doubt in reversed(both) if doubt["reason"] not in _NOT_OF_A_RATIO}
        return list(found.values())

    def as_data(self) -> dict[str, Any]:
        """The document that `hasten tune --json` prints."""
        times = self.speedup or (1.0, 1.0, 1.0)
        best, original = self.best, self.original
        return {
            "model": self.model,
            "verdict": self.verdict,
            "verdicts": [finding.as_data() for finding in self.findings],
            "best": {
                "model": self.path,
                "variant": best.variant,
                "plan": asdict(best.plan),
                "speedup": times[0],
                "ci95": [finite(bound) for bound in times[1:]],
                "confirmed": self.final is not None and self.final.verdict is Verdict.FASTER,
                "latency_ms": finite(best.median_ms),
                "accuracy": None if best.accuracy is None else best.accuracy.as_data(),
                "accuracy_on": best.accuracy_on,
                "original_accuracy": None if original.accuracy is None else original.accuracy.as_data(),
                "size": best.size_bytes,
                "size_ratio": best.size_bytes / original.size_bytes if original.size_bytes else None,
            },
            "front": [
                {
                    "id": trial.id,
                    "latency_ms": finite(trial.median_ms),
                    "accuracy": None if trial.accuracy is None else trial.accuracy.as_data()["value"],
                    "size": trial.size_bytes,
                }
                for trial in self.front
            ],
            "steps": [step.as_data() for step in self.steps],
            "trials": self.trials,
            "seconds": self.seconds,
            "interrupted": self.interrupted,
            "doubts": [dict(doubt) for doubt in self.doubts],
            "unreachable": list(self.unreachable),
            "notes": list(self.notes),
            "folder": self.folder,
            "files": list(self.files),
            "command": self.command,
            "max_drop": self.max_drop,
            "floor": dict(self.floor),
        }


def pareto_front(trials: Sequence[TuneTrial]) -> list[TuneTrial]:
    """Those that nothing beats in latency, accuracy and size at once; the fastest first. Only what keeps the floor."""
    known = [trial for trial in trials if trial.floor == KEPT and trial.latency is not None and trial.status != FAILED]
    return pareto.pareto_front(known, _goals)


def _goals(trial: TuneTrial) -> tuple[float, float, float]:
    """Smaller is better. What was lost against the original stands for accuracy: it is paired, and has one sign."""
    return trial.median_ms, 0.0 if trial.drop is None else trial.drop, float(trial.size_bytes)
