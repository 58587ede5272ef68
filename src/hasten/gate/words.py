"""The phrases of a gate."""

from __future__ import annotations

from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Final

from hasten.core import accuracy_notes, doubts
from hasten.core.codec import from_data
from hasten.core.floor import Floor
from hasten.core.phrases import Phrase, Phrasebook
from hasten.core.units import (
    duration,
    first_few,
    interval_ms,
    memory,
    milliseconds,
    milliseconds_within,
    percent,
    several,
    size,
    times,
)
from hasten.evaluate.words import floor_text
from hasten.gate.facts import GateVerdict

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from hasten.gate.facts import CheckFound, Row

_LONGER: Final = "Measure longer (--seconds)."
_OLDER_MODEL: Final = "Give the older model itself (--baseline-model): hasten times both in the same rounds."
_NEEDED: Final = {
    "max_slowdown": "Give a baseline: --baseline-model OLD.tflite.",
    "max_drop": "Give a baseline and labeled data: --baseline-model OLD.tflite --data DATA.",
}
_MOST_NAMED: Final = 3
_PARTS: Final = {"cpu": "CPU", "architecture": "architecture", "cores": "number of cores", "litert": "LiteRT"}
_KINDS: Final = {"ms": "times", "ratio": "ratios", "share": "accuracies", "value": "accuracies"}
_FORMATS: Final[dict[str, Callable[[float], str]]] = {
    "ms": milliseconds,
    "MB": memory,
    "bytes": lambda value: size(round(value)),
    "share": lambda value: f"{value * 100:.2f} %",
    "ratio": lambda value: f"{value:.3f}×",
    "value": lambda value: f"{value:.4g}",
}


def headline(found: CheckFound) -> str:
    """What the gate came to."""
    total, failed, undecided = len(found.rows), found.count(GateVerdict.FAILED), found.count(GateVerdict.UNDECIDED)
    limits = several(total, "limit")
    if failed:
        return f"Failed: {failed} of {limits} {'is' if failed == 1 else 'are'} broken."
    if found.interrupted:
        return "Undecided: interrupted before every limit was decided."
    if undecided or not total:
        effect = "counts as a failure (--undecided fail)" if found.strict else "fails nothing (--undecided pass)"
        return f"Undecided: {undecided} of {limits}. This {effect}."
    return f"Passed: {limits} kept."


def headline_of_all(gates: Sequence[CheckFound]) -> str:
    """What several gates came to: the worst verdict, and which of them have it."""
    for verdict, told in ((GateVerdict.FAILED, "failed"), (GateVerdict.UNDECIDED, "undecided")):
        named = [f"{_file(gate)} ({gate.plan.describe()})" for gate in gates if gate.verdict is verdict]
        if named:
            return f"{len(named)} of {several(len(gates), 'gate')} {told}: {first_few(named, _MOST_NAMED)}."
    return f"Passed: {several(len(gates), 'gate')}."


def subject(found: CheckFound) -> str:
    """What was checked: `digits.tflite on cpu, 2 threads`."""
    return f"{_file(found)} on {found.plan.describe()}"


def _file(found: CheckFound) -> str:
    return PurePath(found.model.path).name


def intervals_words(found: CheckFound) -> str:
    """How sure the intervals are; empty where there are none."""
    sure = {_KINDS[row.unit]: row.confidence for row in found.rows if row.confidence is not None}
    words = [f"{100 * confidence:.0f} % for {kind}" for kind, confidence in sure.items()]
    ranges = [row.name for row in found.rows if row.interval is not None and row.confidence is None]
    sentences = [f"Confidence intervals: {', '.join(words)}."] if words else []
    sentences += [f"The interval of {name} is the range of all measurements." for name in ranges]
    if found.bound_seconds:
        sentences.append(f"Timing took {duration(found.seconds)}, of at most {duration(found.bound_seconds)}.")
    return " ".join(sentences)


