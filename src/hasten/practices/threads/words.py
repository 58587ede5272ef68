"""The phrases of a study of threads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from hasten.core import doubts
from hasten.core.cores import cores_text
from hasten.core.phrases import Phrase, Phrasebook, filled
from hasten.core.units import milliseconds, ratio_decimals, several
from hasten.practices.threads.facts import BUSY, QUIET, SHARED, Condition, Option

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hasten.core.phrases import Template

_WHERE: Final = {QUIET: "on an idle device", SHARED: "with half of the cores busy", BUSY: "with all cores busy"}
_NOT_PROVEN: Final = (
    "Use {than} {where}: {option} is not proven {gain:percent} faster (time ratio {ratio[ratio]:.{decimals}f},"
    " 95 % CI {ratio[ci95]:range}). {fewer}"
)
_LESS_CPU: Final = "Fewer threads use less CPU time."
_FREE_CORES: Final = "Fewer threads leave cores to other processes."


def option_words(option: Option | Mapping[str, Any]) -> str:
    """`2 threads on cores 0-1`."""
    threads, cores = (
        (option.threads, option.cores) if isinstance(option, Option) else (option["threads"], option["cores"])
    )
    where = f" on core{'s' if len(cores) > 1 else ''} {cores_text(cores)}" if cores else ""
    return f"{several(threads, 'thread')}{where}"


def condition_words(condition: Condition) -> str:
    """`idle device`, `1 core busy (compute)`."""
    if not condition.workers:
        return "idle device"
    return f"{several(condition.workers, 'core')} busy ({condition.kind})"


def situation_words(situation: str) -> str:
    """`on an idle device`."""
    return _WHERE.get(situation, situation)


def _raced(facts: Mapping[str, Any]) -> str:
    rows = ", ".join(f"{several(row['threads'], 'thread')} {milliseconds(row['median_ms'])}" for row in facts["rows"])
    of = facts.get("variant", "original")
    return f"Latency of {'the original' if of == 'original' else of} by threads, from the race: {rows}."


def _use(facts: Mapping[str, Any]) -> str:
    return f"Run the model with {facts['use']}." if "use" in facts else ""


def _in_words(facts: Mapping[str, Any]) -> dict[str, Any]:
    """The facts as templates take them: options and the situation are words."""
    options = {name: option_words(facts[name]) for name in ("option", "than", "later") if facts.get(name)}
    told = {
        "where": situation_words(facts.get("load", "")),
        "gain": 1 - facts.get("needed", 1.0),
        "fewer": _LESS_CPU if facts.get("less_cpu") else _FREE_CORES,
    }
    if facts.get("ratio"):
        told["decimals"] = ratio_decimals(facts["ratio"]["ci95"], 2)
    return {**facts, **options, **told}


def _phrase(text: str, hint: Template = "") -> Phrase:
    return Phrase(lambda facts: filled(text, _in_words(facts)), hint)


def _advice(text: str) -> Phrase:
    """A recommendation; one that was not measured on an idle device says so."""

    def told(facts: Mapping[str, Any]) -> str:
        later = " Going up to {later} does not gain another 5 % per doubling." if facts.get("later") else ""
        busy = " The device was not idle: other processes used {others:.1f} cores." if "others" in facts else ""
        return filled(f"{text}{later}{busy}", _in_words(facts))

    return Phrase(told, _use)


def _few_rounds(facts: Mapping[str, Any]) -> str:
    are = "is" if facts["rounds"] == 1 else "are"
    text = f"{{rounds:count round}} {are} too few to prove that {{option}} would be faster {{where}}. {{fewer}}"
    return filled(text, _in_words(facts))


def _idle(facts: Mapping[str, Any]) -> str:
    cause = "the model is too small to be split" if facts["seen"] is not None else "these kernels use one thread"
    text = "The setting has no effect: {option} kept {cores_used:.1f} cores busy, no more than with fewer threads;"
    return filled(f"{text} {cause}.", _in_words(facts))


PHRASES: Final[dict[str, Phrase]] = {
    "threads.faster": _advice("Use {option} {where}: {ratio:speedup} than {than}."),
    "threads.slower": _advice("Use {than} {where}: {option} would be {ratio:speedup}."),
    "threads.not-proven": _advice(_NOT_PROVEN),
    "threads.never-met": _advice("Use {than} {where}: {option} was in no round with it that nothing disturbed."),
    "threads.slower-beside": _advice(
        "Use {than} {where}: {option} is faster overall, but slower alongside {beside} work."
    ),
    "threads.unproven-beside": _advice(
        "Use {than} {where}: {option} is faster overall, but not proven as fast alongside {beside} work."
    ),
    "threads.contended": _advice(
        "Undecided {where}: {option} was {ratio:speedup} than {than}, but other processes used cores that it needs."
    ),
    "threads.few-rounds": Phrase(_few_rounds, _use),
    "threads.no-effect": _phrase("Use {option}: more threads have no effect on this model.", _use),
    "threads.nothing-else": _phrase("Only one thread count was measured {where}.", _use),
    "threads.not-measured": _phrase("Nothing was measured {where}."),
    "threads.not-examined": Phrase(
        "Only one thread count was timed.", "Raise --budget and continue with --resume, or run hasten threads."
    ),
    "threads.raced": Phrase(
        _raced, lambda facts: _use(facts) or "Run hasten threads to see how this changes under other load."
    ),
    "threads.raced-undecided": Phrase(
        lambda facts: f"{_raced(facts)} These rounds do not decide which is fastest.",
        "Run hasten threads on an idle machine, or raise --budget.",
    ),
    "threads.unsure": Phrase("More rounds could still change the recommendation.", "Measure longer (--seconds)."),
    "threads.effect": _phrase("The setting takes effect: {option} kept {cores_used:.1f} cores busy."),
    "threads.fewer-seen": _phrase("The setting has no effect: the plan asks for {option}, the process has {seen}."),
    "threads.one-core": _phrase("The effect of the setting is unknown: only one core can be used."),
    "threads.cores-taken": _phrase("The effect of the setting is unknown: other processes used {others:.1f} cores."),
    "threads.idle": Phrase(_idle),
    "threads.energy": Phrase(
        lambda facts: (
            "Energy per run: "
            + ", ".join(f"{row['energy_mj']:.3g} mJ with {option_words(row)}" for row in facts["rows"])
            + "."
        )
    ),
    "threads.no-counter": Phrase("This machine has no energy counter. Use the CPU time per run as an estimate."),
}
BOOK: Final = Phrasebook(PHRASES, doubts.PHRASES)
