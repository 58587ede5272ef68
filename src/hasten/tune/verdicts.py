"""The nine verdicts: how the model stands with each section of the guide, from what this tuning has measured."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from hasten.core.finding import Finding, Standing
from hasten.core.tuning import FAILED, KEPT, ORIGINAL, TIMED, UNKNOWN, TuneTrial
from hasten.core.tuning_words import times_words
from hasten.core.units import milliseconds, percent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hasten.core.profile import OperatorTime, Profile
    from hasten.core.tuning import Step

PRACTICES: Final = ("choose", "profile", "operators", "quantize", "threads", "copies", "app", "accelerators", "help")
# An operator with less to win than this share of the run is not worth a kernel of one's own.
_WORTH: Final = 0.10
_MOSTLY_SEEN: Final = 0.5
_LONGEST_NAME: Final = 48
_WHY_NOT: Final = {
    "choose": ("other models were not looked at", "Tune each model that does the task, and compare."),
    "profile": ("the time did not suffice for a profile", "hasten profile shows each operator's time."),
    "operators": ("without a profile nothing shows which operator is worth work", "Run hasten profile."),
    "quantize": ("no variant was made yet", "Give it more --budget, and go on with --resume."),
    "threads": ("only one number of threads was timed", "Give it more --budget, and go on with --resume."),
    "copies": ("the cost of feeding the model was not measured", "Measure it: hasten copies."),
    "app": ("the application around the model was not looked at", "Run it: hasten app -- python app.py."),
    "accelerators": ("no accelerator was tried yet", "hasten accelerators tells what each of them does."),
    "help": ("this machine was not checked", "Check it: hasten doctor."),
}


@dataclass(frozen=True, slots=True)
class Evidence:
    """What is known when the verdicts are given."""

    trials: Sequence[TuneTrial]
    best: TuneTrial
    base: TuneTrial
    steps: Sequence[Step] = ()
    confirmed: bool = False
    already: str = ""
    profiles: tuple[Profile | None, Profile | None] = (None, None)
    given: dict[str, Finding] = field(default_factory=dict)
    """Findings of practices that ran in full."""


def nine_findings(known: Evidence) -> list[Finding]:
    """A finding for each section, in the guide's order."""
    found = {
        **_not_examined(),
        **_profile(known),
        **_quantize(known),
        **_threads(known),
        **_accelerators(known),
        **known.given,
        **_improved(known),
    }
    return [found[name] for name in PRACTICES]


def _not_examined() -> dict[str, Finding]:
    return {
        name: Finding(name, Standing.NOT_EXAMINED, _sentence(why), to_do) for name, (why, to_do) in _WHY_NOT.items()
    }


def _improved(known: Evidence) -> dict[str, Finding]:
    """What brought something, as the final rounds measured it."""
    found = {}
    for step in known.steps:
        low, high = step.ci95
        if known.confirmed and high < 1 and step.practice in PRACTICES:
            interval = f"{times_words(1 / high)}-{times_words(1 / low)}" if low > 0 else "unknown"
            evidence = f"{_sentence(step.what)} {times_words(1 / step.ratio)} times faster (95 % interval {interval})."
            found[step.practice] = Finding(step.practice, Standing.IMPROVED, evidence)
    return found


def _profile(known: Evidence) -> dict[str, Finding]:
    before, after = known.profiles
    profile = after or before
    if profile is None:
        return {}
    evidence = _where_time_goes(profile)
    if before is not None and after is not None and before is not after:
        evidence += f" Before, it took {milliseconds(before.latency_ms)}."
    return {"profile": Finding("profile", Standing.GOOD, evidence), "operators": _operators(profile)}


def _where_time_goes(profile: Profile) -> str:
    run = milliseconds(profile.latency_ms)
    if profile.seen < _MOSTLY_SEEN:
        found = milliseconds(sum(operator.ms for operator in profile.operators))
        return f"A run takes {run}, of which the profiler finds {found} in operators: too little to say where it goes."
    kinds = ", ".join(f"{op} {percent(ms / profile.invoke_ms)}" for op, _, ms, _ in profile.by_kind()[:3])
    return f"The run's {run} go to {kinds}."


def _operators(profile: Profile) -> Finding:
    known = [operator for operator in profile.operators if operator.headroom_ms is not None]
    if profile.seen < _MOSTLY_SEEN:
        why = "The profiler finds too little of the run in operators to say what each could win."
        return Finding("operators", Standing.NOT_EXAMINED, why)
    if not known:
        why = "The engine does not tell what each operator takes with this plan, or the machine's peaks are not known."
        return Finding("operators", Standing.NOT_EXAMINED, why, "hasten profile shows what there is.")
    top = max(known, key=_headroom)
    share = _headroom(top) / profile.invoke_ms if profile.invoke_ms else 0.0
    where = f"{top.op} at {_short(top.location)}" if top.location else top.op
    if share < _WORTH:
        evidence = f"No operator has a tenth of the run to win; the most, {percent(share)}, has {where}."
        return Finding("operators", Standing.GOOD, evidence)
    evidence = f"{where} could win up to {milliseconds(_headroom(top))} of {milliseconds(profile.invoke_ms)} a run"
    to_do = "Try a kernel of your own in its place, or another operator: it is worth that at most."
    return Finding("operators", Standing.TO_DO, f"{evidence}, against this machine's peak.", to_do)