def figures(row: Row) -> tuple[str, str, str]:
    """What was measured, its interval and the limit, as people read them."""
    as_text = _FORMATS.get(row.unit, _FORMATS["value"])
    measured = "unknown" if row.measured is None else as_text(row.measured).replace("-", "−")
    limit = f"at {'least' if row.at_least else 'most'} {as_text(row.limit)}"
    if row.interval is None or any(end in (float("-inf"), float("inf")) for end in row.interval):
        return measured, "", limit
    if row.unit != "ms":
        return measured, _ends(*row.interval, as_text), limit
    if row.measured is not None:
        measured = milliseconds_within(row.measured, *row.interval)
    return measured, interval_ms(*row.interval), limit


def _ends(low: float, high: float, as_text: Callable[[float], str]) -> str:
    """`12.1–12.2 MB`, `−4.5 to 1.2 %`: the unit once."""
    first, last = as_text(low), as_text(high)
    unit = last.lstrip("+-0123456789.")
    return f"{first.removesuffix(unit)}{' to ' if low < 0 else '–'}{last}".replace("-", "−")


def row_words(row: Row) -> str:
    """One limit in a line, for a log: what it is, what was measured, what is allowed, and how it stands."""
    measured, interval, limit = figures(row)
    return f"{row.name} {measured}{f' ({interval})' if interval else ''}, {limit}: {row.verdict.value}"


def _above(facts: Mapping[str, Any]) -> str:
    """`13 % above the limit`, `4.2× the limit`."""
    above = facts["above"]
    return f"{percent(above)} above the limit" if above < 1 else f"{times(1 + above)} the limit"


def _accuracy(facts: Mapping[str, Any]) -> str:
    text = f"{facts['metric']} on {several(facts['samples'], 'sample')}."
    # Gates of earlier releases judged by the value alone.
    return text if facts.get("sure", True) else f"{text} Other samples of this kind could change the verdict."


def _accuracy_undecided(facts: Mapping[str, Any]) -> str:
    text = f"{facts['metric']} on {several(facts['samples'], 'sample')}: the confidence interval contains the limit."
    return text if facts["needed"] is None else f"{text} About {facts['needed']} samples would decide."


def _clearly(side: str) -> Callable[[Mapping[str, Any]], str]:
    def told(facts: Mapping[str, Any]) -> str:
        first = f"{_above(facts)}. " if "above" in facts else ""
        far = f"{facts['factor']:g}× the limit" if "above" in facts else f"{percent(1 / facts['factor'])} of the limit"
        text = f"{first}Every run of {several(facts['processes'], 'process')} lies {side} {far}."
        return text if facts["processes"] > 1 else f"{text} There was no time for a second process."

    return told


def _counts(facts: Mapping[str, Any]) -> str:
    samples = several(facts["samples"], "sample")
    if facts["lost"] is None:
        return f"on {samples}"
    return f"{facts['lost']} lost and {facts['won']} won of {samples}"


def _drop(text: str) -> Callable[[Mapping[str, Any]], str]:
    def told(facts: Mapping[str, Any]) -> str:
        counts = text.format(counts=_counts(facts))
        allowed = floor_text(from_data(Floor, facts["floor"]), facts["baseline"])
        needed = facts.get("needed")
        enough = f" About {needed:,} samples would decide." if needed is not None else ""
        return f"{counts[0].upper()}{counts[1:]}{enough} Allowed: {allowed}."

    return told


def _unlike(facts: Mapping[str, Any]) -> str:
    part = _PARTS.get(facts["part"], facts["part"])
    if facts["before"] is None:
        return f"The session does not record the {part} that it was measured with."
    return f"Times cannot be compared: the {part} was {facts['before']}, and now is {facts['now']}."


def _spread(facts: Mapping[str, Any]) -> str:
    """What a difference to an older session may come from."""
    if facts["runs"]:
        return f"{facts['runs']} earlier runs differ by {percent(facts['spread'])}"
    return f"runs on one machine can differ by {percent(facts['spread'])}"


