"""Doubts: a closed list of reasons why a number may not be what it seems, each with what to do about it."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Reason(enum.Enum):
    """Why a number is in doubt; the value is its name in JSON."""

    NOISY = "noisy"
    OTHER_LOAD = "other-load"
    LOAD_MISSING = "load-missing"
    STOLEN_TIME = "stolen-time"
    FREQUENCY_CHANGE = "frequency-change"
    THROTTLING = "throttling"
    FEW_SAMPLES = "few-samples"
    COARSE_TIMER = "coarse-timer"
    OUTLIERS = "outliers"
    DISTURBED = "disturbed"
    PROCESSES_DIFFER = "processes-differ"
    NOT_STEADY = "not-steady"
    FALLBACK = "fallback"
    PARTIAL = "partial"
    UNSEEN = "unseen"
    PROFILING = "profiling"
    MORE_CORES = "more-cores"


HINTS = {
    Reason.NOISY: "Give it more time (--seconds), or quieten the machine.",
    Reason.OTHER_LOAD: "Close what else runs, or take this as latency under that load.",
    Reason.LOAD_MISSING: "The work that was to run beside the model got too little of the cores; measure again.",
    Reason.STOLEN_TIME: "The hypervisor ran somebody else on these cores; measure again later.",
    Reason.FREQUENCY_CHANGE: "Fix the clock (governor 'performance', no turbo) or measure longer.",
    Reason.THROTTLING: "Let the device cool down; see --sustained for the speed that lasts.",
    Reason.FEW_SAMPLES: "Give it more time (--seconds).",
    Reason.COARSE_TIMER: "The runs are too short for this clock; trust ratios, not microseconds.",
    Reason.DISTURBED: "Something else had the core; the latency is that of the other runs, p95 has all.",
    Reason.OUTLIERS: "They are kept in p95 and left out of nothing; look for periodic work beside it.",
    Reason.PROCESSES_DIFFER: "Memory layout does that, or other load; the interval covers it.",
    Reason.NOT_STEADY: "The warm-up did not settle; give it more time (--seconds).",
    Reason.FALLBACK: "The accelerator that was asked for did not run the model.",
    Reason.MORE_CORES: "Compare it with a CPU plan of as many threads, or count its CPU time against it.",
    Reason.PARTIAL: "A part of the model ran elsewhere than asked; hasten profile shows which.",
    Reason.UNSEEN: "The latency is measured without the profiler, and has all of it.",
    Reason.PROFILING: "The profiler itself takes that, and more time does not change it: compare operators with each"
    " other, not with the latency.",
}


@dataclass(frozen=True, slots=True)
class Doubt:
    """One reason to doubt, with the evidence in words."""

    reason: Reason
    evidence: str

    @property
    def hint(self) -> str:
        """What to do about it."""
        return HINTS[self.reason]

    def as_data(self) -> dict[str, str]:
        """The doubt as JSON can hold it."""
        return {"reason": self.reason.value, "evidence": self.evidence, "hint": self.hint}


def doubt_from_data(data: dict[str, str]) -> Doubt:
    """The doubt back from JSON."""
    return Doubt(Reason(data["reason"]), data["evidence"])
