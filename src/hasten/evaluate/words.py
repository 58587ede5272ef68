"""The words of evaluation: the floor, a loss, and whether the data can decide anything."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from hasten.core import accuracy_notes
from hasten.core.accuracy import Kind, is_share
from hasten.core.codec import to_data
from hasten.core.floor import POINTS, SHARE, Floor, FloorState
from hasten.core.phrases import Phrase, Phrasebook
from hasten.core.units import percent, percentage_points, several

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hasten.core.remark import Remark

# Why nothing can be chosen by the data.
BY_CHANCE: Final = "evaluate.by-chance"
BLIND: Final = "evaluate.blind"
NO_FLOOR: Final = "evaluate.no-floor"
TOO_FEW: Final = "evaluate.too-few"
# What a reader should know about a choice by the data.
GUESSING: Final = "evaluate.guessing"
ALWAYS_RIGHT: Final = "evaluate.always-right"
COSINE_OF_ONE: Final = "evaluate.cosine-of-one"
ONE_CLASS: Final = "evaluate.one-class"
ONE_ANSWER: Final = "evaluate.one-answer"
NOTHING_ALLOWED: Final = "evaluate.nothing-allowed"
FEWER_THAN_NEEDED: Final = "evaluate.fewer-than-needed"
ONE_LABEL: Final = "evaluate.one-label"
COARSE: Final = "evaluate.coarse"
FEW: Final = "evaluate.few"

_OTHER_METRIC: Final = "Choose another --metric."
_MORE_DATA: Final = "Give more data."


def _only(facts: Mapping[str, Any]) -> str:
    count = facts["samples"]
    return f"There {'is' if count == 1 else 'are'} only {several(count, 'sample')} to choose by"


def _guessing(facts: Mapping[str, Any]) -> str:
    better = "not significantly better" if facts["above_chance"] else "no better"
    return (
        f"The original is right on {facts['right']} of {several(facts['samples'], 'sample')}, {better} than chance"
        f" ({facts['k']} in {facts['classes']} classes)."
    )


def _check(facts: Mapping[str, Any]) -> str:
    more = ", or give more data" if facts["above_chance"] else ""
    return f"Check the labels, --label-offset and --preprocess{more}."


PHRASES: Final[dict[str, Phrase]] = {
    BY_CHANCE: Phrase("On this data, the original itself is not significantly better than chance."),
    BLIND: Phrase("{metric} cannot show a loss on this data."),
    NO_FLOOR: Phrase("The original's {metric} is 0, so there is no basis for a relative loss."),
    TOO_FEW: Phrase(lambda facts: f"{_only(facts)}."),
    GUESSING: Phrase(_guessing, _check),
    # Sessions of earlier releases have this one; such a metric is refused now.
    ALWAYS_RIGHT: Phrase("{metric} of {classes} classes is always right and shows nothing.", _OTHER_METRIC),
    COSINE_OF_ONE: Phrase("The cosine of a single value is 1, whatever the value is.", _OTHER_METRIC),
    ONE_CLASS: Phrase(
        "The masks hold a single class besides 255, whose pixels do not count.",
        "Write 1 where 255 is a class, or choose another --metric.",
    ),
    ONE_ANSWER: Phrase(
        "The highest output is number {output} for all {samples:count sample}, which a broken variant can match.",
        _OTHER_METRIC,
    ),
    NOTHING_ALLOWED: Phrase(
        "No floor can be set: the original's {metric} is 0, and so is {max_drop:percent} of it.",
        "Use --max-drop 0 to allow no loss at all.",
    ),
    FEWER_THAN_NEEDED: Phrase(
        "A choice needs {needed} samples to choose by. This data has only {samples} (and the rest to report on).",
        _MORE_DATA,
    ),
    ONE_LABEL: Phrase(
        "{share:percent} of the samples have the same label. Always answering that label may be as good as the original"
        " ({value:percent}), so this data cannot show whether the preprocessing is right."
    ),
    COARSE: Phrase(
        "With {samples:count sample} to choose by, one miss costs {miss:percent}, and only {max_drop:percent} may be"
        " lost: the floor can hardly be decided.",
        _MORE_DATA,
    ),
    FEW: Phrase(lambda facts: f"{_only(facts)}: the floor can hardly be decided.", _MORE_DATA),
}
BOOK: Final = Phrasebook(PHRASES, accuracy_notes.PHRASES)


def told(remark: Remark) -> str:
    """A remark with what to do about it."""
    return " ".join(filter(None, (BOOK.text(remark), BOOK.hint(remark))))


def loss_text(floor: Floor, drop: float) -> str:
    """A loss in the unit of the floor: `1.2 %`, `0.02 of mae (2.0 % of the original's)`."""
    if floor.unit == SHARE:
        return percent(drop)
    part = f" ({percent(drop / floor.relative_to)} of {_base(floor)})" if floor.relative_to else ""
    return f"{drop:.3g} of {floor.metric}{part}"


def change_text(metric: str, drop: float, ci95: Sequence[float | None]) -> str:
    """A change of accuracy with its interval: `−0.6 pp (95 % CI −2.8 to +1.5)`; of other units, what is lost."""
    known = [end for end in ci95 if end is not None and math.isfinite(end)]
    if is_share(metric):
        ends = [percentage_points(0.0 - end).removesuffix(" pp") for end in reversed(known)]
        told = percentage_points(0.0 - drop)
    else:
        ends = [f"{end:.3g}".replace("-", "−") for end in known]
        told = f"{abs(drop):.3g} of {metric} {'lost' if drop >= 0 else 'gained'}"
    return f"{told} (95 % CI {ends[0]} to {ends[1]})" if len(ends) == 2 else told


def verdict_text(facts: Mapping[str, Any]) -> str:
    """How a model stands against its floor, by the facts of a verdict, the metric and the kind of the figure:
    `accuracy undecided, −0.6 pp (95 % CI −2.8 to +1.5)`, `agreement undecided, …`."""
    change = change_text(facts["metric"], facts["drop"], facts["ci95"])
    what = kind_text(Kind(facts.get("kind", Kind.ACCURACY)), facts["metric"])
    state = FloorState(facts["state"])
    return f"{what} undecided, {change}" if state is FloorState.UNDECIDED else f"{what} floor {state.value}, {change}"


def kind_text(kind: Kind, metric: str) -> str:
    """What a figure is: without labels, nothing shows the accuracy."""
    if kind is Kind.ACCURACY:
        return "accuracy"
    return "deviation" if metric == "mae" else "agreement"


def samples_text(facts: Mapping[str, Any]) -> str:
    """What an undecided verdict needs: `About 4,200 samples would decide; the 400 here can only show that a drop of
    3.2 pp or more breaks the floor.` Sessions of before do not know the latter."""
    if facts["state"] != FloorState.UNDECIDED.value:
        return ""
    needed, samples, shown = facts["samples_needed"], facts["samples"], facts.get("smallest_beyond")
    enough = "No number of samples would decide" if needed is None else f"About {needed:,} samples would decide"
    if shown is None or not math.isfinite(shown):
        return f"{enough}; there are {samples:,}."
    could = percentage_points(shown).lstrip("+") if is_share(facts["metric"]) else f"{shown:.3g}"
    return f"{enough}; the {samples:,} here can only show that a drop of {could} or more breaks the floor."


def floor_text(floor: Floor, original: str = "the original") -> str:
    """The floor in words, with the name of the original."""
    if floor.kind == POINTS:
        if floor.unit != SHARE:
            return f"at most {floor.max_drop:.3g} of {floor.metric} lost"
        points = f"{100 * floor.max_drop:.3g}"
        return f"at most {points} percentage point{'' if points == '1' else 's'} of {floor.metric} lost"
    if floor.allowed is None:
        return f"none: {original}'s {floor.metric} is 0, and so is {percent(floor.max_drop)} of it"
    if not floor.original and floor.max_drop:
        return f"{floor.metric} at most {floor.allowed:.3g}, {percent(floor.max_drop)} of {_base(floor)}"
    allowed = f"{percent(floor.max_drop)} ({floor.allowed:.3g})"
    return f"{floor.metric} at most {allowed} worse than {original}'s {floor.original or 0.0:.3g}"


def floor_data(floor: Floor) -> dict[str, Any]:
    """The floor for sessions and `--json`, with its words."""
    return {**to_data(floor), "text": floor_text(floor)}


def _base(floor: Floor) -> str:
    return "the original's" if floor.original else "the mean magnitude of the outputs"
