"""The phrases of what became of trials, whatever command shows them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from hasten.core.codec import from_data
from hasten.core.comparison import Verdict
from hasten.core.floor import Floor
from hasten.core.goal import Goal, goal_in
from hasten.core.phrases import Phrase, Phrasebook
from hasten.core.remark import Remark, remark_from_data
from hasten.core.units import percent, times
from hasten.evaluate import words

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def lost_words(lost: Mapping[str, Any]) -> str:
    """A loss against a floor, as facts of a remark hold it."""
    return words.loss_text(from_data(Floor, lost["floor"]), lost["drop"])


def change_words(lost: Mapping[str, Any]) -> str:
    """A loss with its interval, and what would decide, as facts of a remark hold them."""
    facts = {**lost, "metric": lost["floor"]["metric"]}
    change = words.change_text(facts["metric"], facts["drop"], facts["ci95"])
    return " ".join(filter(None, (f"{change}.", words.samples_text(facts))))


def longer_words(ratio: float) -> str:
    """`12 % longer than`, `3.2× as long as`."""
    return f"{percent(ratio - 1)} longer than" if ratio < 2 else f"{times(ratio)} as long as"


def _larger_words(ratio: float) -> str:
    return f"{percent(ratio - 1)} larger than" if ratio < 2 else f"{times(ratio)} as large as"


_COSTS_MORE: Final[dict[Goal, Callable[[float, str], str]]] = {
    Goal.LATENCY: lambda ratio, than: f"It takes {longer_words(ratio)} {than}.",
    Goal.SIZE: lambda ratio, than: f"Its file is {_larger_words(ratio)} that of {than}.",
    Goal.ENERGY: lambda ratio, than: f"It uses {times(ratio)} as much energy as {than}.",
    Goal.THROUGHPUT: lambda ratio, than: f"Its throughput is {percent(1 / ratio)} of that of {than}.",
    Goal.START: lambda ratio, than: f"Its start takes {longer_words(ratio)} that of {than}.",
}


def verdict_word(facts: Mapping[str, Any]) -> str:
    """The verdict of a comparison by the goal; that of latencies is its own word."""
    verdict = str(facts["verdict"])
    if goal_in(facts) is Goal.LATENCY:
        return verdict
    return {Verdict.FASTER.value: "better", Verdict.SLOWER.value: "worse"}.get(verdict, verdict)


def better_word(facts: Mapping[str, Any]) -> str:
    """`faster`, or `better` where the goal was another."""
    return "faster" if goal_in(facts) is Goal.LATENCY else "better"


def _undecided(facts: Mapping[str, Any]) -> str:
    why = "--strict asks for proof" if facts["strict"] else "the estimate is beyond the floor"
    return f"Whether it keeps the floor is undecided, and {why}: {change_words(facts['lost'])}"


def _ruined(facts: Mapping[str, Any]) -> str:
    off = percent(facts["error"]) if facts["error"] < 10 else "more than 1000 %"
    return f"The floor is kept in {facts['judged']!r}, but {facts['output']!r} is {off} off."


def _set_aside(facts: Mapping[str, Any]) -> str:
    if "looks" in facts:
        return (
            f"{facts['looks']} faster variants failed on the reporting part of the data, and no more are tried there."
        )
    return "Two faster variants failed on the reporting part of the data. With --strict, no third one is tried there."


PHRASES: Final[dict[str, Phrase]] = {
    "trial.failed": Phrase("{message}"),
    "trial.slower": Phrase(lambda facts: _COSTS_MORE[goal_in(facts)](facts["ratio"], facts["than"])),
    "trial.overtaken": Phrase(
        lambda facts: f"It dropped out against {facts['than']}; later rounds leave open which is {better_word(facts)}."
    ),
    "trial.beyond-limit": Phrase(
        lambda facts: (
            f"Its {facts['limit']} of {Goal(facts['limit']).written(facts['value'])} is beyond the limit of"
            f" {Goal(facts['limit']).written(facts['asked'])}."
        )
    ),
    "trial.timed-as": Phrase("It runs on the same kernels as {trial}, and has its time."),
    "trial.no-data": Phrase("Without data, nothing shows that it keeps its accuracy."),
    "trial.loses": Phrase(lambda facts: f"It loses {lost_words(facts['lost'])}, more than the floor allows."),
    "trial.undecided": Phrase(_undecided),
    "trial.loses-on-other-half": Phrase(
        lambda facts: (
            "The choosing part of the data allowed it, but on the reporting part it loses"
            f" {lost_words(facts['lost'])}, more than the floor allows."
        )
    ),
    "trial.unproven-on-reporting": Phrase(
        lambda facts: (
            "It is not proven to keep the floor on the reporting part of the data, which --strict asks for:"
            f" {change_words(facts['lost'])}"
        )
    ),
    "trial.set-aside": Phrase(_set_aside),
    "trial.ruined-output": Phrase(_ruined),
    "trial.no-answer": Phrase("It did not answer within {seconds:.0f} s, which is all that the budget allows for."),
    "trial.not-confirmed": Phrase(
        lambda facts: f"A comparison in fresh processes found it {verdict_word(facts)}, not {better_word(facts)}."
    ),
    "trial.no-faster": Phrase(lambda facts: f"It is no {better_word(facts)} than {facts['than']}, which is simpler."),
}
TRIALS: Final = Phrasebook(PHRASES, words.PHRASES)


def why_words(why: Remark | Mapping[str, Any] | str) -> str:
    """A trial's reason in words, also where it stands as plain data among the facts of another remark."""
    return TRIALS.text(why if isinstance(why, Remark) else remark_from_data(why))
