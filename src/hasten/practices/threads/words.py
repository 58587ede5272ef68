"""The phrases of a study of threads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from hasten.core import doubts
from hasten.core.cores import cores_text
from hasten.core.phrases import Phrase, Phrasebook
from hasten.core.units import milliseconds, percent, several, speedup
from hasten.practices.threads.facts import BUSY, COMPUTE, MEMORY, QUIET, SHARED, Condition, Option

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_WHERE: Final = {QUIET: "on an idle device", SHARED: "with half of the cores busy", BUSY: "with all cores busy"}
_WORK: Final = {COMPUTE: "compute", MEMORY: "memory", "": ""}


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
    return f"{several(condition.workers, 'core')} busy ({_WORK.get(condition.kind, condition.kind)})"


def situation_words(situation: str) -> str:
    """`on an idle device`."""
    return _WHERE.get(situation, situation)


def _faster(facts: Mapping[str, Any]) -> str:
    gain = speedup(facts["ratio"]["ratio"], facts["ratio"]["ci95"])
    text = (
        f"Use {option_words(facts['option'])} {situation_words(facts['load'])}: {gain} than"
        f" {option_words(facts['than'])}."
    )
    if facts["later"]:
        text += f" Going up to {option_words(facts['later'])} does not gain another 5 % per doubling."
    return text


def _slower(facts: Mapping[str, Any]) -> str:
    ratio = facts["ratio"]
    return (
        f"Use {option_words(facts['than'])} {situation_words(facts['load'])}:"
        f" {option_words(facts['option'])} would be {speedup(ratio['ratio'], ratio['ci95'])}."
    )


def _not_proven(facts: Mapping[str, Any]) -> str:
    low, high = facts["ratio"]["ci95"]
    return (
        f"Use {option_words(facts['than'])} {situation_words(facts['load'])}: {option_words(facts['option'])} did not"
        f" prove to be {percent(1 - facts['needed'])} faster (time ratio {facts['ratio']['ratio']:.2f},"
        f" 95 % CI {low:.2f}–{high:.2f}). Fewer threads cost less energy."
    )


def _slower_beside(facts: Mapping[str, Any]) -> str:
    return (
        f"Use {option_words(facts['than'])} {situation_words(facts['load'])}: {option_words(facts['option'])} is faster"
        f" overall, but slower beside {_WORK[facts['beside']]} work."
    )


def _few_rounds(facts: Mapping[str, Any]) -> str:
    rounds = f"{several(facts['rounds'], 'round')} {'is' if facts['rounds'] == 1 else 'are'}"
    return (
        f"{rounds} too few to prove that {option_words(facts['option'])} would be faster"
        f" {situation_words(facts['load'])}. Fewer threads cost less energy."
    )


def _raced(facts: Mapping[str, Any]) -> str:
    rows = ", ".join(f"{several(row['threads'], 'thread')} {milliseconds(row['median_ms'])}" for row in facts["rows"])
    return f"Latency of the original by threads, from the race: {rows}."


def _use(facts: Mapping[str, Any]) -> str:
    return f"Run the model with {facts['use']}." if "use" in facts else ""


def _seen(text: str) -> Phrase:
    return Phrase(lambda facts: text.format(**{**facts, "option": option_words(facts["option"])}))


def _advice(text: Callable[[Mapping[str, Any]], str]) -> Phrase:
    """A recommendation; one that was not measured on an idle device says so."""

    def told(facts: Mapping[str, Any]) -> str:
        busy = (
            f" The device was not idle: other processes used {facts['others']:.1f} cores." if "others" in facts else ""
        )
        return f"{text(facts)}{busy}"

    return Phrase(told, _use)


def _idle(facts: Mapping[str, Any]) -> str:
    cause = "the model is too small to be split" if facts["seen"] is not None else "these kernels use one thread"
    return (
        f"The setting has no effect: {option_words(facts['option'])} kept {facts['cores_used']:.1f} cores busy, no more"
        f" than fewer threads do; {cause}."
    )


PHRASES: Final[dict[str, Phrase]] = {
    "threads.faster": _advice(_faster),
    "threads.slower": _advice(_slower),
    "threads.not-proven": _advice(_not_proven),
    "threads.never-met": _advice(_not_proven),
    "threads.slower-beside": _advice(_slower_beside),
    "threads.few-rounds": Phrase(_few_rounds, _use),
    "threads.no-effect": Phrase(
        lambda facts: f"Use {option_words(facts['option'])}: more threads have no effect on this model.", _use
    ),
    "threads.nothing-else": Phrase(
        lambda facts: f"Only one thread count was measured {situation_words(facts['load'])}.", _use
    ),
    "threads.not-measured": Phrase(lambda facts: f"Nothing was measured {situation_words(facts['load'])}."),
    "threads.not-examined": Phrase(
        "Only one thread count was timed.", "Raise --budget and continue with --resume, or run hasten threads."
    ),
    "threads.raced": Phrase(_raced, "Run hasten threads to see how this changes beside other work."),
    "threads.unsure": Phrase("More rounds could still change the recommendation.", "Measure longer (--seconds)."),
    "threads.effect": _seen("The setting takes effect: {option} kept {cores_used:.1f} cores busy."),
    "threads.fewer-seen": _seen("The setting has no effect: the plan asks for {option}, the process has {seen}."),
    "threads.one-core": _seen("The effect of the setting is unknown: only one core can be used."),
    "threads.cores-taken": _seen("The effect of the setting is unknown: other processes used {others:.1f} cores."),
    "threads.idle": Phrase(_idle),
    "threads.energy": Phrase(
        lambda facts: (
            "Energy per run: "
            + ", ".join(f"{row['energy_mj']:.3g} mJ with {option_words(row)}" for row in facts["rows"])
            + "."
        )
    ),
    "threads.no-counter": Phrase("This machine has no energy counter; CPU time per run stands for energy."),
}
BOOK: Final = Phrasebook(PHRASES, doubts.PHRASES)
