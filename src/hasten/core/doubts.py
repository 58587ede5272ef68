"""Doubts: a closed list of reasons why a number may not be what it seems, and the sentence for each.

A doubt is a Remark with one of these codes. What decides that there is one stands where the number is made (samples,
measurement, profile, …); how it is said stands here, whatever command shows it.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from hasten.core.accuracy_notes import TIES
from hasten.core.machine import EARLIER, UNDER_VOLTAGE
from hasten.core.phrases import Phrase, Phrasebook, filled
from hasten.core.remark import Remark
from hasten.core.units import milliseconds, percent, several

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from hasten.core.phrases import Template

NOISY: Final = "noisy"
OTHER_LOAD: Final = "other-load"
LOAD_MISSING: Final = "load-missing"
STOLEN_TIME: Final = "stolen-time"
SLOWED_CORES: Final = "slowed-cores"
FREQUENCY_CHANGE: Final = "frequency-change"
THROTTLING: Final = "throttling"
FEW_SAMPLES: Final = "few-samples"
COARSE_TIMER: Final = "coarse-timer"
CLOCK_BACKWARDS: Final = "clock-backwards"
OUTLIERS: Final = "outliers"
DISTURBED: Final = "disturbed"
PROCESSES_DIFFER: Final = "processes-differ"
ONE_PROCESS: Final = "one-process"
NOT_STEADY: Final = "not-steady"
FALLBACK: Final = "fallback"
PARTIAL: Final = "partial"
UNSEEN: Final = "unseen"
PROFILING: Final = "profiling"
MORE_CORES: Final = "more-cores"
OPEN_SHAPE: Final = "open-shape"
HELD_BACK: Final = "held-back"
OF_LATENCIES_ONLY: Final = (NOISY, PROCESSES_DIFFER, ONE_PROCESS, OUTLIERS)
"""Noise of single latencies, which is no doubt of their ratio: that is taken within rounds."""


# The fact by which one doubt is graver than another of its code, and whether more of it is worse.
_GRAVITY: Final[dict[str, tuple[str, bool]]] = {
    NOISY: ("half_width", True),
    OTHER_LOAD: ("cores", True),
    LOAD_MISSING: ("cores", False),
    STOLEN_TIME: ("share", True),
    SLOWED_CORES: ("share", True),
    THROTTLING: ("rise", True),
    FEW_SAMPLES: ("runs", False),
    CLOCK_BACKWARDS: ("runs", True),
    OUTLIERS: ("share", True),
    DISTURBED: ("share", True),
    PROCESSES_DIFFER: ("spread", True),
    UNSEEN: ("seen", False),
    PROFILING: ("cost", True),
    MORE_CORES: ("cores", True),
    TIES: ("share", True),
}
_BOUND: Final = "is_bound"
"""The fact that a figure is the gravest of several that differ."""


def gravest(doubts: Iterable[Remark]) -> Remark:
    """The gravest of several doubts of one code; the first where their facts do not tell."""
    return max(doubts, key=_gravity)


def worst_of(doubts: Sequence[Remark]) -> Remark:
    """The gravest of several doubts of one code, said as a bound where their figures differ."""
    worst = gravest(doubts)
    fact = _GRAVITY.get(worst.code, ("", True))[0]
    differ = len({doubt.facts.get(fact) for doubt in doubts}) > 1
    return Remark(worst.code, {**worst.facts, _BOUND: True}) if differ else worst


def gathered(doubts: Iterable[Remark]) -> tuple[Remark, ...]:
    """Doubts of several numbers, each code once, with the gravest facts."""
    by_code: dict[str, list[Remark]] = {}
    for doubt in doubts:
        by_code.setdefault(doubt.code, []).append(doubt)
    return tuple(map(gravest, by_code.values()))


def _gravity(doubt: Remark) -> float:
    fact, more_is_worse = _GRAVITY.get(doubt.code, ("", True))
    value = doubt.facts.get(fact)
    if value is None:  # an interval that is not even known is the worst; the rest is all the same
        return math.inf if doubt.code == NOISY else 0.0
    return float(value) if more_is_worse else -float(value)


def _up_to(facts: Mapping[str, Any]) -> str:
    return "up to " if facts.get(_BOUND) else ""


def _bounded(template: str) -> Template:
    """A template with a place for `up to`, which may begin the sentence."""

    def text(facts: Mapping[str, Any]) -> str:
        told = filled(template, {**facts, "up_to": _up_to(facts)})
        return told[:1].upper() + told[1:]

    return text


HELD_BACK_WORDS: Final = {
    UNDER_VOLTAGE: "its supply voltage is too low",
    "frequency-capped": "its clock is capped",
    "throttled": "it is throttled",
    "soft-temperature-limit": "it is at its soft temperature limit",
    f"{UNDER_VOLTAGE}{EARLIER}": "its supply voltage was too low since its start",
    f"frequency-capped{EARLIER}": "its clock was capped since its start",
    f"throttled{EARLIER}": "it was throttled since its start",
    f"soft-temperature-limit{EARLIER}": "it was at its soft temperature limit since its start",
}
"""What each reason of `machine.HELD_BACK` says of a board."""


def held_back_text(names: Iterable[str]) -> str:
    """What a board reports, as a sentence."""
    return f"The board reports that {' and '.join(HELD_BACK_WORDS[name] for name in names)}."


def held_back_hint(names: Iterable[str]) -> str:
    """What to do about it."""
    low = any(name in (UNDER_VOLTAGE, UNDER_VOLTAGE + EARLIER) for name in names)
    return "Use a stronger power supply or a shorter cable." if low else "Cool the board, then measure again."


def _noisy(facts: Mapping[str, Any]) -> str:
    if "half_width" not in facts:
        return "One block of runs is too little for a confidence interval."
    return f"The measurement is noisy: the 95 % CI is {_up_to(facts)}±{percent(facts['half_width'])}."


def _one_process(facts: Mapping[str, Any]) -> str:
    several_ran = "Only 1 of {processes} processes counts: the others were slower."
    alone = filled(several_ran, facts) if "processes" in facts else "All runs are from one process."
    return f"{alone} The confidence interval does not cover how fresh processes differ."


def _partial(facts: Mapping[str, Any]) -> str:
    if "failure" in facts:
        return f"A later process failed: {facts['failure']}"
    return f"The engine did not place the whole model on the {facts['asked']}."


def _throttling(facts: Mapping[str, Any]) -> str:
    cause = "the device got warmer" if facts["warmer"] else "the clock slowed down"
    return f"Runs got {_up_to(facts)}{percent(facts['rise'])} slower while {cause}."


def _unseen(facts: Mapping[str, Any]) -> str:
    reasons = {
        "delegate": "A delegate does not report its time.",
        "short": f"{facts.get('short')} of {facts.get('operators')} take less than 1 µs, the profiler's resolution.",
        "engine": "The rest is the engine's own work around them.",
    }
    return f"The operators add up to {percent(facts['seen'])} of the run. {reasons[facts['rest']]}"


def _profiling(facts: Mapping[str, Any]) -> str:
    if facts.get("disturbed"):
        longer = f"Profiled runs took {_up_to(facts)}{percent(facts['cost'])} longer than the others"
        return f"{longer}: other processes disturbed them, or profiling slows them down."
    text = f"Profiling makes the run {_up_to(facts)}{percent(facts['cost'])} longer."
    if not facts["inside"]:
        return text
    names = " and ".join(facts["inside"])
    return (
        f"{text} Most of that is inside {names}: the time shown there is that of a plain run minus the other operators."
    )


PHRASES: Final[dict[str, Phrase]] = {
    NOISY: Phrase(_noisy, "Measure longer (--seconds), or close other programs."),
    OTHER_LOAD: Phrase(
        _bounded("Other processes kept {up_to}{cores:.1f} cores busy during the measurement."),
        "Close them, or read this as the latency under that load.",
    ),
    LOAD_MISSING: Phrase(
        lambda facts: (
            f"The background work kept {'as few as' if facts.get(_BOUND) else 'only'} {facts['cores']:.1f}"
            f" of {facts['wanted']} cores busy."
        ),
        "Measure again on an idle machine.",
    ),
    STOLEN_TIME: Phrase(
        _bounded("The hypervisor gave {up_to}{share:percent} of the CPU time to other machines."),
        "Measure again later.",
    ),
    SLOWED_CORES: Phrase(
        _bounded(
            "A core was slowed for {up_to}{share:percent} of the time, by another virtual machine or its second thread"
            " (SMT)."
        ),
        "Several threads are as fast as the slowest core. Measure again later, or compare candidates in one run.",
    ),
    FREQUENCY_CHANGE: Phrase(
        "The CPU clock varied between {low:.0f} and {high:.0f} MHz.",
        "Fix the clock (governor 'performance', no turbo), or measure longer.",
    ),
    THROTTLING: Phrase(
        _throttling, "Let the device cool down. Measure the sustained speed with hasten bench --sustained."
    ),
    HELD_BACK: Phrase(lambda facts: held_back_text(facts["causes"]), lambda facts: held_back_hint(facts["causes"])),
    FEW_SAMPLES: Phrase(
        lambda facts: (
            f"{'As few as' if facts.get(_BOUND) else 'Only'} {several(facts['runs'], 'run')}"
            f" {'was' if facts['runs'] == 1 else 'were'} timed."
        ),
        "Measure longer (--seconds).",
    ),
    COARSE_TIMER: Phrase(
        lambda facts: (
            f"A run takes {milliseconds(facts['run_ns'] / 1e6)}, but the clock only ticks every"
            f" {milliseconds(facts['step_ns'] / 1e6)}."
        ),
        "Rely on ratios here, not on single latencies.",
    ),
    CLOCK_BACKWARDS: Phrase(
        "The clock of this machine went backwards during {runs:count run}.",
        "The times shown exclude them. Measure on another machine, or with another clock source.",
    ),
    OUTLIERS: Phrase(
        _bounded("{up_to}{share:percent} of the runs were outliers, far slower than the rest."),
        "Look for periodic work on this machine.",
    ),
    DISTURBED: Phrase(
        _bounded(
            "{up_to}{share:percent} of the runs were disturbed by other processes (median slowdown {slowdown:percent})."
        ),
        lambda facts: "The times shown exclude them." if "profiled" in facts else "The latency excludes them.",
    ),
    PROCESSES_DIFFER: Phrase(
        _bounded("Fresh processes differ by {up_to}{spread:percent}."),
        "Memory layout or other load can cause this. The confidence interval covers it.",
    ),
    ONE_PROCESS: Phrase(_one_process, "Measure longer (--seconds)."),
    NOT_STEADY: Phrase("The latency was still falling when the warm-up ended.", "Measure longer (--seconds)."),
    FALLBACK: Phrase(
        "The plan asks for {asked:count thread}, but the engine used {seen}.",
        "Check the plan; the latency is that of the threads in use.",
    ),
    PARTIAL: Phrase(
        _partial,
        lambda facts: (
            "Measure again; the latency is that of the earlier processes."
            if "failure" in facts
            else "Run hasten accelerators to see how many operators it takes."
        ),
    ),
    UNSEEN: Phrase(_unseen, "The latency was measured without the profiler and includes all of it."),
    PROFILING: Phrase(_profiling, "Compare operators with each other, not with the latency."),
    MORE_CORES: Phrase(
        _bounded("{up_to}{cores:.1f} cores were busy, although the plan has {threads:count thread}."),
        "Compare it with a CPU plan that has as many threads.",
    ),
    OPEN_SHAPE: Phrase(
        "The file leaves the shape of input {input!r} open ({in_file}); the runs used {used}.",
        "Set the shape that your application uses, for example --shape {input:shell}={usual}.",
    ),
}
DOUBTS: Final = Phrasebook(PHRASES)


def phrases_with(time_option: str) -> dict[str, Phrase]:
    """The same with the option by which a command is given more time; empty where no command is meant."""
    told = f" ({time_option})" if time_option else ""
    longer = {
        NOISY: f"Measure longer{told}, or close other programs.",
        FEW_SAMPLES: f"Measure longer{told}.",
        NOT_STEADY: f"Measure longer{told}.",
        ONE_PROCESS: f"Measure longer{told}.",
    }
    return {**PHRASES, **{code: Phrase(PHRASES[code].text, hint) for code, hint in longer.items()}}
