"""The phrases of a retraining."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from hasten.core import accuracy_notes
from hasten.core.phrases import Phrase, Phrasebook
from hasten.core.units import percentage_points, several, times

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

FITS: Final = "retrain.fits"
BY_MAJORITY: Final = "retrain.by-majority"
BY_CHANCE: Final = "retrain.by-chance"
REPEATED: Final = "retrain.repeated"
SHARED: Final = "retrain.shared"
FEW_TESTED: Final = "retrain.few-tested"
UNEVEN: Final = "retrain.uneven"
DIFFERS: Final = "retrain.differs"
FIRST_SKIPPED: Final = "retrain.first-skipped"
MORE_HELPS: Final = "retrain.more-helps"
MORE_UNPROVEN: Final = "retrain.more-unproven"
LOST_BY_INTEGERS: Final = "retrain.lost-by-integers"
BETTER_WAY: Final = "retrain.better-way"
NO_BETTER_WAY: Final = "retrain.no-better-way"

METRICS: Final = {"top-1": "top-1 accuracy", "exact match": "exact-match rate"}
_ARTICLES: Final = {"exact match": "an"}
SUBJECTS: Final = {"head": "new head", "fine-tune": "fine-tuned network", "qat": "network trained for int8"}
RIVALS: Final = {"majority": "the most common class", "neighbors": "5 nearest neighbors"}
WAYS: Final = {"head": "New head", "fine-tune": "Fine-tuning", "qat": "Quantization-aware training"}


def share_range(interval: Sequence[float]) -> str:
    """The interval of a share: 88.1–95.2 %."""
    low, high = interval
    return f"{low * 100:.1f}–{high * 100:.1f} %"


def share(value: float) -> str:
    """A share of right predictions, with a digit after the point: intervals stand next to it."""
    return f"{value * 100:.1f} %"


def change_text(change: Mapping[str, Any]) -> str:
    """A difference of two shares with its interval: +2.0 pp (95 % CI −0.5 to +4.4)."""
    low, high = (percentage_points(end).removesuffix(" pp") for end in change["ci95"])
    return f"{percentage_points(change['difference'])} (95 % CI {low} to {high})"


def _accuracy(facts: Mapping[str, Any]) -> str:
    metric = facts["metric"]
    right = f"{share(facts['test'])} on {several(facts['samples'], 'test sample')}"
    figure = f"{_ARTICLES.get(metric, 'a')} {METRICS.get(metric, metric)} of {right}"
    return f"The {SUBJECTS[facts['way']]} reaches {figure} (95 % CI {share_range(facts['interval'])})"


def _fits(facts: Mapping[str, Any]) -> str:
    against = ", ".join(f"{change_text(change)} against {RIVALS[name]}" for name, change in facts["against"].items())
    return f"{_accuracy(facts)}: {against}." if against else f"{_accuracy(facts)}."


def _by_majority(facts: Mapping[str, Any]) -> str:
    return f"{_accuracy(facts)}, which is not proven better than {RIVALS['majority']}."


def _by_chance(facts: Mapping[str, Any]) -> str:
    return f"{_accuracy(facts)}, which is not proven better than chance ({share(1 / facts['classes'])})."


def _differs(facts: Mapping[str, Any]) -> str:
    return (
        f"The written file predicts {facts['samples']} of {several(facts['total'], 'test sample')}"
        " differently from embeddings and head."
    )


_LEARN_MORE: Final = (
    "Do not ship it: give more samples of each class, check the labels and --preprocess, or use another backbone."
)
PHRASES: Final[dict[str, Phrase]] = {
    FITS: Phrase(_fits),
    BY_MAJORITY: Phrase(_by_majority, _LEARN_MORE),
    BY_CHANCE: Phrase(_by_chance, _LEARN_MORE),
    REPEATED: Phrase("The data holds copies ({samples:count sample}); hasten keeps copies in the same part."),
    SHARED: Phrase(
        lambda facts: (
            f"{several(facts['samples'], 'sample')} of the data to learn from "
            f"{'is' if facts['samples'] == 1 else 'are'} also in the test data. They were not learned from."
        )
    ),
    FEW_TESTED: Phrase("There are only {samples:count test sample}.", "Give more data, or a larger --test-share."),
    UNEVEN: Phrase(
        lambda facts: (
            f"The largest class has {times(facts['ratio'])} the samples of the smallest:"
            " each class counts alike in the fit."
        ),
        "Use --class-weights none where common classes matter more.",
    ),
    DIFFERS: Phrase(_differs),
    FIRST_SKIPPED: Phrase("The first sample that was skipped is {name}: {reason}"),
    MORE_HELPS: Phrase(
        lambda facts: f"The last doubling of the samples brought {change_text(facts['change'])}.",
        "More samples should help further.",
    ),
    MORE_UNPROVEN: Phrase(
        lambda facts: f"The last doubling of the samples brought {change_text(facts['change'])}, which is not proven.",
        "More test samples would show whether more samples to learn from help.",
    ),
    LOST_BY_INTEGERS: Phrase(
        lambda facts: (
            f"Before quantization the test accuracy was {share(facts['before'])},"
            f" after it is {share(facts['after'])} ({percentage_points(facts['after'] - facts['before'])})."
        )
    ),
    BETTER_WAY: Phrase(
        lambda facts: f"{WAYS[facts['way']]} is better than a new head alone: {change_text(facts['change'])}."
    ),
    NO_BETTER_WAY: Phrase(
        lambda facts: (
            f"{WAYS[facts['way']]} is not proven better than a new head alone: {change_text(facts['change'])}."
        )
    ),
}
BOOK: Final = Phrasebook(PHRASES, accuracy_notes.PHRASES)