def _short(location: str) -> str:
    """Converters join the names of all that was fused into an operator; the first one is enough to find it."""
    first = location.partition(";")[0]
    return first if len(first) <= _LONGEST_NAME else f"…{first[-_LONGEST_NAME:]}"


def _headroom(operator: OperatorTime) -> float:
    return operator.headroom_ms or 0.0


def _quantize(known: Evidence) -> dict[str, Finding]:
    if known.already:
        return {"quantize": Finding("quantize", Standing.GOOD, known.already)}
    made = [trial for trial in known.trials if trial.variant != ORIGINAL and trial.latency is not None]
    if not made:
        failed = [trial for trial in known.trials if trial.variant != ORIGINAL and trial.status == FAILED]
        if not failed:
            return {}
        return {"quantize": Finding("quantize", Standing.NOT_EXAMINED, f"No variant runs: {failed[0].why}")}
    if known.best.variant != ORIGINAL:
        evidence = f"{known.best.variant} keeps the floor and is {_size_words(known)} than the original."
        return {"quantize": Finding("quantize", Standing.IMPROVED, evidence)}
    fastest = min(made, key=lambda trial: trial.median_ms)
    count = len({trial.variant for trial in made})
    if any(trial.floor == UNKNOWN for trial in made) and not any(trial.floor == KEPT for trial in made):
        gain = _gain(known, fastest)
        evidence = f"{fastest.variant} would be {gain}, but without data nothing shows that it keeps its accuracy."
        return {"quantize": Finding("quantize", Standing.TO_DO, evidence, "Give labelled data with --data.")}
    broken = [trial for trial in made if trial.floor == "broken" and trial.median_ms < known.best.median_ms]
    if broken:
        best = min(broken, key=lambda trial: trial.median_ms)
        why = f": {best.why}" if best.why else ""
        evidence = f"{best.variant} would be {_gain(known, best)}, and breaks the floor{why}."
        to_do = "Train with quantisation in mind, or allow more with --max-drop."
        return {"quantize": Finding("quantize", Standing.TO_DO, evidence, to_do)}
    evidence = f"None of {count} variants is surely faster on this device and keeps the floor; float stays."
    return {"quantize": Finding("quantize", Standing.GOOD, evidence)}


def _size_words(known: Evidence) -> str:
    change = known.best.size_bytes / max(1, known.base.size_bytes) - 1
    return f"{percent(abs(change))} {'smaller' if change <= 0 else 'larger'}"


def _gain(known: Evidence, trial: TuneTrial) -> str:
    ratio = known.best.median_ms / trial.median_ms if trial.median_ms else math.nan
    return f"{times_words(ratio)} times as fast as the best that is known to be right"


def _threads(known: Evidence) -> dict[str, Finding]:
    rows = [trial for trial in known.trials if trial.variant == ORIGINAL and _is_cpu(trial) and trial.latency]
    if len(rows) < 2:
        return {}
    told = ", ".join(f"{trial.plan.threads}: {milliseconds(trial.median_ms)}" for trial in rows)
    evidence = f"Latency by threads, from the race: {told}."
    return {"threads": Finding("threads", Standing.GOOD, evidence, "Beside other work: hasten threads.")}


def _is_cpu(trial: TuneTrial) -> bool:
    return trial.plan.accelerator == "cpu" and not trial.plan.delegate and trial.plan.kernel == "delegate"


def _accelerators(known: Evidence) -> dict[str, Finding]:
    tried = [trial for trial in known.trials if trial.plan.accelerator != "cpu" and trial.variant == ORIGINAL]
    if not tried:
        return {}
    told = "; ".join(f"{trial.plan.accelerator}: {_accelerator_words(trial)}" for trial in tried)
    ran = [trial for trial in tried if trial.latency is not None]
    if not ran:
        return {"accelerators": Finding("accelerators", Standing.NOT_EXAMINED, f"None runs the model here. {told}")}
    faster = [trial for trial in ran if trial.floor == UNKNOWN and trial.median_ms < known.best.median_ms]
    if faster:
        return {
            "accelerators": Finding(
                "accelerators",
                Standing.TO_DO,
                f"{told}. Without data nothing shows that its answers are right.",
                "Give labelled data with --data.",
            )
        }
    return {"accelerators": Finding("accelerators", Standing.GOOD, f"None is faster than the choice: {told}.")}


def _accelerator_words(trial: TuneTrial) -> str:
    if trial.latency is None:
        return trial.why or "did not run"
    words = f"{milliseconds(trial.median_ms)}"
    return words if trial.status in (TIMED, KEPT) or not trial.why else f"{words}, {trial.why}"


def _sentence(text: str) -> str:
    closed = text if text.endswith((".", "!", "?", ":")) else f"{text}:" if text[:1].isupper() else f"{text}."
    # The name of a variant stays as it is.
    return closed if "_" in closed.split(" ", 1)[0] else closed[:1].upper() + closed[1:]