PHRASES: Final[dict[str, Phrase]] = {
    "gate.exact": Phrase("This figure is exact."),
    "gate.exact-above": Phrase(lambda facts: f"{_above(facts)}."),
    "gate.kept": Phrase("The whole confidence interval lies below the limit."),
    "gate.broken": Phrase(lambda facts: f"{_above(facts)}. The whole confidence interval lies above it."),
    "gate.undecided": Phrase("The confidence interval contains the limit.", _LONGER),
    "gate.contended": Phrase(
        "Above the limit, but other processes kept {cores:.1f} cores busy that the model needed.",
        "Close them, or check on an idle machine.",
    ),
    "gate.baseline-contended": Phrase(
        "Within the limit, but other processes kept {cores:.1f} cores busy that the baseline needed.",
        "Close them, or check on an idle machine.",
    ),
    "gate.clearly-above": Phrase(_clearly("above")),
    "gate.clearly-below": Phrase(_clearly("below")),
    "gate.not-measured": Phrase("Nothing was measured."),
    "gate.few-processes": Phrase("Near the limit, a verdict needs {needed} processes; {processes} ran.", _LONGER),
    "gate.few-runs": Phrase("A 95th percentile needs {needed} runs; {runs} were timed.", _LONGER),
    "gate.no-peak": Phrase("This system does not report the peak memory of a process."),
    "gate.memory-exhausted": Phrase("The model ran out of the memory that the runner may use (--memory-limit)."),
    "gate.memory-kept": Phrase("The peak of every process lies below the limit."),
    "gate.memory-broken": Phrase("Every process exceeded the limit, by up to {above:percent}."),
    "gate.memory-mixed": Phrase("{above} of {processes:count process} exceeded the limit."),
    "gate.accuracy": Phrase(_accuracy),
    "gate.accuracy-undecided": Phrase(_accuracy_undecided, "Use more data."),
    "gate.drop-kept": Phrase(_drop("{counts}.")),
    "gate.drop-worse": Phrase(_drop("Worse than allowed: {counts}.")),
    "gate.drop-chance": Phrase(_drop("{counts}, which may be chance."), "Use more data."),
    # Sessions of earlier releases have these five.
    "gate.unchecked": Phrase("{limit} was not checked.", lambda facts: _NEEDED[facts["limit"]]),
    "gate.slower": Phrase("{by:percent} slower, with 99 % confidence."),
    "gate.faster": Phrase("{by:percent} faster, with 99 % confidence."),
    "gate.few-pairs": Phrase("A verdict needs {needed} pairs of processes; {pairs} ran.", _LONGER),
    "gate.noise": Phrase("The noise is larger than the difference.", _LONGER),
    "gate.baseline-guesses": Phrase(
        "On this data the baseline may be no better than guessing, so there was nothing to lose.",
        "Check --preprocess and --label-offset: both models get the same inputs and labels.",
    ),
    "gate.same-model": Phrase(
        "The baseline is the same model with the same plan.", "Check that the baseline is the older model."
    ),
    "gate.session-empty": Phrase("The session holds no measurement.", _OLDER_MODEL),
    "gate.session-other-plan": Phrase("The session holds no measurement with this plan.", _OLDER_MODEL),
    "gate.session-other-models": Phrase("The session holds several models, and none of this name.", _OLDER_MODEL),
    "gate.session-unlike": Phrase(_unlike, _OLDER_MODEL),
    "gate.session-contended": Phrase(
        "Not slower than the session, but there other processes kept {cores:.1f} cores busy that the model needed.",
        "Measure the baseline again on an idle machine, or give the older model itself (--baseline-model).",
    ),
    "gate.session-slower": Phrase(
        lambda facts: f"{percent(facts['by'])} slower, which is more than noise: {_spread(facts)}."
    ),
    "gate.session-kept": Phrase(lambda facts: f"Not slower, although {_spread(facts)}."),
    "gate.session-noise": Phrase(
        lambda facts: f"Differences below {percent(facts['hidden'])} cannot be seen, as {_spread(facts)}.", _OLDER_MODEL
    ),
}
BOOK: Final = Phrasebook(PHRASES, accuracy_notes.PHRASES, doubts.PHRASES)
