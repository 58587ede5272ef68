"""The phrases of a tuning."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from hasten.core import accuracy_notes, doubts
from hasten.core.accuracy import Kind, value_text
from hasten.core.codec import bounds_from_data
from hasten.core.comparison import Verdict
from hasten.core.floor import FloorState
from hasten.core.goal import Goal, goal_in
from hasten.core.phrases import Phrase, Phrasebook
from hasten.core.remark import remark_from_data
from hasten.core.units import first_few, milliseconds, percent, several
from hasten.evaluate import trial_words, words
from hasten.evaluate.trial_words import better_word, change_words, lost_words, verdict_word
from hasten.practices.operators.words import BOOK as OPERATORS
from hasten.practices.quantize.rules import accuracy_facts, origin
from hasten.practices.quantize.words import OPTIMISTIC, made_words
from hasten.practices.quantize.words import PHRASES as VARIANTS
from hasten.variants.words import PHRASES as MADE

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from hasten.core.trial import Trial
    from hasten.search.facts import TuneFound


_GO_ON: Final = "Continue with --resume and a larger --budget."
_MOST_NAMES: Final = 3


def _unreachable(facts: Mapping[str, Any]) -> str:
    goal = Goal(facts["limit"])
    asked, nearest = goal.written(facts["asked"]), goal.written(facts["nearest"])
    return f"The {goal.value} limit of {asked} is out of reach; the best result is {nearest}."


def _not_reached(facts: Mapping[str, Any]) -> str:
    goal = Goal(facts["limit"])
    asked, nearest = goal.written(facts["asked"]), goal.written(facts["nearest"])
    return f"The {goal.value} limit of {asked} is not reached yet; the best result so far is {nearest}."


def _limit_undecided(facts: Mapping[str, Any]) -> str:
    goal = Goal(facts["limit"])
    asked = goal.written(facts["asked"])
    if "value" not in facts:
        return f"Whether the result keeps the {goal.value} limit of {asked} is unknown: it was not measured."
    interval = goal.range_written(bounds_from_data(facts["ci95"]))
    bounds = f" (95 % CI {interval})" if interval else ""
    value = goal.written(facts["value"])
    return f"Whether the result keeps the {goal.value} limit of {asked} is undecided: {value}{bounds}."


def _not_confirmed(facts: Mapping[str, Any]) -> str:
    return (
        f"{facts['trial']} led the race, but a comparison in fresh processes found it {verdict_word(facts)}"
        f" ({goal_in(facts).ratio_written(facts['ratio'], ())})."
    )


def _named(trials: Sequence[str]) -> str:
    """The first few trials; their names have commas inside."""
    more = len(trials) - _MOST_NAMES
    return "; ".join(trials[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else "")


def _left(singular: str, plural: str, verb: str) -> Callable[[Mapping[str, Any]], str]:
    """A sentence about trials by name: `2 candidates were not timed: A and B.`"""

    def told(facts: Mapping[str, Any]) -> str:
        names = facts["trials"]
        noun = singular if len(names) == 1 else plural
        be = "was" if len(names) == 1 else "were"
        return f"{len(names)} {noun} {be} not {verb} for lack of time: {_named(names)}."

    return told


def _undecided(facts: Mapping[str, Any]) -> str:
    names = facts["trials"]
    them = "it is" if len(names) == 1 else "they are"
    return (
        f"{several(len(names), 'candidate')} came close to the best: {_named(names)}. More rounds would show whether"
        f" {them} better."
    )


PHRASES: Final[dict[str, Phrase]] = {
    "tune.unreachable": Phrase(_unreachable),
    "tune.not-reached": Phrase(_not_reached, _GO_ON),
    "tune.broke-other-half": Phrase(
        lambda facts: (
            f"The choosing part of the data allowed {facts['trial']}, but on the reporting part it lost"
            f" {lost_words(facts['lost'])}, so it was not chosen."
        )
    ),
    "tune.unproven-on-reporting": Phrase(
        lambda facts: (
            f"{facts['trial']} is not proven to keep the floor on the reporting part of the data, which --strict asks"
            f" for, so it was not chosen: {change_words(facts['lost'])}"
        )
    ),
    "tune.not-confirmed": Phrase(
        _not_confirmed, "Continue with --resume and a larger --budget, or measure on an idle machine."
    ),
    "tune.simpler": Phrase(
        lambda facts: f"{facts['trial']} is no {better_word(facts)} than {facts['than']}, which is simpler."
    ),
    "tune.limit-undecided": Phrase(_limit_undecided, _GO_ON),
    "tune.energy-counter": Phrase(
        "Energy is read from the counters of the CPU packages during the runs, and includes their idle power."
    ),
    "tune.throughput-crew": Phrase(
        "Throughput is that of several runners at once: as many as the plan's threads leave room for on all cores."
    ),
    "tune.start-fresh": Phrase(
        "Start is the time from the file to the first result in a fresh process; the file is in the system's cache."
    ),
    "tune.stand-in": Phrase(lambda facts: f"The {facts['name'].upper()} here is {facts['what']}."),
    "tune.over-budget": Phrase(
        lambda facts: (
            f"The tuning took {facts['took_s']:.1f} s instead of"
            f" {facts['budget_s']:.1f} s: timing the original"
            " and confirming the choice take longer than this budget."
        )
    ),
    "tune.practices-by-latency": Phrase("The practices are judged by latency, unless a gain in {goal} is named."),
    "untried.plans": Phrase(_left("candidate", "candidates", "timed"), _GO_ON),
    "untried.recipes": Phrase(
        lambda facts: (
            f"{several(len(facts['recipes']), 'recipe')} {'was' if len(facts['recipes']) == 1 else 'were'} not tried"
            f" for lack of time: {first_few(facts['recipes'], _MOST_NAMES)}."
        ),
        _GO_ON,
    ),
    "untried.accuracy": Phrase(_left("promising candidate", "promising candidates", "tested for accuracy"), _GO_ON),
    "untried.undecided": Phrase(_undecided, _GO_ON),
    "untried.kernels": Phrase("Kernels were not tried in {variant} for lack of time.", _GO_ON),
    "untried.rewrites-of": Phrase("Rewriting these graphs was not tried for lack of time: {variants:list}.", _GO_ON),
    "untried.no-answer": Phrase("{trial} was not timed: it did not answer within {seconds:.0f} s.", _GO_ON),
    "untried.other-plans": Phrase("{variant} was not tried with all plans for lack of time.", _GO_ON),
    "untried.last-layer": Phrase("The last layer of {variant} was not fitted again for lack of time.", _GO_ON),
    "untried.rewrites": Phrase("The rewritten graph was not timed for lack of time.", _GO_ON),
    "untried.slow-nodes": Phrase(
        "{variant} was not tried with its slow operators kept in float for lack of time.", _GO_ON
    ),
    "untried.mix": Phrase("No mix of float and integers was searched for {variant} for lack of time.", _GO_ON),
    "untried.mix-option": Phrase(
        "No mix of float and integers was searched for {variant}, as --no-mix asks.", "Continue without --no-mix."
    ),
    "untried.practices": Phrase("No time was left to study these practices in full: {practices:list}.", _GO_ON),
    "untried.combinations": Phrase(
        "{count:large} of {total:count combination} of variant and plan were not timed: the variant or the plan was"
        " far behind in other combinations."
    ),
    "search.rewriting-refused": Phrase(
        lambda facts: f"{facts['variant']} was not raced. {OPERATORS.text(remark_from_data(facts['why']))}"
    ),
}
BOOK: Final = Phrasebook(
    PHRASES, VARIANTS, trial_words.PHRASES, words.PHRASES, MADE, accuracy_notes.PHRASES, doubts.phrases_with("--budget")
)


def verdict_words(found: TuneFound) -> str:
    """`2.5× faster (95 % CI 2.2–2.7), top-1 92.1 % → 91.8 % (floor kept), 74 % smaller.`"""
    beyond = "".join(f" {BOOK.text(missed)}" for missed in found.unreachable)
    if found.keeps_original:
        return f"{_why_it_stays(found)}{beyond}"
    size_first = found.goal is Goal.SIZE  # which _gain tells
    parts = [
        _gain(found),
        "" if found.goal is Goal.LATENCY else _latency(found),
        _accuracy(found.original, found.best),
        "" if size_first else _size(found.original, found.best),
    ]
    return f"{', '.join(part for part in parts if part)}.{_about_accuracy(found.best)}{beyond}"


def run_words(found: TuneFound) -> str:
    """What to run, and how: `int8+float9 on cpu, 2 threads: 1.25 ms`."""
    best = found.best
    what = "the original model" if best.variant == found.original.variant else made_words(origin(best))
    amount = best.amount(found.goal) if found.goal is not Goal.LATENCY else None
    figure = "" if amount is None else f"{found.goal.heading} {found.goal.written(amount.value)}, latency "
    return f"{what}, on {found.plan.describe()}: {figure}{milliseconds(best.median_ms)}"


def _gain(found: TuneFound) -> str:
    known, goal = found.against, found.decisive
    if known is None:
        return "Not timed against the original yet"
    if goal is Goal.SIZE:
        return goal.gain(known.ratio)
    if known.verdict is Verdict.UNDECIDED:
        better = f"Undecided{' so far' if found.final is None else ''} whether it is {_BETTER[goal]}"
        return f"{better} than the original ({goal.ratio_written(known.ratio, known.ci95)})"
    told = goal.gain(known.ratio, None if found.final is None else known.ci95)
    if known.verdict is Verdict.SAME:
        amount = found.best.amount(goal)
        figure = "" if amount is None else f" ({goal.written(amount.value)})"
        told = f"{'as fast' if goal is Goal.LATENCY else f'the same {goal.heading}'} as the original{figure}"
    return f"About {told} so far, not confirmed yet" if found.final is None else f"{told[:1].upper()}{told[1:]}"


def _latency(found: TuneFound) -> str:
    """The latency, where the goal is another: `latency 4.00 ms → 1.60 ms`."""
    if found.decisive is Goal.LATENCY:
        return ""
    before, after = (milliseconds(trial.median_ms) for trial in (found.original, found.best))
    return f"latency {before} → {after}"


def _accuracy(original: Trial, best: Trial) -> str:
    before, after = original.accuracy, best.accuracy
    if after is None:
        on_xnnpack = best.plan.runs_on_cpu and best.plan.kernel == "delegate"
        return "same outputs" if best.computes_as_original and on_xnnpack else ""
    if after.kind is Kind.AGREEMENT:
        return f"{after.metric} agreement with the original {value_text(after.metric, after.value)}"
    if before is None or before.metric != after.metric:
        return f"{after.metric} {value_text(after.metric, after.value)}"
    kept = " (floor kept)" if best.reported is not None and best.floor is FloorState.KEPT else ""
    return f"{after.metric} {value_text(before.metric, before.value)} → {value_text(after.metric, after.value)}{kept}"


def _about_accuracy(best: Trial) -> str:
    """What to know of the accuracy beside its figure: ` Accuracy undecided, −0.6 pp (95 % CI −2.8 to +1.5). …`"""
    known = accuracy_facts(best)
    if known is None:
        return ""
    told = words.verdict_text(known)
    undecided = (
        [f"{told[0].upper()}{told[1:]}.", words.samples_text(known)] if best.floor is FloorState.UNDECIDED else []
    )
    return "".join(f" {one}" for one in (*undecided, OPTIMISTIC if best.optimistic else "") if one)


def _size(original: Trial, best: Trial) -> str:
    if not original.size_bytes or best.size_bytes == original.size_bytes:
        return ""
    change = best.size_bytes / original.size_bytes - 1
    return f"{percent(abs(change))} {'smaller' if change < 0 else 'larger'}"


def _why_it_stays(found: TuneFound) -> str:
    tried = found.trials - 1
    if found.interrupted and tried < 1:
        return "Keep the original: nothing else was timed yet."
    if tried < 1:
        return "Keep the original: nothing else could be timed."
    others = "the only alternative is not" if tried == 1 else f"none of {tried} alternatives is"
    better = _BETTER[found.goal]
    return f"Keep the original: {others} proven {better} at the required accuracy."


_BETTER: Final = {
    Goal.LATENCY: "faster",
    Goal.SIZE: "smaller",
    Goal.ENERGY: "more energy-efficient",
    Goal.THROUGHPUT: "better in throughput",
    Goal.START: "faster to start",
}
