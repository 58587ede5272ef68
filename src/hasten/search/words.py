"""The phrases of a tuning."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from hasten.core import accuracy_notes, doubts
from hasten.core.accuracy import Kind, value_text
from hasten.core.floor import FloorState
from hasten.core.phrases import Phrase, Phrasebook
from hasten.core.trial import REWRITTEN
from hasten.core.units import milliseconds, percent, size, speedup, times
from hasten.evaluate import trial_words, words
from hasten.evaluate.trial_words import change_words, lost_words
from hasten.practices.quantize.rules import accuracy_facts
from hasten.practices.quantize.words import OPTIMISTIC, made_words
from hasten.practices.quantize.words import PHRASES as VARIANTS
from hasten.variants.words import PHRASES as MADE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hasten.core.trial import Trial
    from hasten.search.facts import TuneFound


def _unreachable(facts: Mapping[str, Any]) -> str:
    written = milliseconds if facts["limit"] == "latency" else size
    asked, nearest = written(facts["asked"]), written(facts["nearest"])
    return f"The {facts['limit']} limit of {asked} is out of reach; the best result is {nearest}."


PHRASES: Final[dict[str, Phrase]] = {
    "tune.unreachable": Phrase(_unreachable),
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
        "{trial} led the race, but a comparison in fresh processes found it {verdict} (time ratio {ratio:.2f}).",
        "Raise --budget, or measure on an idle machine.",
    ),
    "tune.simpler": Phrase("{trial} is no faster than {than}, which is simpler."),
}
BOOK: Final = Phrasebook(
    PHRASES, VARIANTS, trial_words.PHRASES, words.PHRASES, MADE, accuracy_notes.PHRASES, doubts.phrases_with("--budget")
)


def verdict_words(found: TuneFound) -> str:
    """`2.5× faster (95 % CI 2.2–2.7), top-1 92.1 % → 91.8 % (floor kept), 74 % smaller.`"""
    beyond = "".join(f" {BOOK.text(missed)}" for missed in found.unreachable)
    if found.keeps_original:
        return f"{_why_it_stays(found)}{beyond}"
    parts = [_speed(found), _accuracy(found.original, found.best), _size(found.original, found.best)]
    return f"{', '.join(part for part in parts if part)}.{_about_accuracy(found.best)}{beyond}"


def run_words(found: TuneFound) -> str:
    """What to run, and how: `int8+float9 on cpu, 2 threads: 1.25 ms`."""
    best = found.best
    made = {"variant": best.variant, "recipe": best.recipe, "float_nodes": len(best.float_nodes)}
    what = "the original model" if best.variant == found.original.variant else made_words(made)
    return f"{what}, on {best.plan.describe()}: {milliseconds(best.median_ms)}"


def _speed(found: TuneFound) -> str:
    known = found.against
    if known is None:
        return "Not timed against the original yet"
    if known.ratio > 1:
        return f"{times(known.ratio)} the original's time"
    if found.final is None:
        return f"About {speedup(known.ratio)} so far, not confirmed yet"
    if found.is_confirmed:
        return speedup(known.ratio, known.ci95)
    return f"As fast as the original ({milliseconds(found.best.median_ms)})"


def _accuracy(original: Trial, best: Trial) -> str:
    before, after = original.accuracy, best.accuracy
    if after is None:
        on_xnnpack = best.plan.runs_on_cpu and best.plan.kernel == "delegate"
        return "same outputs" if best.variant in (original.variant, REWRITTEN) and on_xnnpack else ""
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
    return f"Keep the original: {others} proven faster at the required accuracy."
